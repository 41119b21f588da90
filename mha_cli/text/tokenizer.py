"""Text to words: the one tokenizer that training and prediction share."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from mha_cli.config import TextConfig

# All expressions run in linear time: no alternative overlaps another, and nothing repeated is nested in a repetition.
_LINE_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_WORD_OR_MARK = re.compile(r"[^\W_]+(?:['’][^\W_]+)*|[^\w\s]")


def make_splitter(settings: TextConfig) -> Callable[[str], list[str]]:
    """A function from a text to its words as their writer wrote them.

    Unicode is composed (NFC); HTML line breaks and underscores separate words. A word is a run of letters and digits with inner
    apostrophes (``don't``) or, with ``punctuation``, one mark.
    """
    find_all = (_WORD_OR_MARK if settings.punctuation else _WORD).findall
    return lambda text: find_all(_LINE_BREAK.sub(" ", unicodedata.normalize("NFC", text)))


def make_tokenizer(settings: TextConfig) -> Callable[[str], list[str]]:
    """A function from a text to its tokens: its words, where a typographic apostrophe counts as a plain one and, with ``lowercase``, case is
    folded. There is one token for every word of ``make_splitter``.
    """
    split, lowercase = make_splitter(settings), settings.lowercase

    def tokenize(text: str) -> list[str]:
        words = split(text)
        # One call for all words is many times faster than one a word; no word holds a line feed.
        joined = "\n".join(words).replace("’", "'")
        return (joined.lower() if lowercase else joined).split("\n") if words else []

    return tokenize
