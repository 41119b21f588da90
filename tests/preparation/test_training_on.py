"""Training on: more texts, corrected labels and new classes for a trained run, through the real command."""

import random
import shutil
from pathlib import Path

import numpy as np
import pytest

import mha_cli
from mha_cli.checkpoint.file import read_checkpoint
from mha_cli.config.loading import load_config
from mha_cli.config.settings import FilesData
from mha_cli.errors import MhaError
from mha_cli.preparation.prepare import prepare
from mha_cli.preparation.training_on import config_to_train_on
from mha_cli.system.callbacks import Callbacks
from tests.cli.command import TRACED_SOON, Result, Run, refusal, run_here, set_all
from tests.errors import error_of
from tests.tables import write_table
from tests.training.interruptions import assert_same_run, interrupt, train
from tests.training.numpy_trainer import in_numpy

WORDS = {"food": "soup cake bread", "price": "cheap costly bargain", "staff": "waiter smile rude", "noise": "loud music quiet"}
SETTINGS = (*TRACED_SOON, "model.embed_dim=8", "model.num_heads=2", "model.feed_forward_dim=8", "linear.buckets=4096", "training.epochs=2")
RUN = "runs/visits"


def rows(classes: str, num_texts: int, seed: int) -> list[tuple[str, str]]:
    """Texts with a word of their class."""
    rng = random.Random(seed)
    labels = [rng.choice(classes.split()) for _ in range(num_texts)]
    return [(f"we found the {rng.choice(WORDS[label].split())} there {seed} {row}", label) for row, label in enumerate(labels)]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """``mha train --config text`` on texts of three classes, in NumPy. Not to be written to."""
    cwd = tmp_path_factory.mktemp("visits")
    write_table(cwd / "visits.csv", rows("food price staff", 240, seed=0))
    with pytest.MonkeyPatch.context() as patch:
        in_numpy(patch.setattr)
        return Run(cwd, run_here("train", "--config", "text", *set_all("data.train=visits.csv", *SETTINGS), cwd=cwd))


@pytest.fixture
def trains_in_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    in_numpy(monkeypatch.setattr)


def train_on(trained: Run, output: Path, *settings: str) -> Result:
    args = ("train", "--from", RUN, *set_all(*settings), "--output", output, "--json")
    return run_here(*args, cwd=trained.cwd)


def answers(run: Path, texts: list[tuple[str, str]]) -> float:
    """Share of right answers."""
    found = mha_cli.load(run).predict([text for text, _ in texts])
    return float(np.mean([one.label == label for one, (_, label) in zip(found, texts, strict=True)]))


def test_more_texts_and_a_new_class_come_after_the_old_ones(trained: Run, tmp_path: Path) -> None:
    assert trained.result.code == 0, trained.result.stderr
    more, run = tmp_path / "more.csv", tmp_path / "run"
    write_table(more, [*rows("food price noise", 120, seed=1), ("a dessert menu", "food")])
    result = train_on(trained, run, f"data.train={more}").well()
    before, after = (read_checkpoint(folder / "checkpoint.keras") for folder in (trained.cwd / RUN, run))
    assert after.class_names == (*before.class_names, "noise")
    assert after.vocabulary.tokens[: len(before.vocabulary)] == before.vocabulary.tokens
    assert {"music", "dessert"} <= {*after.vocabulary.tokens} - {*before.vocabulary.tokens}
    assert f"{RUN}/checkpoint.keras: 1 class more: noise" in result.stderr
    assert f"{RUN}/checkpoint.keras: the texts that it was trained on (visits.csv) are read again" in result.stderr
    assert "is not finished" not in result.stderr
    assert result.json["metrics"]["accuracy_of_base"] == before.metrics["validation_accuracy"]
    assert result.json["metrics"]["accuracy_on_its_held_out_texts"] > 0.9
    assert answers(run, rows(f"{' '.join(before.class_names)} noise", 90, seed=2)) > 0.9
    config = load_config(run / "config.yaml")
    assert (config.data.train, config.data.more, config.training.base) == ("visits.csv", [str(more)], RUN)


