import pytest
from hypothesis import given
from hypothesis import strategies as st

from mha_cli.errors import EXIT_USAGE, MhaError, did_you_mean, listed, printable


def test_an_error_is_one_line_message_then_hint() -> None:
    error = MhaError("x.yaml:3: seed is -1", "take 0")
    assert str(error) == "x.yaml:3: seed is -1; take 0"
    assert (error.message, error.hint, error.exit_code) == ("x.yaml:3: seed is -1", "take 0", EXIT_USAGE)
    assert str(MhaError("the disk is full")) == "the disk is full"


def test_did_you_mean() -> None:
    known = ["num_heads", "embed_dim", "dropout"]
    assert did_you_mean("dropuot", known) == "did you mean dropout?"
    assert did_you_mean("xyz", known) == did_you_mean("", known) == "choose from dropout, embed_dim, num_heads"
    assert did_you_mean("xyz", [f"class {number:04}" for number in range(1500)]).endswith(", class 0029 and 1,470 more")


def test_names_are_listed_as_far_as_a_line_is_read() -> None:
    assert [listed(names, 2) for names in ([], ["b", "a"], ["c", "b", "a"])] == ["", "b, a", "c, b and 1 more"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain [bold]text[/]", "plain [bold]text[/]"),
        ("é 🙂 漢", "é 🙂 漢"),
        ("\x1b[31mred", r"\x1b[31mred"),
        ("a\nb\r\tc\0", r"a\nb\r\tc\x00"),
        ("\u202eleft\u2028\x85\ufeff", r"\u202eleft\u2028\x85\ufeff"),
        ("\udcff", r"\udcff"),
        ("\U000e0001", r"\U000e0001"),
        ("a" * 80, "a" * 80),
        ("a" * 81, "a" * 79 + "…"),
    ],
)
def test_printable(text: str, shown: str) -> None:
    assert printable(text) == shown


@given(st.text(st.characters(codec=None, exclude_categories=())), st.integers(1, 100))
def test_printable_whatever_comes(text: str, limit: int) -> None:
    shown = printable(text, limit)
    assert shown.isprintable()
    shown.encode("utf-8")
    if text.isprintable() and len(text) <= limit:
        assert shown == text
