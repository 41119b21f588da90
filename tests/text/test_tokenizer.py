"""Text to words: what a token is, and that no text is too strange or too long."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mha_cli.config.settings import TextConfig
from mha_cli.text import patterns
from mha_cli.text.tokenizer import make_tokenizer

SETTINGS = [TextConfig(lowercase=lowercase, punctuation=punctuation) for lowercase in (True, False) for punctuation in (True, False)]

any_text = st.text(st.characters(), max_size=30) | st.text("aB'’_<br/> \t\n\u0301é.9\ud800", max_size=30)  # with lone surrogates
any_settings = st.sampled_from(SETTINGS)


def tokens(text: str, *, lowercase: bool = True, punctuation: bool = True) -> list[str]:
    return make_tokenizer(TextConfig(lowercase=lowercase, punctuation=punctuation))(text)


# What a token is


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" \t\r\n\u00a0\u2028\u3000", []),
        ("The plot was dull.", ["the", "plot", "was", "dull", "."]),
        ("Good?! No...", ["good", "?", "!", "no", ".", ".", "."]),
        ("10/10, 3.5 stars", ["10", "/", "10", ",", "3", ".", "5", "stars"]),
        ("well-made", ["well", "-", "made"]),
        ("a\0b \0 é", ["a", "\ufffd", "b", "\ufffd", "é"]),
    ],
)
def test_words_and_marks(text: str, expected: list[str]) -> None:
    assert tokens(text) == expected


def test_punctuation_and_case_are_settings() -> None:
    assert tokens("Good?! Don't -- see 'it'...", punctuation=False) == ["good", "don't", "see", "it"]
    assert tokens("A GREAT Film", lowercase=False) == ["A", "GREAT", "Film"]


@pytest.mark.parametrize("line_break", ["<br>", "<br/>", "<br />", "<BR />", "<Br\t\n>", "<br /><br />"])
def test_html_line_breaks_separate_words(line_break: str) -> None:
    assert tokens(f"dull{line_break}long", lowercase=False) == ["dull", "long"]


@pytest.mark.parametrize("text", ["<b>", "<bread>", "< br>", "<br / >"])
def test_other_markup_is_text(text: str) -> None:
    assert tokens(text)[0] == "<"


def test_inner_apostrophes_belong_to_the_word_and_outer_ones_do_not() -> None:
    assert tokens("don't rock'n'roll 'twas actors' ''") == ["don't", "rock'n'roll", "'", "twas", "actors", "'", "'", "'"]
    assert tokens("it''s") == ["it", "'", "'", "s"]


def test_a_typographic_apostrophe_counts_as_a_plain_one() -> None:
    assert tokens("don’t") == tokens("don't") == ["don't"]
    assert tokens("‘good’") == ["‘", "good", "'"]


def test_underscores_separate_words() -> None:
    assert tokens("_so_ very__good _") == ["so", "very", "good"]


def test_composed_and_decomposed_letters_are_the_same_word() -> None:
    decomposed = unicodedata.normalize("NFD", "Café naïve Ångström")
    assert decomposed != "Café naïve Ångström"
    assert tokens(decomposed) == tokens("Café naïve Ångström") == ["café", "naïve", "ångström"]


@given(any_text, any_settings)
def test_no_token_is_empty_or_has_white_space(text: str, settings: TextConfig) -> None:
    for token in make_tokenizer(settings)(text):
        assert token
        assert not any(char.isspace() for char in token)


@given(any_text)
def test_no_letter_or_digit_is_lost(text: str) -> None:
    text = unicodedata.normalize("NFC", text.replace("<", " "))
    kept = "".join(tokens(text, lowercase=False, punctuation=False))
    assert [char for char in kept if char.isalnum()] == [char for char in text if char.isalnum()]


@given(any_text, any_text)
def test_what_stands_on_one_line_does_not_touch_the_next(left: str, right: str) -> None:
    assert tokens(f"{left}\n.\n{right}", lowercase=False) == [*tokens(left, lowercase=False), ".", *tokens(right, lowercase=False)]


# Long texts: each of these would take minutes or forever, were the time not linear in the length.


@pytest.mark.parametrize(
    ("text", "num_tokens"),
    [
        pytest.param("<br" * 100_000 + " " * 100_000, 200_000, id="line breaks that never end"),
        pytest.param(("<br" + " " * 1000) * 300, 600, id="line breaks with much space"),
        pytest.param("<br" + " " * 300_000, 2, id="a line break with very much space"),
        pytest.param("a'" * 300_000, 2, id="one word of apostrophes"),
        pytest.param("a" * 1_000_000, 1, id="one long word"),
        pytest.param("'" * 300_000, 300_000, id="only apostrophes"),
        pytest.param("_" * 1_000_000, 0, id="only underscores"),
        pytest.param("a" + "\u0301" * 150_000 + "\u0316" * 150_000, 1, id="one letter with many accents, in the wrong order"),
        pytest.param("Σ" + "'" * 300_000 + "Σ", 300_002, id="a final sigma with its surroundings"),
    ],
)
def test_adversarial_texts_finish(text: str, num_tokens: int) -> None:
    assert len(tokens(text)) == num_tokens


def test_no_expression_is_possessive() -> None:
    """Python 3.11.0 to 3.11.4 match possessive groups wrongly: ``'see'`` became ``see'`` there (gh-106052)."""
    finders = (patterns.plain_words(True), patterns.latin_words(True), patterns.all_latin)
    found = [find.__self__.pattern for find in finders]
    assert not [expression for expression in found if re.search(r"[*+?}]\+|\(\?>", expression)]


def test_long_runs_of_marks_keep_every_mark() -> None:
    run = "👍" * 31 + "…" * 34
    assert tokens(f"a{run}b") == ["a", *run, "b"]
