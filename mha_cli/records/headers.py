"""What people call the columns of labelled texts."""

from __future__ import annotations

import re
from collections.abc import Sequence

# fmt: off
TEXT_NAMES = frozenset({
    "text", "texts", "review", "reviews", "sentence", "sentences", "comment", "comments", "message", "body", "content", "tweet", "post",
    "question", "query", "utterance", "title", "headline", "description", "document", "feedback", "summary", "input",
})
LABEL_NAMES = (
    "label", "labels", "class", "category", "target", "sentiment", "stars", "rating", "score", "intent", "topic", "tag", "polarity",
    "emotion", "genre", "verdict", "kind", "type", "y",
)
# fmt: on
"""The likeliest first."""
USUAL_NAMES = TEXT_NAMES.union(LABEL_NAMES)
_NAME = re.compile(r"[^\W\d][^.!?,]{0,39}")


def is_header(row: Sequence[str], wanted: Sequence[int]) -> bool:
    """Whether the first row of a table surely names its columns: those that are wanted by usual names, the others by names at all.

    A row that counts its columns from 0, as pandas does where they have no names, is a header, too.
    """
    names = [cell.strip() for cell in row]
    if len(names) > 1 and names == [str(number) for number in range(len(names))]:
        return True
    return are_names(row) and all(names[at].casefold() in USUAL_NAMES for at in wanted)


def are_names(row: Sequence[str]) -> bool:
    """Whether these cells may name columns: they are short and differ, but for blank ones."""
    names = [name for cell in row if (name := cell.strip())]
    return len({*names}) == len(names) > 0 and all(map(_NAME.fullmatch, names))
