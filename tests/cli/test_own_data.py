"""A recipe on texts of one's own: what the run is called, what comes next, and what a checkpoint from elsewhere may ask for."""

import json
import os
import shlex
import shutil
from pathlib import Path

import pytest

from mha_cli.cli.train import scoring_command
from mha_cli.config.loading import config_from_dict, load_config
from tests.checkpoints import members_of, rewrite
from tests.cli.command import TRACED_SOON, Mha, Result, refusal, run_here, set_all
from tests.training.numpy_trainer import in_numpy

ROWS = "".join(f"lamp {number} broke,bad\nlamp {number} works,good\n" for number in range(24))
SMALL = (*TRACED_SOON, "model.embed_dim=8", "model.num_heads=2", "model.feed_forward_dim=8", "training.epochs=1")
OWN = ("data.source=files", "data.train=my/complaints.csv")
CHECKPOINT = "runs/complaints/checkpoint.keras"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    """``mha train --config sample`` on a CSV file, and the folder that it ran in. Not to be written to."""
    cwd = tmp_path_factory.mktemp("own")
    (cwd / "my").mkdir()
    (cwd / "my" / "complaints.csv").write_text("body,kind\n" + ROWS)
    with pytest.MonkeyPatch.context() as monkeypatch:
        in_numpy(monkeypatch.setattr)
        return cwd, run_here("train", "--config", "sample", *set_all(*SMALL, *OWN), cwd=cwd)


@pytest.fixture
def cwd(trained: tuple[Path, Result], tmp_path: Path) -> Path:
    """A copy of the folder of the training."""
    return Path(shutil.copytree(trained[0], tmp_path / "copy"))


