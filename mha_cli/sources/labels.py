"""Class names: the one function that makes them from labels, whatever the source of the labels."""

import json
import re
import unicodedata
from ast import literal_eval
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from mha_cli.errors import MhaError, listed, printable
from mha_cli.records.objects import json_kind, without_surrogates
from mha_cli.records.reader import StreamWarnings
from mha_cli.sources.labelled_text import LabelledText, place_of
from mha_cli.text.patterns import all_latin, unformatted

NAMED_CLASSES = 5  # classes that a message names
LEAVE_OUT = "give every text a class, or leave the row out"
ONE_VALUE = "give every text a class: a string, a whole number, true or false"
ONE_MARK = "write 1 or 0, true or false, yes or no, x or nothing"
ONE_CLASS = "give every text one class, as the model does"
_MISSING = {"None", "nan", "NaN", "NaT", "<NA>"}  # how Python, NumPy and pandas spell a value that is missing
ODD_NAMES = _MISSING | {"null", "NULL", "NA", "N/A", "n/a", "#N/A", "#NULL!", "#VALUE!", "#REF!", "#NAME?", r"\N"}  # that may mean no label
_QUOTED = re.compile(r"""'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*\"""")
_LIST = re.compile(rf"[\[({{](?:[\s,]*(?:{_QUOTED.pattern}))*[\s,]*[\])}}]|set\(\)")
"""Strings in quotes, and lists, tuples and sets of them, as Python, NumPy, pandas and JSON write them into a cell."""
_WHOLE = re.compile(r"(-?\d+)\.0+", re.ASCII)
_MARKS = dict.fromkeys(("1", "true", "yes", "x"), True) | dict.fromkeys(("0", "false", "no", ""), False)
_TRUTH = {"true": "True", "false": "False"}
_ZERO_WIDTH_SPACE = "\u200b"


def labelled(
    text: str, label: object, file: str, line: int | None = None, group: object = None, *, column: str = "", separator: str | None = None
) -> LabelledText:
    """A text with the name of its class, or with the names in a list of labels; ``column`` is for messages.

    With a ``separator``, every text has a list of labels: a string is split, and a missing label is an empty list, like an empty cell.
    An object has a mark for each label.
    """
    if isinstance(label, dict):  # a mark for each label, or Label Studio's short form
        label = label["choices"] if isinstance(label.get("choices"), list) else marked(label, place_of(file, line))
    if separator is not None or is_list(label):
        return LabelledText(text, class_names(label, place_of(file, line), column, separator), file, line, group)
    return LabelledText(text, class_name(label, place_of(file, line), column), file, line, group)


def mark_of(value: object) -> bool | None:
    """Whether the cell of a column that is a label says that a text has it; None for a value that says neither."""
    return False if is_missing(value) else _MARKS.get(name_of(str(value)).casefold()) if isinstance(value, str | int | float) else None


def marked(marks: Mapping[str, object], location: str) -> list[str]:
    """The labels of a text by columns that are a label each."""
    for name, value in marks.items():
        if mark_of(value) is None:
            shown = json_kind(value) if isinstance(value, str | int | float | list | dict) else f"a {type(value).__name__}"
            raise MhaError(f"{location}: the label {printable(name)} is {shown}", ONE_MARK)
    return [name for name, value in marks.items() if mark_of(value)]


def merged(
    texts: Iterable[LabelledText], merge_labels: Mapping[str, str | None], warnings: StreamWarnings | None = None
) -> Iterator[LabelledText]:
    """The same texts with the labels of ``data.merge_labels`` replaced, however it spells them.

    A label without another name is left out, and with it a text that has no other. ``warnings`` count these texts, and name the labels that
    no text has.
    """
    others, warnings = {name_of(label): name_of(other or "") for label, other in merge_labels.items()}, warnings or StreamWarnings()
    warnings.merged.update(others)
    for text in texts:
        names = (text.label,) if isinstance(text.label, str) else text.label
        if others.keys().isdisjoint(names):
            yield text
            continue
        warnings.met.update(names)
        labels = tuple(sorted({others.get(name, name) for name in names} - {""}))
        if labels:
            yield text._replace(label=labels[0] if isinstance(text.label, str) else labels)
        else:
            warnings.num_merged_away += 1


def levels_in(label: str, separator: str) -> tuple[str, ...]:
    """The levels of a label, from coarse to fine, without empty ones, as in `/a/b`."""
    return tuple(filter(None, map(str.strip, label.split(separator))))