@pytest.mark.process
@pytest.mark.usefixtures("trains_in_numpy", "untraced")
def test_a_run_on_a_base_is_pruned_and_retrained(trained: Run, tmp_path: Path) -> None:
    more, run = write_table(tmp_path / "more.csv", rows("food price noise", 120, seed=1)), tmp_path / "run"
    train_on(trained, run, f"data.train={more}").well()
    run_here("heads", run, "--prune", "1", "--retrain", "1", "--data", more, "--output", tmp_path / "pruned.keras", cwd=trained.cwd).well()
    assert read_checkpoint(tmp_path / "pruned.keras").class_names[-1] == "noise"


@pytest.mark.usefixtures("trains_in_numpy")
def test_without_its_texts_a_run_keeps_what_it_can(trained: Run, tmp_path: Path) -> None:
    more, run = tmp_path / "more.csv", tmp_path / "run"
    write_table(more, rows("food noise", 120, seed=1))
    (trained.cwd / "visits.csv").rename(trained.cwd / "away.csv")
    try:
        result = train_on(trained, run, f"data.train={more}")
    finally:
        (trained.cwd / "away.csv").rename(trained.cwd / "visits.csv")
    assert result.code == 0, result.stderr
    assert "the texts that it was trained on (visits.csv) are not read again, so it may forget them" in result.stderr
    stay = "classes without texts now, which stay: price, staff; figures leave out what no text has or gets"
    assert f"{RUN}/checkpoint.keras: {stay}" in result.stderr
    assert "accuracy_of_base" not in result.json["metrics"]
    assert answers(run, rows("food noise", 60, seed=2)) > 0.9
    assert answers(run, rows("price", 60, seed=3)) > 0.5


