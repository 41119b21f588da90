"""Texts behind a URI, for commands other than `mha batch`; files of this machine stand in for an object store."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyarrow import fs

from mha_cli.sources.files import labelled_columns, read_labelled
from mha_cli.sources.raw_files import matching_paths
from tests.cli.command import Mha
from tests.errors import error_of
from tests.tables import write_table


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URI of a folder with two tables, whose user has a password."""
    seen = "store://me:secret@host"

    def from_uri(uri: str) -> tuple[fs.FileSystem, str]:
        address, _, settings = uri.partition("?")
        assert address.startswith(seen) and settings == "region=x"
        return fs.LocalFileSystem(), address.removeprefix(seen).replace("%20", " ")

    monkeypatch.setattr("pyarrow.fs.FileSystem", SimpleNamespace(from_uri=from_uri))
    (tmp_path / "more tables").mkdir()
    write_table(tmp_path / "more tables" / "part-2.csv", [("a dreadful film", "neg"), ("dull", "neg")])
    write_table(tmp_path / "more tables" / "part-10.csv", [("a superb film", "pos")])
    return f"{seen}{tmp_path}/more%20tables"


def test_patterns_are_files_in_natural_order(store: str) -> None:
    paths = [f"{store}/part-{number}.csv?region=x" for number in (2, 10)]
    assert matching_paths(f"{store}/part-*.csv?region=x") == paths
    assert matching_paths(paths[0]) == paths[:1]
    assert [text.label for text in read_labelled([f"{store}/*.csv?region=x"], labelled_columns())] == ["neg", "neg", "pos"]


def test_commands_read_them_and_show_no_secrets(store: str, mha: Mha, small: Path) -> None:
    result = mha("predict", "-c", small, "--input", f"{store}/*.csv?region=x", "--json", "--field", "label")
    assert [json.loads(line)["fields"]["label"] for line in result.lines] == ["neg", "neg", "pos"]
    result = mha("evaluate", small, "--data", f"{store}/*.csv?region=x")
    assert (result.code, "secret" in result.stdout + result.stderr, "3" in result.stdout) == (0, False, True)
    config = ("--config", "text", "--set", f"data.train={store}/part-2.csv?region=x", "--set", "data.text_column=txt")
    result = mha("train", *config)
    assert (result.code, "secret" in result.stderr) == (2, False)
    assert 'part-2.csv:1: no column "txt" among text, label; did you mean text?' in result.stderr


def test_what_is_not_there(store: str, tmp_path: Path) -> None:
    for name in ("gone.csv", "gone-*.csv"):
        found = error_of(lambda name=name: [*read_labelled([f"{store}/{name}?region=x"], labelled_columns())])  # type: ignore[misc]
        assert found.startswith(f"local://{tmp_path}/more tables/{name}: ") and "secret" not in found


def test_a_uri_of_this_machine_is_a_path(tmp_path: Path) -> None:
    write_table(tmp_path / "a b.csv", [("a film", "pos")])
    for uri in (f"file://{tmp_path}/a%20b.csv", f"file://{tmp_path}/*.csv"):
        assert matching_paths(uri) == [f"{tmp_path}/a b.csv"]
        assert [text.text for text in read_labelled([uri], labelled_columns())] == ["a film"]
