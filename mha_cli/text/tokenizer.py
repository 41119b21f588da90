"""Text to words: the one tokenizer that training and prediction share."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from mha_cli.config import TextConfig

# Both expressions run in linear time: no alternative overlaps another, and nothing repeated is nested in a repetition.
_LINE_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)
_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")
_WORD_OR_MARK = re.compile(r"[^\W_]+(?:'[^\W_]+)*|[^\w\s]")
# Composing takes quadratic time in the length of a run of combining marks, which are all among these.
_MARK_RUN = re.compile(r"[^\w\s\x00-\x7f]{32}")


def make_tokenizer(settings: TextConfig) -> Callable[[str], list[str]]:
    """A function from a text to its tokens.

    Unicode is composed (NFC), HTML line breaks and underscores separate words, and a typographic apostrophe counts as a plain one. A
    token is a run of letters and digits with inner apostrophes (``don't``) or, with ``punctuation``, one mark. With ``lowercase``,
    case is folded first.
    """
    find_all = (_WORD_OR_MARK if settings.punctuation else _WORD).findall
    lowercase = settings.lowercase

    def tokenize(text: str) -> list[str]:
        if not text.isascii():
            text = unicodedata.normalize("NFC", _MARK_RUN.sub(r"\g<0> ", text)).replace("’", "'")
        text = _LINE_BREAK.sub(" ", text)
        return find_all(text.lower() if lowercase else text)

    return tokenize
