"""`mha data` with -c, and the line of `mha predict` about texts of which the model is less sure."""

import json
import random
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mha_cli.checkpoint.file import write_checkpoint
from mha_cli.checkpoint.held_out import HeldOut
from mha_cli.runs import CHECKPOINT, CONFIG
from tests.checkpoints import WORDS, small_checkpoint, write_run
from tests.cli.command import Mha, refusal
from tests.tables import write_table

DATA = {"source": "files", "train": "labelled.csv", "text_column": "what", "label_column": "verdict"}


def texts(number: int, seed: int) -> list[str]:
    rng = random.Random(seed)
    return [" ".join(rng.choices(WORDS, k=rng.randrange(3, 12))) for _ in range(number)]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run whose held-out answers are surer than those to any text."""
    rows = [(text, "pos" if row % 2 else "neg") for row, text in enumerate(texts(199, 0))]
    write_table(tmp_path / "labelled.csv", rows, "what,verdict")
    probabilities = np.tile(np.array([[0.99, 0.01], [0.01, 0.99]], np.float32), (50, 1))
    model = replace(small_checkpoint(), held_out=HeldOut.of(probabilities, probabilities.argmax(axis=1)))
    return write_run(tmp_path / "run", model, data=DATA)


def test_new_texts_are_compared_with_those_of_the_run(tmp_path: Path, run: Path, mha: Mha) -> None:
    new = [f"{text} unheard of" for text in texts(101, 1)]
    write_table(tmp_path / "new.csv", ((row, text) for row, text in enumerate(new)), "id,what")
    result = mha("data", "new.csv", "-c", "run").well()
    assert result.stderr == ""
    shown = " ".join(result.stdout.replace("│", " ").split())
    assert "texts 199 101 " in shown
    assert "unknown words" in result.lines[-1]
    assert result.lines[-1].startswith("the new texts differ from the old ones: ")
    assert "unheard" in next(line for line in result.lines if "words of new texts" in line)
    found = mha("data", "new.csv", "-c", "run", "--json").json
    assert (found["num_old"], found["num_new"], found["num_copies"]) == (199, 101, 0)
    assert {"unknown words", "AUC by words"} <= {*found["different"]} <= {one["name"] for one in found["comparisons"]}

    lines = "\n".join(json.dumps({"text": text}) for text in new).encode()
    piped = mha("data", "-", "-c", "run", "--format", "jsonl", "--text-column", "text", "--json", stdin=lines)
    assert piped.json == found


def test_without_the_files_of_the_run_stderr_says_so(tmp_path: Path, run: Path, mha: Mha) -> None:
    (tmp_path / "new.txt").write_text("\n".join(texts(101, 1)))
    (run / CONFIG).unlink()
    result = mha("data", "new.txt", "-c", "run").well()
    because = "because the old texts cannot be read: the config of the run is not beside its checkpoint"
    assert result.stderr == f"only answers are compared, {because}\n"
    assert "the new texts differ from the old ones: largest probability" in result.lines[-1]


def test_options_that_do_not_go_together(tmp_path: Path, run: Path, mha: Mha) -> None:
    new = ("data", "new.txt", "-c", "run")
    (tmp_path / "new.txt").write_text("a film\n")
    assert refusal(mha(*new, "--label-issues", "3")).startswith("data takes either --checkpoint or --label-issues")
    assert refusal(mha(*new, "-o", "a.csv")) == "--output goes with --next; leave it out"
    assert refusal(mha(*new, "--label-column", "verdict")) == "--label-column goes with labelled texts; leave it out"
    assert refusal(mha("data", "new.txt", "--format", "lines")) == "--format goes with --next or --checkpoint; leave it out"
    (tmp_path / "new.txt").write_text("")
    assert refusal(mha(*new)).startswith("no new texts")
    write_checkpoint(run / CHECKPOINT, small_checkpoint())
    assert refusal(mha(*new)).startswith("no held-out answers in the checkpoint, and no old texts: ")


def test_predict_tells_of_texts_of_which_the_model_is_less_sure(tmp_path: Path, run: Path, mha: Mha) -> None:
    told = (
        r"the model is less sure of these texts than of the old ones: 100% of the probabilities are below 0\.\d\d, of held-out texts 0%; "
    )
    (tmp_path / "new.txt").write_text("\n".join(texts(1_000, 1)))
    result = mha("predict", "-c", "run", "-i", "new.txt").well()
    assert re.fullmatch(f"{told}mha data FILE -c RUN shows what differs\n", result.stderr)
    assert mha("predict", "-c", "run", "-i", "new.txt", "--workers", "2").stderr == result.stderr
    assert mha("predict", "-c", "run", "-i", "new.txt", "--only", "pos", "--quiet").stderr == ""
    (tmp_path / "new.txt").write_text("\n".join(texts(999, 1)))
    assert mha("predict", "-c", "run", "-i", "new.txt").stderr == ""
