"""Header lines, told from first rows of tables that have none."""

from collections.abc import Sequence
from itertools import cycle, islice

import pytest

from mha_cli.records.headers import has_header, is_header

TEXTS = ["The lamp broke after a day.", "works very well, thanks", "arrived late and in pieces", "I would buy it again", "no comment"]
SHORT = ["hello", "hi there", "good morning", "bye", "see you", "thanks", "what time is it", "turn on the light"]


def column(values: Sequence[str], number: int = 60) -> list[str]:
    return list(islice(cycle(values), number))


def rows(*columns: Sequence[str]) -> list[list[str]]:
    return [list(row) for row in zip(*columns, strict=True)]


IDS = [str(number) for number in range(60)]
SPAM, STARS = column(["spam", "ham"]), column(["5", "1", "3"])
INTENTS = column(["question", "comment", "greeting", "title"])


@pytest.mark.parametrize(
    ("first", "below"),
    [
        (["spam", "message"], rows(SPAM, column(TEXTS))),
        (["id", "sms", "spam"], rows(IDS, column(TEXTS[:-1]), SPAM)),
        (["what happened", "verdict"], rows(column(TEXTS), SPAM)),
        (["question", "intent"], rows(column(SHORT), INTENTS)),
        (["review", "stars", "Would you buy it again?"], rows(column(TEXTS), STARS, SPAM)),
        (["spam_text", "2nd_label"], rows(column(TEXTS), SPAM)),
        (["title", "body", "topic"], rows(column(SHORT), column(TEXTS), INTENTS)),
        (["text", "label"], rows(["only one"], ["text"])),
    ],
)
def test_headers(first: list[str], below: list[list[str]]) -> None:
    assert has_header(first, below)


@pytest.mark.parametrize(
    ("first", "below"),
    [
        (["The lamp broke.", "spam"], rows(column(TEXTS), SPAM)),
        (["superb", "spam"], rows(column([*TEXTS, "dreadful"]), SPAM)),
        (["what is it", "question"], rows(column(SHORT), INTENTS)),
        (["1", "nice one", "spam"], rows(IDS, column(TEXTS), SPAM)),
        (["great, but late", "5"], rows(column(TEXTS), STARS)),
        (["2", "0"], rows(column(TEXTS), column(["0", "1"]))),
        (["很好", "正面"], rows(column(["不好吃", "很快", "难吃"]), column(["正面", "负面"]))),
        (["", ""], rows(column(TEXTS), SPAM)),
    ],
)
def test_first_rows_that_are_none(first: list[str], below: list[list[str]]) -> None:
    assert not has_header(first, below)


@pytest.mark.parametrize(
    ("first", "wanted", "is_one"),
    [
        (["message", "spam"], [0, 1], True),
        (["id", "text", "label", "note", "note"], [1, 2], True),
        (["0", "1"], [1, 0], True),
        (["sms", "spam"], [0, 1], False),
        (["what is it", "question"], [0, 1], False),
        (["A question.", "question"], [0], False),
    ],
)
def test_first_rows_that_are_headers_whatever_follows(first: list[str], wanted: list[int], is_one: bool) -> None:
    assert is_header(first, wanted) == is_one
    if is_one:
        assert has_header(first, rows(*[column(TEXTS)] * len(first)))  # mha init sees it as well


def test_any_of_several_text_columns_tells_a_header() -> None:
    assert is_header(["id", "subject", "body", "team"], [1, 2, 3], num_texts=2)
    assert not is_header(["id", "subject", "body", "team"], [1, 2, 3])
