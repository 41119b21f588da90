"""Text to words: the one tokenizer that training and prediction share."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from mha_cli.config.settings import TextConfig

# All expressions run in linear time: no alternative overlaps another, and a repetition within a repetition begins with a mark of its own.
_LINE_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)
# None is possessive: Python 3.11.0 to 3.11.4 match such groups wrongly (gh-106052), and nothing that follows a word makes these go back.
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_WORD_OR_MARK = re.compile(r"[^\W_]+(?:['’][^\W_]+)*|[^\w\s]")

# Composing takes quadratic time in the length of a run of combining marks, which are all among these.
_MARK_RUN = re.compile(r"[^\w\s\x00-\x7f]{32}")


def make_splitter(settings: TextConfig) -> Callable[[str], list[str]]:
    """A function from a text to its words as their writer wrote them.

    Unicode is composed (NFC); HTML line breaks and underscores separate words. A word is a run of letters and digits with inner
    apostrophes (``don't``) or, with ``punctuation``, one mark.
    """
    find_all = (_WORD_OR_MARK if settings.punctuation else _WORD).findall

    def split(text: str) -> list[str]:
        if not text.isascii():
            text = unicodedata.normalize("NFC", _MARK_RUN.sub(r"\g<0> ", text))
        return find_all(_LINE_BREAK.sub(" ", text))

    return split


def make_tokenizer(settings: TextConfig) -> Callable[[str], list[str]]:
    """A function from a text to its tokens, one for every word of ``make_splitter``.

    A typographic apostrophe counts as a plain one; with ``lowercase``, every token is lower case.
    """
    split, lowercase = make_splitter(settings), settings.lowercase

    def tokenize(text: str) -> list[str]:
        if text.isascii():  # no letter changes its kind or its number with its case
            return split(text.lower() if lowercase else text)
        words = split(text)
        # One call for all words is many times faster than one a word; no word holds a line feed.
        joined = "\n".join(words).replace("’", "'")
        return (joined.lower() if lowercase else joined).split("\n") if words else []

    return tokenize
