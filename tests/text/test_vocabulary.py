"""Words to ids, and which words of a long text are kept."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mha_cli.text.vocabulary import MAX_TOKEN_LENGTH, SPECIAL_TOKENS, UNKNOWN_ID, Vocabulary, cut, most_frequent


def frequent(counts: dict[str, int], vocabulary_size: int = 100) -> tuple[str, ...]:
    vocabulary = most_frequent(list(counts), np.array(list(counts.values()), dtype=np.int64), vocabulary_size)
    assert vocabulary.tokens[:2] == SPECIAL_TOKENS
    return vocabulary.tokens[2:]


def test_ids_start_at_2_and_everything_else_is_unknown() -> None:
    vocabulary = Vocabulary(["the", "film", "."])
    assert vocabulary.tokens == ("[PAD]", "[UNK]", "the", "film", ".")
    assert vocabulary.ids([".", "the", "plot", "film", "film", "", *SPECIAL_TOKENS]) == [4, 2, 1, 3, 3, 1, UNKNOWN_ID, UNKNOWN_ID]
    assert (len(vocabulary), len(Vocabulary([]))) == (5, 2)
    assert Vocabulary([]).ids(["a", "b"]) == [1, 1]


def test_punctuation_marks_are_no_words() -> None:
    tokens = ["the", ",", "。", "$", "👍🏽", "🇩🇪", "#love", "", "३", "…"]
    marks = [token for token, is_mark in zip(Vocabulary(tokens).tokens, Vocabulary(tokens).is_mark, strict=True) if is_mark]
    assert marks == [token for token in tokens if token in (",", "。", "$", "", "…")]


def test_very_long_tokens_get_no_id() -> None:
    fits, too_long = "a" * MAX_TOKEN_LENGTH, "b" * (MAX_TOKEN_LENGTH + 1)
    assert frequent({too_long: 9, fits: 1}) == (fits,)


@given(st.dictionaries(st.text(max_size=5), st.integers(0, 4), max_size=20), st.integers(3, 25))
def test_most_frequent_against_a_plain_sort(counts: dict[str, int], vocabulary_size: int) -> None:
    expected = sorted(filter(counts.get, counts), key=lambda token: (-counts[token], token))
    assert frequent(counts, vocabulary_size) == tuple(expected[: vocabulary_size - 2])


@pytest.mark.parametrize(
    ("truncation", "sequence_length", "expected"),
    [("head", 3, "abc"), ("tail", 3, "efg"), ("head_and_tail", 3, "abg"), ("head_and_tail", 4, "abfg"), ("head_and_tail", 1, "a")],
)
def test_what_is_kept(truncation: str, sequence_length: int, expected: str) -> None:
    assert cut([*"abcdefg"], sequence_length, truncation) == [*expected]
    assert cut(np.frombuffer(b"abcdefg", np.uint8), sequence_length, truncation).tobytes() == expected.encode()


@given(st.integers(0, 50), st.integers(1, 20), st.sampled_from(["head", "tail", "head_and_tail"]))
def test_as_much_as_fits_is_kept_in_order(num_tokens: int, sequence_length: int, truncation: str) -> None:
    places = list(range(num_tokens))
    kept = cut(places, sequence_length, truncation)
    assert len(kept) == min(num_tokens, sequence_length)
    assert kept == sorted(set(kept))
