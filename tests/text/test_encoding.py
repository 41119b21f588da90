"""Text to token ids in one go."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mha_cli.config.settings import TextConfig
from mha_cli.text.encoding import TextEncoder
from mha_cli.text.vocabulary import EncodedText, Vocabulary

VOCABULARY = Vocabulary(["the", "film", "was", ".", "good", "bad"])


def encode(text: str, **settings: object) -> EncodedText:
    return TextEncoder(TextConfig.model_validate(settings), VOCABULARY).encode(text)


def test_words_become_ids() -> None:
    assert encode("The film was good.") == EncodedText([2, 3, 4, 6, 5], num_tokens=5, num_unknown=0)


def test_unknown_words_become_1_and_are_counted() -> None:
    encoded = encode("The plot was very good.")
    assert encoded == EncodedText([2, 1, 4, 1, 6, 5], num_tokens=6, num_unknown=2)


@pytest.mark.parametrize(
    ("truncation", "token_ids", "num_unknown"), [("head", [2, 1, 4], 1), ("tail", [1, 6, 5], 1), ("head_and_tail", [2, 1, 5], 1)]
)
def test_a_long_text_is_cut_and_only_what_is_left_counts_as_unknown(truncation: str, token_ids: list[int], num_unknown: int) -> None:
    encoded = encode("The plot was very good.", sequence_length=3, truncation=truncation)
    assert encoded == EncodedText(token_ids, num_tokens=6, num_unknown=num_unknown)


@pytest.mark.parametrize("text", ["", "  \n", "<br />", "___"])
def test_a_text_without_words_is_empty(text: str) -> None:
    assert encode(text) == EncodedText([], num_tokens=0, num_unknown=0)


def test_the_settings_of_the_tokenizer_count() -> None:
    assert encode("The film.", lowercase=False, punctuation=False) == EncodedText([1, 3], num_tokens=2, num_unknown=1)


@given(st.text(st.characters(), max_size=40), st.integers(1, 10))
def test_any_text_can_be_encoded(text: str, sequence_length: int) -> None:
    encoded = encode(text, sequence_length=sequence_length)
    assert len(encoded.token_ids) == min(encoded.num_tokens, sequence_length)
    assert all(1 <= token_id < len(VOCABULARY) for token_id in encoded.token_ids)
    assert encoded.num_unknown == encoded.token_ids.count(1)


def test_encoding_needs_no_tensorflow() -> None:
    code = "import sys, mha_cli.text.encoding; sys.exit(any(name in sys.modules for name in ('tensorflow', 'keras')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
