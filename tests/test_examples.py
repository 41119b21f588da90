"""Every example that a page, a help text or a hint shows does what it promises.

The examples of a page run in its order, in one folder with the files that the pages speak of.
"""

import contextlib
import dataclasses
import gzip
import io
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from signal import SIGTERM
from typing import Any
from urllib.request import urlopen

import numpy as np
import pytest
import typer

from mha_cli.checkpoint.file import read_checkpoint, write_checkpoint
from mha_cli.cli import data
from mha_cli.config import loading
from mha_cli.config.loading import config_from_dict, config_to_dict, config_to_yaml, load_config
from mha_cli.config.recipes import find_config, recipe_names
from mha_cli.config.settings import Config
from mha_cli.describe.new_config import LEAST_TO_PART
from mha_cli.python import api
from mha_cli.runs import PACKAGED
from mha_cli.runtime.classifier import Classifier
from tests.cli.command import TIMEOUT, Result, environment, fork, run_here, run_mha, set_all, step_by_step
from tests.cli.conftest import once
from tests.documentation import GROUP, ROOT, Example, examples, fits, mha_commands, words_of
from tests.tables import write_table
from tests.workbooks import write_workbook

EXAMPLES = examples()
LINES = {example.code: example.place for shown in EXAMPLES.values() for example in shown if example.language == "sh"}

NOT_RUN = {
    "python3 -m venv": "set-up with the network; .ci/run runs those of the README and of docs/deploy.md as they stand",
    "du -sm": "set-up; .ci/run runs it",
    "venv/bin/pip install": "set-up with the network; .ci/run runs it",
    "docker": "needs Docker",
    "systemctl": "needs systemd",
    "mv new.keras": "needs systemd; tests/test_deploy.py replaces a model",
    "for port in": "needs systemd; tests/test_deploy.py replaces a model",
    "source .venv/bin/activate": "set-up",
    "pip install": "set-up with the network",
    "pre-commit install": "set-up; it writes into the checkout",
    "python -m pytest": "this",
    "ruff format": "CI runs it",
    "mypy": "CI runs it",
    "lint-imports": "CI runs it",
    "python docs/": "tests/test_docs.py calls both scripts",
    "pbpaste": "is there on macOS alone",
    "def train_step": "an excerpt of training/distribution.py, without its surroundings",
    "python benchmarks/": "takes minutes or hours; some need the real data set",
    "TFDS_DATA_DIR=…": "has a placeholder, and takes hours",
    "python -c": "downloads a data set",
    "mha predict … | head": "has a placeholder; tests/cli/test_predict_output.py has a reader that leaves",
    "mha batch s3://": "needs an object store",
    "mha train --config text --set 'data.train=s3://": "needs an object store",
    "mha predict --input gs://": "needs an object store",
    "mha train --from": "needs a run and its texts; tests/preparation/test_training_on.py trains on",
    "huggingface-cli download": "downloads an encoder",
    "mha train --config imdb-pretrained": "needs an encoder; tests/pretrained/test_commands.py trains with one",
    "mha train --config pretrained": "needs an encoder; tests/pretrained/test_commands.py trains with one",
    "mha train --config text --set data.train=texts.csv": "needs vectors, or a teacher; tests/pretrained trains with both",
    'mha attention "What river flows': "needs a real encoder; tests/pretrained/test_real_heads.py",
    "mha heads runs/questions": "needs a real encoder; tests/pretrained/test_real_heads.py",
    "mha train --config text --set data.train=first.csv": "a person writes the labels before; tests/cli/test_next_texts.py writes some",
    "mha data texts.csv --next 24 --pretrained": "needs an encoder; tests/cli/test_next_texts.py makes one",
    "mha label": "waits for a person; tests/cli/test_label.py presses the keys",
    "mha explain -i FILE": "has a placeholder",
    "mha init FILE": "has a placeholder",
    "mha --install-completion": "writes into the files of the user's shell; tests/cli/test_completion.py installs it for a home of its own",
    "mha train --config configs/sample.yaml --set model.num_heads=5": "shown with its error, which docs/generate.py writes",
    "mha train --config sample --output runs/sample": "the training of the README's first command, which .ci/run runs",
    "TF_CONFIG=": "waits for other workers; tests/training/test_distribution.py starts two",
    "import ray": "starts workers; tests/benchmarks/test_engines.py runs it",
    "import dask": "starts workers; tests/benchmarks/test_engines.py runs it",
    "import pandas as pd\nfrom pyspark": "starts workers; tests/benchmarks/test_engines.py runs it",
    "srun": "needs SLURM",
    "mha train --config runs/imdb/config.yaml --output runs/imdb --resume": "tests/training/test_resume_run.py goes on with one",
}
"""How lines begin that are shown and not run here, and why."""

