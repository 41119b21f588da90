"""The rules of ``text.tokenizer: letters``, frozen: checkpoints of mha before there was a choice were trained on these tokens."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mha_cli.config.settings import TextConfig
from mha_cli.text.tokenizer import make_tokenizer


@pytest.mark.parametrize(
    ("text", "with_marks", "without"),
    [
        ("Don’t <br/> stop_now: ‘good’ 10/10!", "don't stop now : ‘ good ' 10 / 10 !", "don't stop now good 10 10"),
        ("हिन्दी", " ".join("हिन्दी"), "ह न द"),
        ("日本語です。面白い ภาษาไทย", "日本語です 。 面白い ภาษาไทย", "日本語です 面白い ภาษาไทย"),
        ("great👍👍🏽 ❤\ufe0f 🇩", "great 👍 👍 🏽 ❤ \ufe0f 🇩", "great"),
        ("#love @bob http://a.b me@x.org", "# love @ bob http : / / a . b me @ x . org", "love bob http a b me x org"),
        ("cafe\u0301 x\u0301", "café x \u0301", "café x"),
        ("Silben\u00adtrennung \u200fמה", "silben \u00ad trennung \u200f מה", "silben trennung מה"),
        ("İSTANBUL ΣΊΣΥΦΟΣ", "i\u0307stanbul σίσυφος", "i\u0307stanbul σίσυφος"),
        ("a" + "\u0301" * 40, "á" + " \u0301" * 39, "á"),
    ],
)
def test_the_tokens_of_then(text: str, with_marks: str, without: str) -> None:
    for expected, punctuation in ((with_marks, True), (without, False)):
        assert make_tokenizer(TextConfig(tokenizer="letters", punctuation=punctuation))(text) == expected.split(" ")


@given(st.text(st.characters(exclude_categories=["Mn", "Mc", "Me"]), max_size=30))
def test_every_token_is_a_run_of_letters_or_one_mark(text: str) -> None:
    found = make_tokenizer(TextConfig(tokenizer="letters", lowercase=False))(text.replace("<", " "))
    assert "".join(found) == "".join(
        unicodedata.normalize("NFC", text).translate({ord("<"): " ", ord("_"): " ", ord("’"): "'", 0: "\ufffd"}).split()
    )
    for token in found:
        assert len(token) == 1 or token.replace("'", "").isalnum()
