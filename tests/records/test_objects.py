"""JSON as it is written everywhere."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mha_cli.records.objects import plain_json


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ({"Rückgabe": "返品 😀"}, '{"Rückgabe": "返品 😀"}'),
        (["é", float("nan"), float("-inf")], '["é", null, null]'),
        ("é\x1b\x9b\u202e\u2028\ud800", '"é\\u001b\\u009b\\u202e\\u2028\\ud800"'),
    ],
)
def test_characters_stay_as_they_are_unless_they_do_harm(value: Any, written: str) -> None:
    assert plain_json(value) == written


@given(st.dictionaries(st.text(st.characters()), st.text(st.characters())))
def test_any_text_is_one_line_of_utf_8_and_comes_back(value: dict[str, str]) -> None:
    written = plain_json(value).encode().decode()
    assert json.loads(written) == json.loads(json.dumps(value))  # which joins surrogates
    assert len(written.splitlines()) == 1