REVIEWS = ("A superb, moving film.", "Great cast, awful script.")
"""The packaged model gives the first pos and the second neg, each with more than 0.9."""

WRITTEN_BY_INIT = "reviews.yaml", "tickets.yaml", "requests.yaml"  # configs of lines that follow on ``mha init``


def not_run(code: str) -> str | None:
    return next((start for start in NOT_RUN if code.startswith(start)), None)


def trains(example: Example) -> bool:
    if example.language == "python":
        return bool(re.search(r"^[^#]*(mha\.train|MHAClassifier)\(", example.code, re.MULTILINE))
    return any({"--config", "--retrain"} & {*command} for command in mha_commands(example.code))


PAGES = [page for page, shown in EXAMPLES.items() if not all(not_run(example.code) for example in shown)]


@pytest.mark.exhaustive
@pytest.mark.extras
@pytest.mark.parametrize("page", PAGES)
def test_examples_run(page: str, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MHA_CHECKPOINT", raising=False)
    for module in (data, loading):
        monkeypatch.setattr(module, "load_config", load_small_config)
    monkeypatch.setattr(api, "given_config", lambda *given, whole=api.given_config: smaller(whole(*given)))
    names: dict[str, Any] = {"__name__": page}
    lacking = list[str]()
    for example in (example for example in EXAMPLES[page] if not not_run(example.code)):
        for path in checkpoints_in(example.code):
            put(trained, path, (path.parent.name or path.stem) if path.suffix else path.name)
        try:
            with step_by_step() if trains(example) else contextlib.nullcontext():
                run_python(example, names) if example.language == "python" else run_shell(example)
        except ModuleNotFoundError as error:  # of an extra
            lacking.append(f"{example.place}: {error}")
        except Exception as error:
            error.add_note(f"{example.place}: {example.code}")
            raise
    if (run := ANSWERED.get(page)) and "text" in names:  # all that it needs is installed
        answer = Classifier(read_checkpoint(Path(run, "checkpoint.keras"))).predict([names["text"]])[0]
        np.testing.assert_allclose(np.ravel(names["probabilities"])[-1], [*answer.probabilities.values()][-1], atol=1e-5)
    if lacking:
        pytest.skip(f"all but {lacking}")


def test_few_examples_are_not_run_and_these_could_be() -> None:
    left_out = [example for shown in EXAMPLES.values() for example in shown if not_run(example.code)]
    assert {not_run(example.code) for example in left_out} == NOT_RUN.keys()
    assert len(left_out) < sum(map(len, EXAMPLES.values())) / 3
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    for example in left_out:
        if example.language == "python":
            compile(example.code, example.place, "exec")
            continue
        words = words_of(example.code)
        for script in (ROOT / word for word in words if word.endswith(".py")):
            known = script.read_text("utf-8") + (ROOT / "benchmarks" / "harness.py").read_text("utf-8")
            assert {word for word in words if word.startswith("--")} <= {*re.findall(r'"(--[\w-]+)"', known)}, example
        named = re.search(r"\.\[(.*)\]", example.code)
        assert named is None or {*named[1].split(",")} <= extras.keys(), example


@pytest.mark.parametrize("line", [line for line in LINES if any(mha_commands(line))], ids=lambda line: f"{LINES[line]}: {line}")
def test_it_fits_the_command(line: str) -> None:
    for name, *arguments in mha_commands(line.replace("$SLURM_ARRAY_TASK_ID", "3").replace("{}", "3")):
        if name.startswith("-"):
            assert name in {option for parameter in GROUP.params for option in parameter.opts} | {"-h", "--help"}
            continue
        assert name in GROUP.commands, f"mha has no command {name}"
        try:
            given = GROUP.commands[name].make_context(name, list(arguments)).params
        except typer.Exit:  # --help
            continue
        if given.get("config") not in (None, *WRITTEN_BY_INIT) and not not_run(line):
            load_config(ROOT / find_config(given["config"]), given["overrides"] or [])


# Running them


ANSWERED = {"docs/checkpoint.md": "runs/sample", "docs/export.md": "runs/imdb"}
"""Pages whose Python answers ``text`` with ``probabilities``, without mha's own classifier, and the run whose model it takes."""


def run_python(example: Example, names: dict[str, Any]) -> None:
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(example.code, example.place, "exec"), names)
    assert not example.shown or fits(printed.getvalue(), example.shown), printed.getvalue()


