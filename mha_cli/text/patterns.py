"""The expressions that find the words of a text: one for every script, and a faster one for what has only Latin letters.

All run in linear time: what follows a repetition cannot match a repeated character, or matches only the last of them, or the repetition is
bounded. None is possessive: Python 3.11.0 to 3.11.4 match such groups wrongly (gh-106052).
"""

import re
from collections.abc import Callable
from functools import cache
from typing import cast

FindAll = Callable[[str], list[str]]

_LATIN = "a-zA-Z0-9ª²³µ¹º¼½¾À-ÖØ-öø-ʯḀ-ỿ"  # the letters and digits of ``all_latin``; a list is a quarter faster than ``\w``
_LATIN_LETTER = f"[{_LATIN}]"
_LATIN_MARK = rf"[^{_LATIN}_\s]"
_HASHTAG = re.compile(r"#[\d_]*[^\W\d_]")

all_latin = re.compile(r"[\x00-\xac\xae-\u02af\u1e00-\u1eff\u2010-\u2027€]*").fullmatch  # only Latin letters, in NFC, and their marks


def may_have_addresses(text: str) -> bool:
    """Whether a text of ``all_latin`` may have a hashtag, a mention, a URL or an e-mail address."""
    # A character is looked for many times faster than several.
    if "@" in text or ("#" in text and _HASHTAG.search(text)):
        return True
    return ("/" in text and "://" in text) or "www." in text.lower()


@cache
def latin_words(punctuation: bool) -> FindAll:
    """The function that finds words, addresses, and with ``punctuation`` marks, in what has only Latin letters."""
    words = _words_and_addresses(_LATIN_LETTER, _LATIN_LETTER, r"\w", r"\w")
    return re.compile(f"{words}|{_LATIN_MARK}" if punctuation else words).findall


@cache
def unicode_words(punctuation: bool) -> FindAll:
    """The function that finds words, addresses, emoji, graphemes of scripts without spaces, and with ``punctuation`` marks, in any text.

    Source: Unicode Standard Annexes #29 (grapheme clusters), #24 (scripts), #14 (class SA: the scripts of South East Asia that have no
    spaces) and Technical Standard #51 (emoji).
    """
    import regex  # takes some twenty milliseconds, which texts of Latin letters need not wait for

    any_letter = r"\p{L}\p{N}"
    spaceless = r"[\p{scx=Han}\p{scx=Hiragana}\p{scx=Katakana}\p{Line_Break=SA}]"
    letter = f"[[{any_letter}]--{spaceless}]"
    extend = r"\p{M}\p{Grapheme_Extend}\p{Grapheme_Cluster_Break=SpacingMark}\u200d"
    words = _words_and_addresses(letter, f"[{letter}{extend}]", letter + extend, f"{any_letter}{extend}_")
    pictograph = r"[\p{Extended_Pictographic}--[\p{P}©®™]]"
    joined = rf"{pictograph}(?:\p{{Grapheme_Cluster_Break=Extend}}*\u200d{pictograph})*"
    emoji = rf"(?:[0-9#*]\u20e3|\p{{Regional_Indicator}}{{2}}|{joined})[{extend}\p{{Emoji_Modifier}}]*"
    stacked = rf"(?<=\p{{Indic_Syllabic_Category=Invisible_Stacker}})[{any_letter}]"  # a Khmer or Burmese letter below another
    grapheme = f"[{any_letter}](?:[{extend}]|{stacked})*"
    # \x1c to \x1f are white space to Python; invisible characters are no marks.
    mark = rf"[^{any_letter}_\s\x1c-\x1f\p{{Cf}}\p{{Default_Ignorable_Code_Point}}][\p{{M}}\u200d]*"
    return cast(FindAll, regex.compile("|".join([emoji, words, grapheme] + [mark] * punctuation), regex.V1).findall)


@cache
def unformatted() -> Callable[[str], str]:
    """The function that removes characters for display only: soft hyphens, direction marks, the colour of an emoji.

    It also breaks long runs of combining marks, which take quadratic time to compose.

    Source: Unicode Standard Annexes #29, rule WB4, and #15, the Stream-Safe Text Format.
    """
    import regex

    format_characters = regex.compile(r"[\p{Word_Break=Format}\ufe0f]+")
    long_run = regex.compile(r"\P{Canonical_Combining_Class=0}{30}(?=\P{Canonical_Combining_Class=0})")
    return lambda text: long_run.sub("\\g<0>\u034f", format_characters.sub("", text))


def _words_and_addresses(letter: str, inner: str, inside: str, tagged: str) -> str:
    """The expression of a URL, a word or e-mail address, or a hashtag or mention.

    Args:
        letter: class of a letter or digit that begins a word.
        inner: class of a character that continues a word.
        inside: these characters for use inside a class; it may have the underscore.
        tagged: characters of a hashtag or mention for use inside a class; it has the underscore.
    """
    # A word that is no address costs little more for them: one look at its first character, and one at what follows it.
    # Marks that end a sentence are part of a URL where it goes on behind them.
    url = rf"[hHwW](?:(?<=[hH])[tT][tT][pP][sS]?://|(?<=[wW])[wW][wW]\.){letter}(?:[{inside}_!#$%&'+*,\-./:;=?@~]*[{inside}_#$%&+\-/=@~])?"
    rest_of_email = rf"(?=[.+_\-@])(?:[.+_\-]+{letter}{inner}*){{0,8}}@(?:{letter}[{inside}_\-]*\.)+(?!\d){letter}{{2,}}"
    word = rf"{letter}{inner}*(?:['’]{letter}{inner}*)*(?:{rest_of_email}|)"
    # As on Twitter: behind no letter, not in an HTML entity (&#39;), and not of digits alone.
    tag = rf"[#@＃＠](?<![{tagged}&].)[\d_]*(?![\d_])[{tagged}]+"
    return f"{url}|{word}|{tag}"