def in_levels(texts: Iterable[LabelledText], separator: str, names: dict[tuple[str, ...], str]) -> Iterator[LabelledText]:
    """The same texts; labels with the same levels are spelt as the first of them, which ``names`` keeps."""
    for text in texts:
        if isinstance(text.label, str):
            if not (levels := levels_in(text.label, separator)):
                raise MhaError(f"{place_of(text.file, text.line)}: the label is empty", LEAVE_OUT)
            text = text._replace(label=names.setdefault(levels, text.label))
        yield text


def is_list(label: object) -> bool:
    """Whether a label is a list of labels, of Python or NumPy."""
    return isinstance(label, list | tuple | set | frozenset) or bool(getattr(label, "ndim", 0))


def class_names(labels: object, location: str, column: str = "", separator: str | None = None) -> tuple[str, ...]:
    """Class names in a list of labels, or in a string with a separator: distinct and sorted, perhaps none."""
    several: Any = labels
    if isinstance(labels, str):
        several = filter(str.strip, labels_in(labels, separator))
    elif separator is not None and is_missing(labels):
        several = ()
    elif not is_list(labels):
        several = (labels,)
    return tuple(sorted({class_name(label, location, column) for label in several}))


def labels_in(cell: str, separator: str | None) -> list[str]:
    """The labels in a cell: split at the separator, or the strings of a list, such as ``['a', 'b']``."""
    spelt = cell.strip()
    if is_spelt_out(spelt):
        with suppress(SyntaxError, ValueError):  # for an escape that JSON or Python does not know
            return [(json.loads if quoted[0] == '"' else literal_eval)(quoted) for quoted in _QUOTED.findall(spelt)]
    in_brackets = separator == "," and spelt[:1] + spelt[-1:] in ("[]", "{}")  # {a,b} is an array of PostgreSQL
    return (spelt[1:-1] if in_brackets else cell).split(separator)


def is_spelt_out(label: str) -> bool:
    """Whether a label is a list of strings in quotes, such as ``['a', 'b']``."""
    return label[:1] in ("[", "(", "{", "s") and _LIST.fullmatch(label) is not None


def class_name(label: object, location: str, column: str = "") -> str:
    """The name of the class that a label means.

    A string loses white space around it and format characters, such as a zero-width space, and is composed (NFC). True, TRUE and true are
    ``True``; 1.0 is ``1``, as a number and as a string. ``location`` and ``column`` are for messages.
    """
    num_axes = getattr(label, "ndim", None)  # of an array, and of a number that NumPy holds
    value = label.item() if num_axes == 0 and hasattr(label, "item") else label
    if isinstance(value, str):
        name = name_of(value)
        if not name:
            raise MhaError(f"{location}: the label is empty", LEAVE_OUT)
        return name
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return str(int(value))
    what = f'{location}: the label "{printable(column)}"' if column else f"{location}: the label"
    if is_list(value):
        raise MhaError(f"{what} is a list inside a list", ONE_VALUE)
    if isinstance(value, dict):
        raise MhaError(f"{what} is an object", ONE_VALUE)
    if is_missing(value):
        raise MhaError(f"{what} is missing", LEAVE_OUT)
    fault = f"is the fraction {json.dumps(value)}" if isinstance(value, float) else f"has the type {type(value).__name__}"
    raise MhaError(f"{what} {fault}", ONE_VALUE)


def is_missing(value: object) -> bool:
    """Whether a value means a missing label, in Python, NumPy or pandas."""
    return not isinstance(value, str) and str(value) in _MISSING


def name_of(label: str) -> str:
    """The name of the class that a string means; empty where nothing is visible in it."""
    name = label.strip()
    if not all_latin(name):  # which has no format characters and is composed
        visible = unformatted()(without_surrogates(name).replace(_ZERO_WIDTH_SPACE, ""))
        name = unicodedata.normalize("NFC", visible).strip()
    if whole := _WHOLE.fullmatch(name):
        return whole[1]
    return _TRUTH.get(name.lower(), name)


def find_respelt(classes: Mapping[str, int]) -> dict[str, str]:
    """Classes that differ only in case from a more frequent one, and its name, given the number of texts of each class."""
    there = [name for name in sorted(classes, key=classes.__getitem__) if classes[name]]
    most_frequent = {name.casefold(): name for name in there}
    return {name: other for name in there if (other := most_frequent[name.casefold()]) != name}


def refuse_other_classes(name: str, classes: Sequence[str], other: str, others: Sequence[str]) -> None:
    """Refuse a model whose classes are not those of another model, or of the texts."""
    if odd := sorted(set(classes) ^ set(others)):
        names = listed([*map(printable, odd)], NAMED_CLASSES)
        raise MhaError(f"{name}: has other classes than {other}: {names}", "take models of the same classes")
