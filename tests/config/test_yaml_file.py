import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mha_cli.config.yaml_file import MAX_BYTES, parse_yaml, read_yaml
from mha_cli.errors import MhaError
from tests.errors import error_of

CONFIG_HINT = "give the path of a YAML config, or the name of a recipe such as sample"
MIND = "mind indentation, quotes and colons"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("null", None),
        ("1e3", 1000.0),
        ("-.inf", -math.inf),
        ("true", True),
        # Words and times of YAML 1.1 that are plain text in YAML 1.2.
        ("1:30", "1:30"),
        ('"a\\tb\\x1b"', "a\tb\x1b"),
        ('{"\\ud83d\\ude42": "\\ud83d\\ude42\\ud83d"}', {"🙂": "🙂\ud83d"}),
        ("a:\n- 1\n- b: 2\n", {"a": [1, {"b": 2}]}),
        ("1: x\ntrue: y\n~: z\n", {"1": "x", "true": "y", "~": "z"}),
        ("<<: {a: 1}", {"<<": {"a": 1}}),
    ],
)
def test_plain_values(text: str, value: object) -> None:
    found = parse_yaml(text, "test").value
    assert found == value
    assert type(found) is type(value)


def test_every_key_knows_its_line() -> None:
    document = parse_yaml("# comment\nmodel:\n  num_heads: 4\n\n  dropout: 0.1\nseed: 1\n", "x.yaml")
    assert document.lines == {("model",): 2, ("model", "num_heads"): 3, ("model", "dropout"): 5, ("seed",): 6}
    assert document.location(("model", "dropout")) == "x.yaml:5"
    assert document.location(("model", "not_there")) == "x.yaml:2"
    assert document.location(("not_there",)) == "x.yaml"
    assert document.location(()) == "x.yaml"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model:\n  a: 2\n  b: 0\n  'a': 4\n", "x.yaml:4: model.a is set twice (first on line 2); keep one of them"),
        ("%TAG ! tag:me,2000:\n---\na: !b 1", "x.yaml:3: the tag tag:me,2000:b is not allowed; write a plain value"),
        ("? [a, b]\n: 1\n", "x.yaml:1: a key is not a word; write `key: value`"),
        ('{"a":' * 100_000, "x.yaml:1: nested more than 20 deep; a config has two levels"),
        ("a: [1, 2", f"x.yaml:1: not valid YAML: expected ',' or ']', but got '<stream end>'; {MIND}"),
        ("a: =", f"x.yaml:1: not valid YAML: could not determine a constructor for the tag 'tag:yaml.org,2002:value'; {MIND}"),
        ("a: 2020-99-01", f"x.yaml: not valid YAML: month must be in 1..12; {MIND}"),
        ('a: "\\UFFFFFFFF"', f"x.yaml: not valid YAML: Python int too large to convert to C int; {MIND}"),
        ("a: \x1b[31m", f"x.yaml: not valid YAML: unacceptable character #x001b: special characters are not allowed; {MIND}"),
    ],
)
def test_what_is_not_plain_yaml(text: str, message: str) -> None:
    assert error_of(parse_yaml, text, "x.yaml") == message


@given(st.text(max_size=60) | st.text("abc :,-[]{}&*!?|>'\"%@`#\n\t01.~", max_size=60))
def test_any_text_is_read_or_refused_in_one_line(text: str) -> None:
    try:
        parse_yaml(text, "x.yaml")
    except MhaError as error:
        assert str(error).startswith("x.yaml")
        assert str(error).isprintable()


def test_a_file(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_bytes(b"\xef\xbb\xbfname: caf\xc3\xa9\r\nseed: 1\r\n")
    document = read_yaml(path)
    assert document.value == {"name": "café", "seed": 1}
    assert document.location(("seed",)) == f"{path}:2"


def test_an_empty_file_and_one_as_large_as_allowed(tmp_path: Path) -> None:
    path, largest = tmp_path / "x.yaml", b"seed: 1\n" + b"#" * (MAX_BYTES - 8)
    for content, value in {b"": {}, b"---\n": {}, b"\xef\xbb\xbf": {}, b"null\n": {}, largest: {"seed": 1}}.items():
        path.write_bytes(content)
        assert read_yaml(path).value == value


def test_a_file_that_is_no_config(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    for content, message in {
        b"'a' b\n": f":1: not valid YAML: text after the end of a value; {MIND}",
        b"just words\n": ": not a mapping of settings; write `section:` lines with `key: value` lines below them",
    }.items():
        path.write_bytes(content)
        assert error_of(read_yaml, path) == f"{path}{message}"


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    assert error_of(read_yaml, tmp_path / "a\0b") == rf"{tmp_path}/a\x00b: not a file name; {CONFIG_HINT}"
    assert error_of(read_yaml, tmp_path / "\x1b[31m.yaml") == rf"{tmp_path}/\x1b[31m.yaml: no such file; {CONFIG_HINT}"