@pytest.mark.usefixtures("trains_in_numpy")
def test_the_later_label_of_a_text_counts(trained: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corrected = [(text, "price") for text, label in rows("food price staff", 240, seed=0) if label == "food"][:40]
    write_table(tmp_path / "corrections.csv", corrected)
    result = train_on(trained, tmp_path / "run", f"data.train={tmp_path / 'corrections.csv'}", "training.epochs=1").well()
    assert "40 texts with another label than before" in result.stderr
    monkeypatch.chdir(trained.cwd)
    data = prepare(load_config(tmp_path / "run/config.yaml"))
    before = prepare(load_config(Path(RUN) / "config.yaml"))
    price = data.class_names.index("price")
    assert len(data.train) == len(before.train)
    assert (data.train.offsets == before.train.offsets).all()  # the same texts are held out
    changed = np.concatenate([one.labels for one in (data.train, data.validation)]) == price
    assert changed.sum() - np.concatenate([one.labels == price for one in (before.train, before.validation)]).sum() == 40


def test_texts_that_were_added_to_a_file_of_the_base(trained: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(trained.cwd / "runs", "runs")
    said = list[str]()
    for num_texts in (240, 250):
        write_table(Path("visits.csv"), rows("food price staff", num_texts, seed=0))
        prepare(config_to_train_on(Path(RUN), []), Callbacks(note=said.append))
    others = "its files have 250 texts now and had 240, so other texts are held out than before"
    assert [line.partition(": ")[2].partition(", and")[0] for line in said if "held out" in line] == [others]


def test_every_further_file_comes_after_those_of_the_base(trained: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(trained.cwd)
    for given, more in (
        (["data.more=[a.csv]"], ["a.csv"]),
        (["data.train=a.csv", "data.more=[b.csv]"], ["a.csv", "b.csv"]),
        (["data.train=[visits.csv,a.csv]"], ["a.csv"]),
        ([], []),
    ):
        data = config_to_train_on(Path(RUN), given).data
        assert isinstance(data, FilesData)
        assert (data.train, data.more) == ("visits.csv", more)
    other = load_config(Path(RUN) / "config.yaml", [f"training.base={RUN}", "data.train=[a.csv,visits.csv]"])
    assert error_of(prepare, other) == (
        "training.base: visits.csv is among its files, and data.train and data.more do not begin with these; "
        "use --from, so that held-out texts stay held out"
    )


def test_a_config_that_names_other_data_than_the_checkpoint_is_not_followed(trained: Run, tmp_path: Path) -> None:
    run = shutil.copytree(trained.cwd / RUN, tmp_path / "run")
    config = (run / "config.yaml").read_text()
    (run / "config.yaml").write_text(config.replace("train: visits.csv", "train: private.csv"))
    shown = refusal(run_here("train", "--from", run, "--output", tmp_path / "on", cwd=trained.cwd))
    fault = "its config.yaml and its checkpoint do not name the same data, so none of it is read"
    assert shown == f"--from {run}: {fault}; put the config.yaml of its training back"


@pytest.mark.usefixtures("trains_in_numpy")
def test_an_unfinished_base_is_named_and_numbers_go_on(trained: Run, tmp_path: Path) -> None:
    shutil.copy(trained.cwd / "visits.csv", tmp_path)
    for name in ("visits", "visits-2", "covid-19"):
        shutil.copytree(trained.cwd / RUN, tmp_path / "runs" / name)
    (tmp_path / "runs/visits-2/metrics.json").unlink()
    for name, after in (("visits-2", "visits-3"), ("covid-19", "covid-19-2")):
        result = run_here("train", "--from", f"runs/{name}", "--set", "training.epochs=1", "--json", cwd=tmp_path).well()
        assert result.json["checkpoint"] == f"runs/{after}/checkpoint.keras"
        said = f"runs/{name}/checkpoint.keras: its training is not finished; its best epoch so far is the base"
        assert (said in result.stderr) == (name == "visits-2")


def test_other_shapes_and_other_held_out_texts_are_refused(trained: Run, tmp_path: Path) -> None:
    anew = "or train anew on all texts: the command of the base's training with --set data.more=[FILE]"
    for setting, there in (("model.embed_dim=16", "8"), ("seed=1", "0"), ("data.test_share=0.2", "null")):
        shown = refusal(train_on(trained, tmp_path / "run", setting))
        assert shown == f"{setting}: the base has {there}; take {setting.partition('=')[0]}={there}, {anew}"
    assert not (tmp_path / "run").exists()


@pytest.mark.usefixtures("trains_in_numpy")
def test_an_interrupted_run_goes_on(trained: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_table(tmp_path / "more.csv", rows("food price staff noise", 60, seed=4))
    monkeypatch.chdir(trained.cwd)
    data = prepare(config_to_train_on(Path(RUN), [f"data.train={tmp_path / 'more.csv'}", "training.epochs=2"]))
    train(data.config, tmp_path / "whole", data=data)
    interrupt(data.config, tmp_path / "parts", 3, data)
    train(load_config(tmp_path / "parts/config.yaml"), tmp_path / "parts", resume=True)
    assert_same_run(tmp_path / "whole", tmp_path / "parts")


@pytest.mark.usefixtures("trains_in_numpy")
def test_a_program_trains_on() -> None:
    settings = {"embed_dim": 8, "num_heads": 2, "feed_forward_dim": 8, "epochs": 2, "linear": {"buckets": 4096}}
    texts, labels = zip(*rows("food price", 120, seed=0), strict=True)
    base = mha_cli.train("text", texts, labels, **settings)
    texts, labels = zip(*rows("food price noise", 120, seed=1), strict=True)
    said = list[str]()
    model = mha_cli.train({}, texts, labels, base=base, epochs=2, log=said.append)
    assert model.classes == ("food", "price", "noise")
    assert any("are not read again" in line for line in said)
    assert model.predict(["the music was loud"])[0].label == "noise"
    with pytest.raises(MhaError, match="base brings its own config"):
        mha_cli.train("text", texts, labels, base=base)
    with pytest.raises(MhaError, match=r"base is 'runs/visits'; give a model, such as mha_cli.load\(FOLDER\)"):
        mha_cli.train({}, texts, labels, base="runs/visits")  # type: ignore[arg-type]
