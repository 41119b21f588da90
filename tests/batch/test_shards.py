"""Which files a batch takes, what their parts are called, and how several processes share them."""

import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mha_cli.batch.files import Folder, LocalFiles
from mha_cli.batch.shards import Shard, every_nth, find_shards
from mha_cli.records.readers import Format
from tests.errors import error_of


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with texts and other things."""
    texts = ("a.txt", "b.jsonl.gz", "c.CSV", "d.parquet", "deep/er/e.txt")
    for name in (*texts, "image.png", "notes", "_SUCCESS", ".hidden.txt", ".git/f.txt", "out/part.jsonl"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    return tmp_path


def found_in(folder: Path, *inputs: str, form: Format | None = None) -> list[str]:
    shards = find_shards([str(folder / given) for given in inputs], form, Folder(str(folder / "out")))
    return [os.path.relpath(shard.name, folder) for shard in shards]


def test_of_a_folder_the_files_of_texts_are_taken(folder: Path) -> None:
    assert found_in(folder, "") == ["a.txt", "b.jsonl.gz", "c.CSV", "d.parquet", "deep/er/e.txt"]
    assert found_in(folder, "", form="lines") == ["a.txt", "b.jsonl.gz", "c.CSV", "d.parquet", "deep/er/e.txt", "image.png", "notes"]


def test_what_is_named_is_taken_whatever_its_name_and_once(folder: Path) -> None:
    assert found_in(folder, "notes", "*.txt", "a.txt", "**/*.txt", ".hidden.txt") == [".hidden.txt", "a.txt", "deep/er/e.txt", "notes"]


def test_a_uri_of_this_machine_is_a_path(folder: Path) -> None:
    (shard,) = find_shards([f"file://{folder}/a.txt"], None, Folder(f"file://{folder}/out"))
    assert (shard.name, shard.record_format, shard.size) == (str(folder / "a.txt"), "lines", 5)
    assert shard.stem == shard_of(folder / "a.txt").stem


def test_a_part_is_named_for_its_file_whatever_else_is_there(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stems = {name: shard_of(folder / name).stem for name in ("a.txt", "deep/er/e.txt")}
    assert re.fullmatch("a-[0-9a-f]{16}", stems["a.txt"])
    (folder / "0.txt").touch()
    (folder / "deep" / "a.txt").touch()
    monkeypatch.chdir(folder / "deep")
    again = {shard.name: shard.stem for shard in find_shards([".."], None, Folder("../out"))}
    assert again.items() >= {str(folder / name): stem for name, stem in stems.items()}.items()
    assert len({*again.values()}) == len(again) == 7


@given(st.text(st.characters(blacklist_characters="/\0", blacklist_categories=["Cs"]), min_size=1, max_size=100) | st.just("\udcff.txt"))
def test_a_part_has_a_harmless_name(name: str) -> None:
    assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,59}-[0-9a-f]{16}", Shard(LocalFiles(), f"/x/{name}", "lines", 0).stem)


@given(st.integers(0, 40), st.integers(1, 12))
def test_each_file_is_for_one_of_n(number: int, parts: int) -> None:
    shards = [Shard(LocalFiles(), f"/{index:02}", "lines", 0) for index in range(number)]
    shared = [every_nth(shards, f"{part}/{parts}") for part in range(1, parts + 1)]
    assert sorted(shard.path for some in shared for shard in some) == [shard.path for shard in shards]
    assert max(map(len, shared)) - min(map(len, shared)) <= 1


@pytest.mark.parametrize("part", ["0/3", "4/3", "3", "a/b", "1/3/5", "²/3", "1/9999999999"])
def test_a_share_that_is_none(part: str) -> None:
    assert error_of(every_nth, [], part) == f"--shard {part}: is not i/n with i from 1 to n; write 3/8 for the third of eight"


def shard_of(path: Path) -> Shard:
    return Shard(LocalFiles(), str(path), "lines", 0)