def run_shell(example: Example) -> None:
    line, here = example.code.replace("tfds:imdb_reviews", "films.csv"), Path.cwd()
    command, _, written = line.partition(" > ")
    words = words_of(command)
    if words[:2] == ["mha", "serve"] and "--help" not in words:
        serves(words[1:], here)
    elif words[0] == "curl":
        asks(line)
    elif words[0] == "mha" and not set("|<>&;$") & {word[0] for word in words_of(command + written)}:
        reads_bytes = words[1] == "predict" or "-" in words
        result = run_mha(*words[1:], cwd=here, stdin=REVIEWS[0]) if reads_bytes else run_here(*words[1:], cwd=here)
        raise_if_missing(result.stderr)
        assert result.code == 0, result.stderr
        Path(written or os.devnull).write_text(result.stdout)
    else:
        (Path("bin") / "mha").exists() or write_program(Path("bin"))
        changes = {"PATH": f"{here / 'bin'}:{os.environ['PATH']}", "SLURM_ARRAY_TASK_ID": "3"}
        done = subprocess.run(["sh", "-c", line], env=environment(changes), input=REVIEWS[0], capture_output=True, text=True, check=False)
        raise_if_missing(done.stderr)
        assert done.returncode == 0, done.stderr
        assert "error: " not in done.stderr  # of what stands before a pipe


def raise_if_missing(stderr: str) -> None:
    if "; pip install -e '.[" in stderr:
        raise ModuleNotFoundError(stderr)


def write_program(folder: Path) -> None:
    """The command ``mha`` of this checkout, for shells and what they start."""
    folder.mkdir()
    program = folder / "mha"
    program.write_text(f"#!{sys.executable}\nfrom mha_cli.cli.app import main\n\nmain()\n")
    program.chmod(0o755)


def serves(arguments: Sequence[str], folder: Path) -> None:
    """Start a service, on a port that is free; ask how it is, and end it."""
    given = list(arguments)
    if "--port" in given:
        del given[given.index("--port") : given.index("--port") + 2]
    with fork([*given, "--port", "0"], folder, text=True) as process:
        while (line := process.stderr.readline()).startswith("using "):
            pass
        raise_if_missing(line)
        with urlopen(f"{line.split()[0]}/healthz") as answer:
            assert json.load(answer)["status"] == "ok"
        process.send_signal(SIGTERM)
        process.communicate(timeout=TIMEOUT)
    assert process.returncode == 0


def asks(line: str) -> None:
    """Ask a service with the model that comes with mha; it answers as the page says that shows the line."""
    from tests.serve.services import service

    if shutil.which("curl") is None:
        pytest.skip("needs curl")
    with service(read_checkpoint(PACKAGED)) as port:
        done = subprocess.run(["sh", "-c", line.replace(":8000/", f":{port}/")], capture_output=True, text=True, check=True)
    shown = (ROOT / "docs" / "serve.md").read_text("utf-8")
    assert f"$ {line}\n{done.stdout}\n```" in shown or f"$ {line}\n" not in shown
    assert set(json.loads(done.stdout)) & {"label", "error"}


# The files that the examples presuppose


