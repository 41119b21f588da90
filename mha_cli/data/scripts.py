"""Which scripts texts are written in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import regex

# fmt: off
RECOMMENDED_SCRIPTS = (
    "Arabic", "Armenian", "Bengali", "Bopomofo", "Cyrillic", "Devanagari", "Ethiopic", "Georgian", "Greek", "Gujarati", "Gurmukhi",
    "Hangul", "Han", "Hebrew", "Hiragana", "Kannada", "Katakana", "Khmer", "Lao", "Latin", "Malayalam", "Myanmar", "Oriya", "Sinhala",
    "Tamil", "Telugu", "Thaana", "Thai", "Tibetan",
)
# fmt: on
"""Source: Unicode Standard Annex 31, table 5, without Common and Inherited."""
OTHER = "other"


def script_shares(characters: Mapping[str, int]) -> dict[str, float]:
    """The share of letters that each script has, the largest first.

    Args:
        characters: how often each character occurs.
    """
    letters = {character: number for character, number in characters.items() if character.isalpha()}
    together, counts = "".join(letters), Counter[str]()
    for script in RECOMMENDED_SCRIPTS:
        for character in regex.findall(rf"\p{{Script={script}}}", together):
            counts[script] += letters.pop(character)
    counts[OTHER] = sum(number for letter, number in letters.items() if regex.match(r"\P{Script=Common}", letter))
    whole = counts.total()
    return {script: number / whole for script, number in counts.most_common() if number}
