from __future__ import annotations

import os
from pathlib import Path

import pytest

from mha_cli.checkpoint.file import read_checkpoint
from mha_cli.checkpoint.runs import (
    checkpoint_in,
    choose_checkpoint,
    make_run_directory,
    new_run_directory,
    refuse_other_run,
    refuse_used,
    run_name,
)
from mha_cli.config.loading import config_from_dict, config_to_yaml
from mha_cli.config.settings import Config
from mha_cli.errors import EXIT_USAGE, MhaError


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def make_file(path: str, seconds: float = 0, content: str = "") -> Path:
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content)
    os.utime(file, (seconds, seconds))
    return file


# Names


def test_a_new_run_directory_takes_the_first_free_number() -> None:
    assert new_run_directory("imdb") == Path("runs/imdb")
    Path("runs/imdb").mkdir(parents=True)
    assert new_run_directory("imdb") == Path("runs/imdb-2")
    make_file("runs/imdb-2")
    Path("runs/imdb-4").mkdir()
    assert new_run_directory("imdb") == Path("runs/imdb-3")
    assert sorted(os.listdir("runs")) == ["imdb", "imdb-2", "imdb-4"]


@pytest.mark.parametrize(
    ("checkpoint", "name"),
    [("runs/imdb/checkpoint.keras", "imdb"), ("mine/best.keras", "best"), ("checkpoint.keras", None)],
)
def test_the_name_of_a_run(checkpoint: str, name: str | None, tmp_path: Path) -> None:
    assert run_name(Path(checkpoint)) == (name or tmp_path.name)


# The checkpoint to use


def test_the_given_checkpoint_comes_first() -> None:
    make_file("runs/a/checkpoint.keras")
    assert choose_checkpoint(Path("mine.keras"), {"MHA_CHECKPOINT": "other.keras"}) == (Path("mine.keras"), "")


def test_the_environment_comes_second() -> None:
    make_file("runs/a/checkpoint.keras")
    assert choose_checkpoint(None, {"MHA_CHECKPOINT": "other.keras"}) == (Path("other.keras"), "$MHA_CHECKPOINT")


def test_a_run_directory_stands_for_its_checkpoint() -> None:
    make_file("runs/a/checkpoint.keras")
    inside = Path("runs/a/checkpoint.keras")
    assert choose_checkpoint(Path("runs/a"), {}) == (inside, "")
    assert choose_checkpoint(None, {"MHA_CHECKPOINT": "runs/a"}) == (inside, "$MHA_CHECKPOINT")
    for other in (inside, Path("runs"), Path("nowhere"), Path("a\0b"), Path("a" * 300)):
        assert checkpoint_in(other) == other


@pytest.mark.parametrize("environment", [{}, {"MHA_CHECKPOINT": ""}])
def test_the_last_trained_run_comes_third(environment: dict[str, str]) -> None:
    make_file("runs/z/checkpoint.keras", seconds=1)
    make_file("runs/both/with-positions/checkpoint.keras", seconds=3)
    make_file("runs/a/checkpoint.keras", seconds=2)
    make_file("runs/b/other.keras", seconds=9)
    # The two models of a shuffle-test lie one folder deeper: one of them cannot read order, and nobody trained it to be used.
    assert choose_checkpoint(None, environment) == (Path("runs/a/checkpoint.keras"), "the last trained run")


def test_the_packaged_model_comes_last() -> None:
    Path("runs/empty").mkdir(parents=True)
    path, reason = choose_checkpoint(None, {})
    assert reason == "the model that comes with mha"
    assert read_checkpoint(path).class_names == ("neg", "pos")
    assert path.stat().st_size <= 4_000_000


# A directory for a new run


@pytest.mark.parametrize("output", ["new", "deep/in/new", "empty"])
def test_an_unused_directory(output: str) -> None:
    Path("empty").mkdir()
    refuse_used(Path(output))
    make_run_directory(Path(output))
    assert os.listdir(output) == []


@pytest.mark.parametrize(
    ("file", "output", "message"),
    [
        ("used/metrics.json", "used", "--output used: holds a finished run; choose another folder, or remove this one"),
        (
            "used/config.yaml",
            "used",
            "--output used: holds an unfinished run; add --resume to go on with it, or choose another folder",
        ),
        ("used/mine.txt", "used", "--output used: is not empty; choose another folder"),
        ("used/.hidden", "used", "--output used: is not empty; choose another folder"),
        ("used/.lock", "used", "--output used: is not empty; choose another folder"),  # of another program; ours has our name
        ("used", "used", "--output used: is a file; choose another folder"),
        ("u\x1b[31m", "u\x1b[31m", r"--output u\x1b[31m: is a file; choose another folder"),
    ],
)
def test_a_used_directory(file: str, output: str, message: str) -> None:
    kept = make_file(file, content="mine")
    with pytest.raises(MhaError) as raised:
        refuse_used(Path(output))
    assert str(raised.value) == message
    assert raised.value.exit_code == EXIT_USAGE
    assert kept.read_text() == "mine"


def test_a_directory_that_cannot_be_made() -> None:
    make_file("file")
    os.symlink("nowhere", "dangling")
    for output, reason in (("file/new", "Not a directory"), ("dangling", "File exists"), ("a" * 300, "File name too long")):
        with pytest.raises(MhaError) as raised:
            make_run_directory(Path(output))
        assert str(raised.value).endswith(f": cannot be made: {reason}; choose another folder")


def test_a_name_that_no_file_can_have() -> None:
    with pytest.raises(MhaError) as raised:
        refuse_used(Path("a" * 300))
    assert "File name too long" in str(raised.value)


# A directory to resume


@pytest.fixture
def config() -> Config:
    config = config_from_dict({"seed": 3, "training": {"epochs": 7}}, "test")
    make_file("run/config.yaml", content=config_to_yaml(config))
    return config


def test_an_interrupted_run_of_the_same_config(config: Config) -> None:
    refuse_other_run(Path("run"), config)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"seed": 4}, "--output run: its run has seed=3, the config 4; resume with --config run/config.yaml"),
        (
            {"training": {"epochs": 8}},
            "--output run: its run has training.epochs=7, the config 8; resume with --config run/config.yaml",
        ),
        (
            {"data": {"source": "files", "train": "x.csv"}},
            "--output run: its run has data.source=sample, the config files; resume with --config run/config.yaml",
        ),
    ],
)
def test_a_run_of_another_config(changed: dict[str, object], message: str, config: Config) -> None:
    other = config_from_dict({"seed": 3, "training": {"epochs": 7}} | changed, "test")
    with pytest.raises(MhaError) as raised:
        refuse_other_run(Path("run"), other)
    assert str(raised.value) == message


def test_no_run_to_resume(config: Config) -> None:
    with pytest.raises(MhaError) as raised:
        refuse_other_run(Path("nowhere"), config)
    assert str(raised.value) == "--output nowhere: holds no run to resume; leave --resume out"


def test_a_finished_run_is_not_resumed(config: Config) -> None:
    make_file("run/metrics.json")
    with pytest.raises(MhaError) as raised:
        refuse_other_run(Path("run"), config)
    assert str(raised.value) == "--output run: its run is finished; choose another folder for a new one"