OWN = {"text_column": "review", "label_column": "stars"}  # the columns of ``reviews.csv`` and ``more.csv``
SMALL = ("training.epochs=1", "model.embed_dim=16", "model.feed_forward_dim=16", "data.num_texts=200", "training.batch_size=100")
"""Settings of the model that the examples take, of the recipe ``sample``."""


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run directory of that model."""

    def run(cwd: Path) -> Result:
        with step_by_step():
            return run_here("train", "--config", "sample", *set_all(*SMALL), "--output", "run", cwd=cwd)

    trained = once(tmp_path_factory, "examples", run)
    assert trained.result.code == 0, trained.result.stderr
    return trained.cwd / "run"


def prepare(folder: Path) -> None:
    """The files that the pages speak of, but for checkpoints; for ``reviews.csv`` `mha init` writes a config with a test part."""
    (folder / "configs").symlink_to(ROOT / "configs")
    (folder / "docs" / "figures").mkdir(parents=True)
    rows = [(number, f"{REVIEWS[number % 2]} {number}", ("pos", "neg")[number % 2], (5, 1)[number % 2]) for number in range(LEAST_TO_PART)]
    stars = [(number, text, stars) for number, text, _, stars in rows]
    write_table(folder / "reviews.csv", stars, "id,review,stars")
    rows = rows[:40]
    write_table(folder / "more.csv", stars[:40], "id,review,stars")
    labelled = [(text, label) for _, text, label, _ in rows]
    write_table(folder / "films.csv", labelled)
    write_table(folder / "mine.csv", labelled, "review,verdict")
    write_table(folder / "texts.csv", ([text] for text, _ in labelled), "text")
    for name in ("anna.csv", "ben.csv"):
        write_table(folder / name, labelled)
    write_table(folder / "labels.csv", [(*row, "random") for row in labelled], "text,label,drawn")
    tags = [(text, ("billing", "billing|refund", "refund", "")[number % 4]) for number, text, _, _ in rows]
    write_table(folder / "tickets.csv", tags, "text,tags")
    of_levels = ("hardware > printer", "hardware > screen", "software > mail", "software > login")
    write_table(folder / "requests.csv", [(text, of_levels[number % 4]) for number, text, _, _ in rows], "text,label")
    mails = [(f"About number {number}", text, ("sales", "help")[number % 2]) for number, text, _, _ in rows]
    write_table(folder / "mails.csv", mails, "subject,body,team")
    dates = ("2026-10-31", "2026-11-29")
    write_table(folder / "new.csv", [(number, text, dates[number]) for number, text in enumerate(REVIEWS)], "id,review,date")
    of_teams = [(number, text, ("film", "mail")[number % 2]) for number, text, _, _ in rows]
    with contextlib.suppress(ImportError):  # an extra
        write_workbook(folder / "tickets.xlsx", {"Read me": [["Tickets"]], "May 2024": [["id", "body", "team"], *of_teams]})
    with contextlib.closing(sqlite3.connect(folder / "shop.db")) as connection, connection:
        connection.execute("CREATE TABLE tickets (id, body, team)")
        connection.executemany("INSERT INTO tickets VALUES (?, ?, ?)", [*of_teams, (99, REVIEWS[0], "")])
    (folder / "review.txt").write_text(REVIEWS[0])
    (folder / "reviews.txt").write_text("\n".join(REVIEWS))
    (folder / "reviews.gz").write_bytes(gzip.compress("\n".join(REVIEWS).encode()))
    (folder / "reviews.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in REVIEWS))
    nested = [{"text": {"body": text}, "label": label} for _, text, label, _ in rows]
    (folder / "part-1.jsonl").write_text("".join(json.dumps(record) + "\n" for record in nested))
    for path in ("reviews/a.jsonl", "archive/2024/a.jsonl.gz"):
        objects = "".join(json.dumps({"text": text, "body": text}) + "\n" for text in REVIEWS).encode()
        (folder / path).parent.mkdir(parents=True)
        (folder / path).write_bytes(gzip.compress(objects) if path.endswith(".gz") else objects)
    for number, text, label, _ in rows:
        for split in ("train", "test"):
            path = folder / "aclImdb" / split / label / f"{number}_1.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)


def checkpoints_in(code: str) -> Iterator[Path]:
    """The checkpoints and run directories that an example reads."""
    words = re.findall(r"[\w./-]+", code)
    for before, word in pairwise(["", *words]):
        if before not in {"--output", "-o", "save"} and (word.endswith(".keras") or word.startswith("runs/")):
            yield Path(word)


def put(trained: Path, path: Path, name: str) -> None:
    """A trained model as a run directory or a checkpoint, if there is none.

    Data and classes are those of the recipe by whose name ``name`` begins, or of ``reviews.csv``.
    """
    run = path.parent if path.suffix else path
    recipe = next((recipe for recipe in sorted(recipe_names(), reverse=True) if name.startswith(recipe)), "text")
    if recipe == "sample":
        data, classes = {"source": "sample", "num_texts": 200}, ("neg", "pos")
    elif recipe == "text":
        data, classes = {"source": "files", "train": "reviews.csv", "test": "more.csv", **OWN}, ("1", "5")
    else:
        data, classes = {"source": "files", "train": "films.csv", "test": "films.csv"}, ("neg", "pos")
    checkpoint = read_checkpoint(trained / "checkpoint.keras")
    config = config_from_dict({**config_to_dict(checkpoint.config), "data": data}, "small")
    if run.parent.name == "runs" and not run.exists():
        shutil.copytree(trained, run)
        (run / "config.yaml").write_text(config_to_yaml(config))
        (run / "checkpoint.keras").unlink()
    path = path if path.suffix else run / "checkpoint.keras"
    if not path.exists():
        write_checkpoint(path, dataclasses.replace(checkpoint, config=config, class_names=classes))


def load_small_config(path: Path, *given: Any) -> Config:
    return smaller(load_config(path, *given))


def smaller(config: Config) -> Config:
    """A config with a model and data so small that training takes seconds."""
    whole = config_to_dict(config)
    if whole["data"]["source"] == "tfds":
        whole["data"] = {"source": "files", "train": "films.csv"}
    small = {
        "num_texts": 200,
        "vocabulary_size": 300,
        "embed_dim": 16,
        "feed_forward_dim": 16,
        "key_dim": 16,
        "epochs": 1,
        "batch_size": 100,
    }
    small |= dict.fromkeys(("ngram_buckets", "buckets", "subword_buckets"), 64)
    for section in whole.keys() & {"data", "text", "model", "linear", "training"}:
        whole[section] = whole[section] and whole[section] | {name: size for name, size in small.items() if whole[section].get(name)}
    if whole["auto"]:
        whole["training"] |= {"epochs": 1, "batch_size": 100}
    return config_from_dict(whole, "small")
