"""Objects as annotation tools export them: Prodigy, Label Studio and argilla. Those of doccano are objects with text and label already."""

from collections.abc import Mapping
from typing import Any

from mha_cli.errors import MhaError, listed, printable

Answer = list[Any]  # the labels that a person gave a text


def text_and_label(values: dict[str, Any], location: str) -> dict[str, Any] | None:
    """An object of a tool with ``text`` and ``label``; None for a text without an answer, or with answers that differ. Others stay.

    One label is a string. Several are a list, and so is each one where the tool lets a text have several.
    """
    found = _answers(values, location)
    if found is None:
        return values
    text, answers, are_several = found
    if not answers or answers.count(answers[0]) < len(answers) or not (answers[0] or are_several):
        return None
    labels = answers[0]
    return {**values, "text": text, "label": labels if are_several or len(labels) > 1 else labels[0]}


def _answers(values: Mapping[str, Any], location: str) -> tuple[Any, list[Answer], bool] | None:
    """The text, the labels that each person gave it, and whether it may have several; None for objects that are of no tool."""
    match values:
        case {"text": text, "answer": "accept" | "reject" | "ignore" as answer, "accept": [*labels]}:  # Prodigy's choices
            style = values["config"].get("choice_style") if isinstance(values.get("config"), dict) else None
            return text, [labels] if answer == "accept" else [], style == "multiple"
        case {"text": text, "answer": "accept" | "reject" | "ignore" as answer, "label": label}:
            return text, [[label]] if answer == "accept" else [], False  # a rejected label does not say which one is right
        case {"data": {**data}, "annotations": [*annotations]}:  # Label Studio's tasks
            choices = [_choices(annotation) for annotation in annotations]
            _refuse_several({name for of_person in choices for name in of_person}, "choices", location)
            return _text_of(data), [labels for of_person in choices for labels in of_person.values()], False
        case {"fields": {**fields}, "responses": {**questions}}:  # argilla's records
            _refuse_several({*map(str, questions)}, "responses", location)
            given = [_value(response) for responses in questions.values() if isinstance(responses, list) for response in responses]
            given = [value for value in given if value is not None]
            are_lists = any(isinstance(value, list) for value in given)
            return _text_of(fields), [sorted(map(str, value)) if isinstance(value, list) else [value] for value in given], are_lists
    return None


def _choices(annotation: Any) -> dict[str, Answer]:
    """The labels that a person chose, by the control that asks for them; none where the person has skipped the text."""
    found = dict[str, Answer]()
    match annotation:
        case {"was_cancelled": True}:
            pass
        case {"result": [*results]}:
            for result in results:
                match result:
                    case {"type": "choices", "from_name": name, "value": {"choices": [*labels]}}:
                        found[str(name)] = sorted({*found.get(str(name), []), *map(str, labels)})
    return found


def _value(response: Any) -> Any:
    """What a person has submitted; None for drafts and discarded responses."""
    match response:
        case {"value": value, "status": "submitted"}:
            return value
    return None


def _text_of(columns: Mapping[Any, Any]) -> Any:
    """The column ``text``, else the longest string."""
    return columns.get("text", max((value for value in columns.values() if isinstance(value, str)), key=len, default=""))


def _refuse_several(names: set[str], what: str, location: str) -> None:
    if len(names) > 1:
        shown = listed(sorted(map(printable, names)), 5)
        raise MhaError(f"{location}: an annotation tool's {what} to several questions: {shown}", "export one of them alone")
