"""Text to words: the one tokenizer that training and prediction share."""

import re
import unicodedata
from collections.abc import Callable

from mha_cli.config.settings import TextConfig
from mha_cli.text.patterns import all_latin, latin_words, unformatted, unicode_words

LINE_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)


def make_splitter(settings: TextConfig) -> Callable[[str], list[str]]:
    """A function from a text to its words as their writer wrote them.

    Unicode is composed (NFC); HTML line breaks and underscores separate words. A word is a run of letters and digits with their combining
    marks and inner apostrophes (``don't``); in a script without spaces it is one grapheme. A hashtag, a mention, a URL, an e-mail address
    and an emoji sequence are one word each: they are what a writer says, not how a sentence is marked. With ``punctuation``, every other
    mark is one. NUL counts as U+FFFD, because its number is that of the padding after a word's characters.
    """
    find_latin = latin_words(settings.punctuation)

    def split(text: str) -> list[str]:
        text = text.replace("\0", "\ufffd")
        if text.isascii() or all_latin(text):
            find_words = find_latin
        else:
            text, find_words = unicodedata.normalize("NFC", unformatted()(text)), unicode_words(settings.punctuation)
        return find_words(LINE_BREAK.sub(" ", text) if "<" in text else text)

    return split


def make_tokenizer(settings: TextConfig) -> Callable[[str], list[str]]:
    """A function from a text to its tokens, one for every word of ``make_splitter``.

    A typographic apostrophe counts as a plain one; every token is lower case.
    """
    split = make_splitter(settings)

    def tokenize(text: str) -> list[str]:
        if text.isascii():  # no letter changes its kind or its number with its case
            return split(text.lower())
        words = split(text)
        # One call for all words is many times faster than one call per word; no word holds a line feed.
        return "\n".join(words).replace("’", "'").lower().split("\n") if words else []

    return tokenize
