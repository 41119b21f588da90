"""Words to the code points of their characters."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mha_cli.text.characters import characters_of

words = st.lists(st.text(st.characters(), max_size=9).filter(lambda word: "\0" not in word), max_size=5)


@given(words, st.integers(3, 12))
def test_code_points_between_two_ends(words: list[str], num_characters: int) -> None:
    """Any characters, lone surrogates and those beyond 16 bits among them."""
    found = characters_of(words, num_characters)
    assert (found.shape, found.dtype) == ((len(words), num_characters), np.int32)
    for row, word in zip(found.tolist(), words, strict=True):
        whole = [ord(character) for character in f"<{word}>"]
        assert row == (whole + [0] * num_characters)[:num_characters]


@pytest.mark.parametrize(
    ("num_characters", "expected"), [(3, "<fi"), (5, "<film"), (6, "<film>"), (8, "<film>\0\0")], ids=["3", "5", "6", "8"]
)
def test_a_word_that_is_cut_has_no_end(num_characters: int, expected: str) -> None:
    assert "".join(map(chr, characters_of(["film"], num_characters)[0])) == expected


def test_the_numbers_may_be_written_to() -> None:
    found = characters_of(["film"], 6)
    found[0, 0] = 7
    assert found[0, 0] == 7
