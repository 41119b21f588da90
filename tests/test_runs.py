import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from mha_cli.checkpoint.file import read_checkpoint
from mha_cli.config.loading import config_from_dict, config_to_yaml, load_config
from mha_cli.config.settings import Config
from mha_cli.errors import MhaError
from mha_cli.runs import (
    CHECKPOINT,
    CONFIG,
    STATE,
    checkpoint_in,
    choose_checkpoint,
    new_run_directory,
    read_history,
    refuse_other_run,
    refuse_used,
    run_directory,
    run_name,
)
from mha_cli.system.callbacks import EpochRecord
from mha_cli.system.whole_files import LOCK, TEMPORARY_PREFIX, TEMPORARY_SUFFIX, locked
from tests.errors import error_of

pytestmark = pytest.mark.usefixtures("in_an_empty_folder")


def make_file(path: str, seconds: float = 0, content: str = "") -> Path:
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content)
    os.utime(file, (seconds, seconds))
    return file


EPOCH = (
    '{"epoch": 1, "train_loss": 0.5, "train_accuracy": 0.75, "validation_loss": 0.25, "validation_accuracy": 0.5, "seconds": 2, '
    '"texts_per_second": 100.0, "best": true}\n'
)


def test_the_history_of_a_run() -> None:
    make_file("runs/a/history.jsonl", content=EPOCH + EPOCH.replace('"epoch": 1', '"epoch": 2').replace("true", "false"))
    first, second = read_history(Path("runs/a/checkpoint.keras"))
    assert first == EpochRecord(1, 0.5, 0.75, 0.25, 0.5, 2, 100, True)
    assert (second.epoch, second.best) == (2, False)
    assert read_history(Path("runs/a/pruned.keras")) == []  # of another model
    assert read_history(Path("runs/b/checkpoint.keras")) == []


def test_the_name_of_a_run(tmp_path: Path) -> None:
    names = {"runs/imdb/checkpoint.keras": "imdb", "mine/best.keras": "best", "checkpoint.keras": tmp_path.name}
    assert {path: run_name(Path(path)) for path in names} == names
    for name in ("imdb", "imdb-2", "imdb-3"):  # a new one takes the first free number
        assert new_run_directory("imdb") == Path("runs", name)
        make_file(f"runs/{name}")


def test_which_checkpoint_is_taken() -> None:
    packaged, reason = choose_checkpoint(None, {})
    assert reason == "the model that comes with mha"
    assert read_checkpoint(packaged).class_names == ("neg", "pos")
    assert packaged.stat().st_size <= 4_000_000
    make_file("runs/z/checkpoint.keras", seconds=1)
    make_file("runs/both/with-positions/checkpoint.keras", seconds=3)
    make_file("runs/a/checkpoint.keras", seconds=2)
    make_file("runs/b/other.keras", seconds=9)
    Path("runs/gone").mkdir()
    Path("runs/gone/checkpoint.keras").symlink_to("nowhere")
    # The two models of a shuffle-test lie one folder deeper: one of them cannot read order, and nobody trained it to be used.
    for environment in ({}, {"MHA_CHECKPOINT": ""}):
        assert choose_checkpoint(None, environment) == (Path("runs/a/checkpoint.keras"), "the last trained run")
    assert choose_checkpoint(None, {"MHA_CHECKPOINT": "other.keras"}) == (Path("other.keras"), "$MHA_CHECKPOINT")
    assert choose_checkpoint(Path("mine.keras"), {"MHA_CHECKPOINT": "other.keras"}) == (Path("mine.keras"), "")


def test_a_run_directory_stands_for_its_checkpoint() -> None:
    inside = make_file("runs/a/checkpoint.keras")
    assert choose_checkpoint(Path("runs/a"), {}) == (inside, "")
    assert choose_checkpoint(None, {"MHA_CHECKPOINT": "runs/a"}) == (inside, "$MHA_CHECKPOINT")
    for other in (inside, Path("runs"), Path("nowhere"), Path("a\0b"), Path("a" * 300)):
        assert checkpoint_in(other) == other
    for name, hint in (("a", "did you mean runs/a?"), ("b", "give a checkpoint that `mha train` wrote")):
        assert error_of(read_checkpoint, Path(name)) == f"{name}: no such file; {hint}"


@pytest.mark.parametrize("output", ["new", "deep/in/new", "empty", "killed"])
def test_an_unused_directory(output: str) -> None:
    Path("empty").mkdir()
    make_file(f"killed/{TEMPORARY_PREFIX}x{TEMPORARY_SUFFIX}")  # by a process that was killed as it wrote its config
    with run_directory(Path(output), Config(seed=5)) as held:
        assert sorted(os.listdir(held)) == [LOCK, CONFIG]
        assert load_config(held / CONFIG) == Config(seed=5)
        make_file(f"{output}/{CHECKPOINT}")
    assert sorted(os.listdir(output)) == [CHECKPOINT, CONFIG]


