"""Text to tokens in one go."""

import unicodedata
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mha_cli.config.settings import TextConfig
from mha_cli.text import latin_texts
from mha_cli.text.encoding import MANY_TEXTS, TextPipeline, characters_of
from mha_cli.text.vocabulary import Vocabulary

VOCABULARY = Vocabulary(["the", "film", "was", ".", "good", "bad"])


def encode(text: str, **settings: object) -> tuple[list[int], int, int, int]:
    encoded = TextPipeline(TextConfig.model_validate(settings), VOCABULARY).encode(text)
    return (encoded.tokens.tolist(), *encoded[1:4])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The film was good.", ([2, 3, 4, 6, 5], 5, 0, 1)),
        ("The plot was very good.", ([2, 1, 4, 1, 6, 5], 6, 2, 1)),
        *((text, ([], 0, 0, 0)) for text in ("", "  \n", "<br />", "___")),
    ],
)
def test_words_become_ids_and_unknown_words_are_counted(text: str, expected: tuple[list[int], int, int, int]) -> None:
    assert encode(text) == expected


@pytest.mark.parametrize(
    ("truncation", "token_ids", "num_marks"), [("head", [2, 1, 4], 0), ("tail", [1, 6, 5], 1), ("head_and_tail", [2, 1, 5], 1)]
)
def test_a_long_text_is_cut_and_only_what_is_left_counts_as_unknown(truncation: str, token_ids: list[int], num_marks: int) -> None:
    assert encode("The plot was very good.", sequence_length=3, truncation=truncation) == (token_ids, 6, 1, num_marks)


def test_the_settings_of_the_tokenizer_count() -> None:
    assert encode("The film.", punctuation=False) == ([2, 3], 2, 0, 0)


@given(st.text(st.characters(), max_size=40), st.integers(1, 10))
def test_any_text_can_be_encoded(text: str, sequence_length: int) -> None:
    token_ids, num_tokens, num_unknown, _ = encode(text, sequence_length=sequence_length)
    assert len(token_ids) == min(num_tokens, sequence_length)
    assert all(1 <= token_id < len(VOCABULARY) for token_id in token_ids)
    assert num_unknown == token_ids.count(1)


PAIRS = Vocabulary(["'", ".", "é", "don't", "a" * 16, "b" * 17, "a\0", "#ab", "x*y", *map("".join, product("abcdefgh0é", repeat=2))])
"""Enough words for some to have the same hash, and some that no text has."""
PARTS = ["ab", "AB", "h0", "É", "é", "a" * 16, "a" * 17, "b" * 17, "'", "don't", ".", "_", "\n", "\x1c", "\x85", "\xa0", "\xad", "×"]
RARE = ["\0", "’", "Ω", "<", "<br />", "br", "/", "#", "@", "www.", "://", "x*y", "\u0301"]


@pytest.mark.parametrize("most_characters", [10, latin_texts.MOST_CHARACTERS])
@given(st.lists(st.lists(st.sampled_from(PARTS * 3 + RARE)).map("".join), max_size=9), st.booleans(), st.integers(1, 9))
def test_many_texts_are_read_as_each_alone(most_characters: int, texts: list[str], punctuation: bool, sequence_length: int) -> None:
    settings = TextConfig(punctuation=punctuation, sequence_length=sequence_length, truncation="head_and_tail")
    pipeline, texts = TextPipeline(settings, PAIRS), [*texts, *["ab, é"] * MANY_TEXTS]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(latin_texts, "MOST_CHARACTERS", most_characters)
        together = pipeline.encode_all(texts)
    for text, found in zip(texts, together, strict=True):
        alone = pipeline.encode(text)
        assert (found.tokens.tolist(), found.tokens.dtype, found[1:]) == (alone.tokens.tolist(), np.int32, alone[1:]), text


def test_words_of_the_same_hash_keep_their_ids() -> None:
    words = [f"{number}" for number in range(1000)]
    together = TextPipeline(TextConfig(), Vocabulary(words)).encode_all([" ".join(words)] * MANY_TEXTS)
    assert all(found.tokens.tolist() == list(range(2, 602)) for found in together)


@given(st.text(st.sampled_from("a\0\u0301\ufffd\uffff\ud800<") | st.characters()))
def test_among_the_characters_of_a_word_0_is_padding_only(text: str) -> None:
    for word in encode(text, subword_characters=7)[0]:
        assert 0 not in word[1 : 1 + np.count_nonzero(word[1:])]


@given(st.lists(st.text(st.characters(), max_size=9).filter(lambda word: "\0" not in word), max_size=5), st.integers(3, 12))
def test_code_points_between_two_ends(words: list[str], num_characters: int) -> None:
    """Any characters, decomposed, lone surrogates and those beyond 16 bits among them; a word that is cut has no end."""
    found = characters_of(words, num_characters)
    assert (found.shape, found.dtype, found.flags.writeable) == ((len(words), num_characters), np.int32, True)
    for row, word in zip(found.tolist(), words, strict=True):
        whole = [ord(character) for character in unicodedata.normalize("NFD", f"<{word}>")]
        assert row == (whole + [0] * num_characters)[:num_characters]


def test_a_korean_syllable_is_its_letters() -> None:
    """Of 먹다 and 먹었다, "to eat" and "ate", both the first letters and the ending are then subwords of either word."""
    present, past = ("".join(map(chr, row)).rstrip("\0") for row in characters_of(["먹다", "먹었다"], 16))
    assert present == "<\u1106\u1165\u11a8\u1103\u1161>"
    assert past == "<\u1106\u1165\u11a8\u110b\u1165\u11bb\u1103\u1161>"