def test_weights_of_texts(mha: Mha, cwd: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    in_numpy(monkeypatch.setattr)
    wrong = "".join(f"lamp {number} broke,good,{number % 2 / 100}\n" for number in range(24))
    right = "".join(f"{row},1\n" for row in ROWS.splitlines())
    (cwd / "weighted.csv").write_text("body,kind,sure\n" + right + wrong)
    own = (*SMALL, "data.source=files", "data.train=weighted.csv", "data.weight_column=sure", "linear.max_ngram=2")
    trained = mha("train", "--config", "sample", *set_all(*own))
    assert trained.code == 0
    assert "texts left out, since they have weight 0: 12" in trained.stderr
    evaluated = mha("evaluate", "runs/weighted", "--data", "my/complaints.csv", "--json").json
    assert evaluated["accuracy"] == 1.0


def test_the_run_is_named_for_the_data_and_its_columns_are_found_and_stored(trained: tuple[Path, Result]) -> None:
    cwd, result = trained
    assert result.code == 0, result.stderr
    assert [path.name for path in (cwd / "runs").iterdir()] == ["complaints"]
    found = ("text column body (longest texts, 9 letters on average)", "label column kind (by its name)")
    assert result.stderr.splitlines()[:2] == [f"my/complaints.csv: {one}" for one in found]
    stored = load_config(cwd / "runs/complaints/config.yaml").data.model_dump()
    assert stored.items() >= {"text_column": "body", "label_column": "kind"}.items()


def test_what_training_says_next_works(trained: tuple[Path, Result], mha: Mha) -> None:
    (following,) = (line.removeprefix("next: mha ") for line in trained[1].lines if line.startswith("next: "))
    scored = mha(*shlex.split(following), "--json").well()
    best = json.loads((trained[0] / "runs/complaints/metrics.json").read_text())["best"]
    assert scored.json["accuracy"] == best["validation_accuracy"]


@pytest.mark.parametrize(("refit", "unseen"), [(False, "--split validation"), (True, "--data FILE")])
def test_what_training_says_next_scores_unseen_texts(refit: bool, unseen: str) -> None:
    data = {"source": "files", "train": "mine.csv"}
    config = config_from_dict({"auto": True, "data": data, "linear": {"max_ngram": 2}, "training": {"refit_linear": refit}}, "test")
    assert scoring_command(Path("runs/mine"), config) == f"mha evaluate runs/mine {unseen}"


def test_predict_remembers_the_text_column_or_takes_another(mha: Mha, cwd: Path) -> None:
    files = {"csv": "id,body\n7,it broke\n", "jsonl": '{"id": 7, "body": "it broke"}\n', "txt": "it broke\n"}
    said = mha("predict", "-c", "runs/complaints", "it broke")
    for extension, rows in files.items():
        (cwd / f"more.{extension}").write_text(rows)
        assert mha("predict", "-c", "runs/complaints", "-i", f"more.{extension}") == said
    (cwd / "more.csv").write_text("note,body\nit broke,\n")
    assert mha("predict", "-c", "runs/complaints", "-i", "more.csv").stdout.endswith("\tempty\n")
    assert mha("predict", "-c", "runs/complaints", "-i", "more.csv", "--text-column", "note") == said


def test_a_config_that_is_none_makes_no_run_ones_own(mha: Mha, cwd: Path) -> None:
    beside = cwd / "runs/complaints/config.yaml"
    for make in (lambda: beside.write_text("data: ["), lambda: os.mkfifo(beside)):  # to open a pipe would wait for ever
        beside.unlink()
        make()
        assert "no config.yaml beside it agrees" in refusal(mha("evaluate", "runs/complaints", "--split", "validation"))


@pytest.mark.usefixtures("untraced")
def test_named_data_is_all_that_is_read(mha: Mha, cwd: Path) -> None:
    """Its columns and its held-out part are those of the training; retraining takes the named data, too."""
    shutil.move(cwd / CHECKPOINT, cwd / "got.keras")
    best = json.loads((cwd / "runs/complaints/metrics.json").read_text())["best"]
    config = json.loads(members_of(cwd / "got.keras")["mha.json"])["config"]
    gone = {"source": "files", "train": "gone.csv", "validation_share": 0.1, "text_column": "body", "label_column": "kind"}
    rewrite(cwd / "got.keras", config=config | {"data": gone})
    data = ("--data", "my/complaints.csv", "--split", "validation")
    scored = mha("evaluate", "got.keras", *data, "--json")
    assert scored.json["accuracy"] == best["validation_accuracy"]
    pruned = mha("heads", "got.keras", *data, "--prune", "1", "--output", "pruned.keras", "--retrain", "1", "--json").well()
    assert "texts that are also" not in pruned.stderr
    assert pruned.json["pruning"]["retrained_epochs"] == 1


@pytest.fixture(scope="module")
def one_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which a config was written for one CSV file and a model trained from it. Not to be written to."""
    cwd = tmp_path_factory.mktemp("one-file")
    rows = "".join(f"{number},lamp {number} broke,bad\n{number},lamp {number} works,good\n" for number in range(250))
    (cwd / "messages.csv").write_text("id,message,kind\n" + rows)
    with pytest.MonkeyPatch.context() as monkeypatch:
        in_numpy(monkeypatch.setattr)
        for command in (("init", "messages.csv"), ("train", "--config", "messages.yaml", *set_all(*SMALL, "linear.max_ngram=1"))):
            result = run_here(*command, cwd=cwd).well()
        assert result.lines[-1] == "next: mha evaluate runs/messages"
    return cwd


@pytest.mark.parametrize("arguments", [(), ("--find-threshold", "precision=0.9")])
def test_one_file_is_scored_on_texts_that_no_training_saw(arguments: tuple[str, ...], one_file: Path) -> None:
    scored = run_here("evaluate", "runs/messages", *arguments, "--json", cwd=one_file).well()
    found = scored.json
    assert (found["split"], [row["num_texts"] for row in found["classes"]]) == ("test", [50, 50])
    metrics = json.loads((one_file / "runs/messages/metrics.json").read_text())
    assert metrics["num_train"] + metrics["num_validation"] == 400
    told = "the thresholds are chosen on these texts, so their precision and recall are optimistic; --data FILE scores others"
    assert told in scored.stderr if arguments else not scored.stderr


def test_a_class_that_is_never_answered_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its texts have the same words as those of the other two classes."""
    rows = "".join(f"lamp {number} {('works,good', 'broke,bad')[number % 2]}\n" for number in range(200))
    rare = "".join(f"lamp {number} {('works', 'broke')[number % 2]},unsure\n" for number in range(25))
    (tmp_path / "lamps.csv").write_text(f"text,kind\n{rows}{rare}")
    in_numpy(monkeypatch.setattr)
    settings = (
        *SMALL,
        "training.epochs=4",
        "training.learning_rate=0.05",
        "data.source=files",
        "data.train=lamps.csv",
        "data.validation_share=0.2",
    )
    trained = run_here("train", "--config", "sample", *set_all(*settings), "--output", "run", cwd=tmp_path)
    named = "classes that are never the answer: unsure ({}); training.class_weights=balanced gives rare classes more weight"
    assert f"validation part: {named.format('5 texts')}" in trained.stderr.splitlines()
    evaluated = run_here("evaluate", "run", "--data", "lamps.csv", cwd=tmp_path)
    assert f"lamps.csv, split test: {named.format('25 texts')}" in evaluated.stderr.splitlines()
