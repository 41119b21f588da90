"""Text to token ids in one go."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mha_cli.config.settings import TextConfig
from mha_cli.text.encoding import EncodedText, TextPipeline
from mha_cli.text.vocabulary import Vocabulary

VOCABULARY = Vocabulary(["the", "film", "was", ".", "good", "bad"])


def encode(text: str, **settings: object) -> EncodedText:
    return TextPipeline(TextConfig.model_validate(settings), VOCABULARY).encode(text)


def test_words_become_ids() -> None:
    assert as_lists(encode("The film was good.")) == ([2, 3, 4, 6, 5], 5, 0, 1)


def test_unknown_words_become_1_and_are_counted() -> None:
    encoded = encode("The plot was very good.")
    assert as_lists(encoded) == ([2, 1, 4, 1, 6, 5], 6, 2, 1)


def as_lists(encoded: EncodedText) -> tuple[list[int], int, int, int]:
    return (encoded.tokens.tolist(), *encoded[1:])


@pytest.mark.parametrize(
    ("truncation", "token_ids", "num_marks"), [("head", [2, 1, 4], 0), ("tail", [1, 6, 5], 1), ("head_and_tail", [2, 1, 5], 1)]
)
def test_a_long_text_is_cut_and_only_what_is_left_counts_as_unknown(truncation: str, token_ids: list[int], num_marks: int) -> None:
    encoded = encode("The plot was very good.", sequence_length=3, truncation=truncation)
    assert as_lists(encoded) == (token_ids, 6, 1, num_marks)


@pytest.mark.parametrize("text", ["", "  \n", "<br />", "___"])
def test_a_text_without_words_is_empty(text: str) -> None:
    assert as_lists(encode(text)) == ([], 0, 0, 0)


def test_the_settings_of_the_tokenizer_count() -> None:
    assert as_lists(encode("The film.", lowercase=False, punctuation=False)) == ([1, 3], 2, 1, 0)


@given(st.text(st.characters(), max_size=40), st.integers(1, 10))
def test_any_text_can_be_encoded(text: str, sequence_length: int) -> None:
    encoded = encode(text, sequence_length=sequence_length)
    assert len(encoded.tokens) == min(encoded.num_tokens, sequence_length)
    assert all(1 <= token_id < len(VOCABULARY) for token_id in encoded.tokens)
    assert encoded.num_unknown == encoded.tokens.tolist().count(1)


@given(st.text(st.sampled_from("a\0\u0301\ufffd\uffff\ud800<") | st.characters()))
def test_among_the_characters_of_a_word_0_is_padding_only(text: str) -> None:
    for word in encode(text, subword_characters=7).tokens:
        characters = word[1:]
        assert (characters[: np.count_nonzero(characters)] != 0).all()


def test_encoding_needs_no_tensorflow() -> None:
    code = "import sys, mha_cli.text.encoding; sys.exit(any(name in sys.modules for name in ('tensorflow', 'keras')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