@pytest.mark.parametrize(("output", "error"), [("empty/deep/new", KeyboardInterrupt()), ("empty", MhaError("no data"))])
def test_a_run_that_learnt_nothing_leaves_a_directory_as_it_was(output: str, error: BaseException) -> None:
    Path("empty").mkdir()
    with pytest.raises(type(error)), run_directory(Path(output), Config()) as held:
        make_file(f"{held}/last/unfinished")
        raise error
    assert [*Path().rglob("*")] == [Path("empty")]


@pytest.mark.parametrize(("resume", "learnt"), [(False, True), (True, True), (True, False)])
def test_a_run_that_learnt_something_or_was_resumed_stays(resume: bool, learnt: bool) -> None:
    Path("run").mkdir()
    if resume:
        make_file("run/config.yaml", content=config_to_yaml(Config()))
    with pytest.raises(KeyboardInterrupt), run_directory(Path("run"), Config(), resume) as held:
        if learnt:
            make_file(f"{held}/{STATE}")
        raise KeyboardInterrupt
    assert sorted(os.listdir("run")) == [CONFIG, "last"][: 1 + learnt]


def test_a_directory_is_checked_when_it_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that ends while another one waits for its lock is not lost."""
    Path("run").mkdir()

    @contextmanager
    def locked_late(folder: Path) -> Iterator[None]:
        make_file("run/metrics.json", content="precious")
        with locked(folder):
            yield

    monkeypatch.setattr("mha_cli.runs.locked", locked_late)
    with pytest.raises(MhaError, match="holds a finished run"), run_directory(Path("run"), Config()):
        pass
    assert Path("run/metrics.json").read_text() == "precious"
    assert os.listdir("run") == ["metrics.json"]


@pytest.mark.parametrize("file", ["metrics.json", "config.yaml", ".lock"])  # the lock is of another program; ours has our name
def test_a_used_directory(file: str) -> None:
    kept = make_file(f"used/{file}", content="mine")
    for asking in (lambda: refuse_used(Path("used")), run_directory(Path("used"), Config()).__enter__):
        assert error_of(asking).startswith("used: ")
    assert kept.read_text() == "mine"


@pytest.fixture
def config() -> Config:
    config = config_from_dict({"seed": 3, "training": {"epochs": 7}}, "test")
    make_file("run/config.yaml", content=config_to_yaml(config))
    return config


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"seed": 4}, "seed=3, the config 4"),
        ({"training": {"epochs": 8}}, "training.epochs=7, the config 8"),
        ({"data": {"source": "sample"}}, "data.source=files, the config sample"),
        ({"data": {"source": "files", "train": "x.csv", "text_column": "other"}}, "data.text_column=body, the config other"),
    ],
)
def test_a_run_of_another_config(changed: dict[str, Any], message: str) -> None:
    given = {"seed": 3, "training": {"epochs": 7}, "data": {"source": "files", "train": "x.csv"}}
    found = given | {"data": given["data"] | {"text_column": "body"}}  # its columns were found
    make_file("run/config.yaml", content=config_to_yaml(config_from_dict(found, "test")))
    refuse_other_run(Path("run"), config_from_dict(given, "test"))
    said = error_of(refuse_other_run, Path("run"), config_from_dict(given | changed, "test"))
    assert said == f"run: its run has {message}; resume with --config run/config.yaml"


@pytest.mark.parametrize("written", ["checkpoint.keras", "config.yaml", "history.jsonl", "metrics.json", "last", "last/state.npz"])
def test_a_run_that_would_be_written_elsewhere_is_not_resumed(written: str, config: Config) -> None:
    make_file("elsewhere", content=config_to_yaml(config))
    Path("run", written).parent.mkdir(exist_ok=True)
    Path("run", written).unlink(missing_ok=True)
    Path("run", written).symlink_to(Path("elsewhere").absolute())
    message = f"run: its {written} is a link; put there what it leads to, or choose another folder"
    assert error_of(refuse_other_run, Path("run"), config) == message


def test_no_run_and_a_finished_run_are_not_resumed(config: Config) -> None:
    resumed = run_directory(Path("nowhere"), config, resume=True)
    assert error_of(resumed.__enter__) == "nowhere: holds no run to resume; begin it without --resume"
    assert not Path("nowhere").exists()
    make_file("run/metrics.json")
    assert error_of(refuse_other_run, Path("run"), config) == "run: its run is finished; choose another folder for a new one"
