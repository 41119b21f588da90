"""Every command line that a page, a help text or a hint shows does what it promises."""

from __future__ import annotations

import dataclasses
import gzip
import json
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from signal import SIGTERM
from typing import TYPE_CHECKING, Any
from urllib.request import urlopen

import pytest
import typer

from mha_cli.checkpoint.file import read_checkpoint, write_checkpoint
from mha_cli.checkpoint.runs import PACKAGED
from mha_cli.config import loading
from mha_cli.config.loading import config_from_dict, config_to_dict, config_to_yaml, load_config
from mha_cli.config.recipes import find_config
from mha_cli.export.formats import FORMATS
from tests.checkpoints import small_checkpoint
from tests.cli.command import LEARNING, TIMEOUT, environment, fork, run_here, run_mha
from tests.documentation import GROUP, ROOT, mha_commands, shown_lines, words_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mha_cli.config.settings import Config

LINES = shown_lines()

NOT_RUN = {
    "python3 -m venv": "set-up with the network; .ci/run runs the two of the README as they stand",
    "source .venv/bin/activate": "set-up",
    "pip install": "set-up with the network",
    "pre-commit install": "set-up; it writes into the checkout",
    "python -m pytest": "this",
    "ruff format": "CI runs it",
    "mypy": "CI runs it",
    "lint-imports": "CI runs it",
    "python docs/": "tests/test_docs.py calls both scripts",
    "python benchmarks/": "takes minutes or hours; some need the real data set",
    "TFDS_DATA_DIR=…": "has a placeholder, and takes hours",
    "python -c": "downloads a data set",
    "mha predict … | head": "has a placeholder; tests/cli/test_predict_output.py has a reader that leaves",
    "mha batch s3://": "needs an object store",
    "mha explain -i FILE": "has a placeholder",
    "mha init FILE": "has a placeholder",
    "mha tune": "takes its minutes; tests/cli/test_tune.py runs short ones",
    "mha --install-completion": "writes into the files of the user's shell; tests/cli/test_completion.py installs it for a home of its own",
    "mha train --config configs/sample.yaml --set model.num_heads=5": "shown with its error, which docs/generate.py writes",
    "TF_CONFIG=": "waits for other workers; tests/training/test_distribution.py starts two",
    "srun": "needs SLURM",
    "mha train --config runs/imdb/config.yaml --output runs/imdb --resume": "tests/cli/test_stopping.py goes on with an interrupted run",
}
"""How lines begin that are shown and not run here, and why."""

REVIEWS = ("A superb, moving film.", "Great cast, awful script.")
"""Of which the model that comes with mha knows the first for pos with more than 0.9, the second for neg."""

WRITTEN_BY_INIT = "reviews.yaml"
"""The config of lines that follow on ``mha init reviews.csv``."""


def not_run(line: str) -> str | None:
    return next((start for start in NOT_RUN if line.startswith(start)), None)


def cases() -> Iterator[Any]:
    """The lines that are run; by default none that trains, and of those that take TensorFlow one a command and format."""
    seen = set[tuple[str, ...]]()
    for line in LINES:
        if not_run(line):
            continue
        words = words_of(line)
        kind = tuple(word for before, word in pairwise(words) if before in {"mha", "--format"})
        trains = any({"--config", "--retrain"} & {*words} for words in mha_commands(line))
        again = kind in seen and bool({*kind[:1]} & {*LEARNING}) and "--help" not in words
        seen |= set() if trains else {kind}
        marks = [pytest.mark.exhaustive] if trains or again else [pytest.mark.process] if needs_ray(words) else []
        yield pytest.param(line, id=f"{LINES[line]}: {line}", marks=[*marks, pytest.mark.extras] if needed(words) else marks)


def needed(words: Sequence[str]) -> list[str]:
    """The modules that a line needs, and that extras bring."""
    if needs_ray(words):
        return ["ray"]
    if words[0] == "curl" or words[:2] == ["mha", "serve"]:
        return ["fastapi", "uvicorn"]
    if words[:2] == ["mha", "report"]:
        return ["jinja2"]
    formats = [FORMATS[word] for before, word in pairwise(words) if before == "--format" and word in FORMATS]
    return [module for one in formats for module in one.packages.values()]


def needs_ray(words: Sequence[str]) -> bool:
    return words[:2] == ["mha", "batch"] and not {"--shard", "--help"} & {*words}


def test_what_is_not_run_is_shown_and_told_apart_by_its_beginning() -> None:
    assert {not_run(line) for line in LINES} - {None} == NOT_RUN.keys()
    assert len([line for line in LINES if not not_run(line)]) > 50


def test_mha_commands_are_found_in_a_line_of_shell() -> None:
    line = "$ zcat 'a b.gz' | .venv/bin/mha predict --json - > out && mha train -c x.yaml  # mha nothing"
    assert list(mha_commands(line)) == [["predict", "--json", "-"], ["train", "-c", "x.yaml"]]


@pytest.mark.parametrize("line", [line for line in LINES if any(mha_commands(line))], ids=lambda line: f"{LINES[line]}: {line}")
def test_it_fits_the_command(line: str) -> None:
    for name, *arguments in mha_commands(line):
        if name.startswith("-"):
            assert name in {option for parameter in GROUP.params for option in parameter.opts} | {"-h", "--help"}
            continue
        assert name in GROUP.commands, f"mha has no command {name}"
        try:
            given = GROUP.commands[name].make_context(name, list(arguments)).params
        except typer.Exit:  # --help
            continue
        if given.get("config") not in (None, WRITTEN_BY_INIT) and not not_run(line):
            load_config(ROOT / find_config(given["config"]), given["overrides"] or [])


@pytest.mark.parametrize("line", list(cases()))
def test_it_runs(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = [word.replace("tfds:imdb_reviews", "reviews.csv") for word in words_of(line)]
    for module in needed(words):
        pytest.importorskip(module)
    prepare(tmp_path)
    if WRITTEN_BY_INIT in words:
        (tmp_path / WRITTEN_BY_INIT).write_text(
            "auto: true\ndata: {source: files, train: reviews.csv}\ntext: {}\nmodel: {}\ntraining: {}\n"
        )
    monkeypatch.setattr(loading, "load_config", load_small_config)
    for path in checkpoints_in(words):
        if "--retrain" in words or words[:2] == ["mha", "data"]:  # which want the very data of the training
            recipe = f"configs/{path.parent.name}.yaml"
            run_here("train", "--config", recipe, "--output", path.parent, cwd=tmp_path, monkeypatch=monkeypatch)
        else:
            write_small_checkpoint(tmp_path / path)
    if words[:2] == ["mha", "serve"] and "--help" not in words:
        serves(words[1:], tmp_path)
        return
    if words[0] == "curl":
        asks(line)
        return
    if words[0] == "mha" and not set("|<>&") & {word[0] for word in words}:
        reads_bytes = words[1] == "predict" or "-" in words
        result = (
            run_mha(*words[1:], cwd=tmp_path, stdin=REVIEWS[0])
            if reads_bytes
            else run_here(*words[1:], cwd=tmp_path, monkeypatch=monkeypatch)
        )
        assert result.code == 0, result.stderr
        return
    script = f'mha() {{ "{sys.executable}" -c "from mha_cli.cli.app import main; main()" "$@"; }}; {line}'
    done = subprocess.run(
        ["sh", "-c", script], cwd=tmp_path, env=environment(), input=REVIEWS[0], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "error: " not in done.stderr  # of what stands before a pipe


def serves(arguments: Sequence[str], folder: Path) -> None:
    """Start a service, on a port that is free; ask how it is, and end it."""
    with fork([*arguments, "--port", "0"], folder, text=True) as process:
        assert process.stderr is not None
        while (line := process.stderr.readline()).startswith("using "):
            pass
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


# What the lines presuppose


def prepare(folder: Path) -> None:
    """The files that the pages speak of, but for checkpoints."""
    (folder / "configs").symlink_to(ROOT / "configs")
    (folder / "docs" / "figures").mkdir(parents=True)
    rows = [(REVIEWS[number % 2], ("pos", "neg")[number % 2], (5, 1)[number % 2]) for number in range(40)]
    write_table(folder / "reviews.csv", ("id", "text", "review", "label", "stars"), [(7, text, text, *classes) for text, *classes in rows])
    write_table(folder / "more.csv", ("text", "stars"), [(text, stars) for text, _, stars in rows])
    write_table(folder / "new.csv", ("id", "review"), [(7, text) for text in REVIEWS])
    write_table(folder / "mine.csv", ("review", "verdict"), [(text, label) for text, label, _ in rows])
    (folder / "review.txt").write_text(REVIEWS[0])
    (folder / "reviews.txt").write_text("\n".join(REVIEWS))
    (folder / "reviews.gz").write_bytes(gzip.compress("\n".join(REVIEWS).encode()))
    (folder / "reviews.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in REVIEWS))
    nested = [{"text": {"body": text}, "label": label} for text, label, _ in rows]
    (folder / "part-1.jsonl").write_text("".join(json.dumps(record) + "\n" for record in nested))
    for path in ("reviews/a.jsonl", "archive/2024/a.jsonl.gz"):
        objects = "".join(json.dumps({"text": text, "body": text}) + "\n" for text in REVIEWS).encode()
        (folder / path).parent.mkdir(parents=True)
        (folder / path).write_bytes(gzip.compress(objects) if path.endswith(".gz") else objects)
    for number, (text, label, _) in enumerate(rows):
        for split in ("train", "test"):
            path = folder / "aclImdb" / split / label / f"{number}_1.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)


def write_table(path: Path, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    lines = [",".join(f'"{cell}"' for cell in row) for row in (columns, *rows)]
    path.write_text("\n".join(lines) + "\n")


def checkpoints_in(words: Sequence[str]) -> Iterator[Path]:
    """The checkpoints that a line reads, itself or as that of a run directory."""
    for before, word in pairwise(words):
        if before not in {"--output", "-o"} and (word.endswith(".keras") or word.startswith("runs/")):
            yield Path(word) if word.endswith(".keras") else Path(word, "checkpoint.keras")


def write_small_checkpoint(path: Path) -> None:
    """A checkpoint of random weights, with the heads of the recipe that its run is named for; other runs are of one's own data."""
    run = path.parent
    recipe = ROOT / "configs" / f"{run.name}.yaml"
    num_heads = load_config(recipe).model.num_heads if recipe.exists() else 2
    data: dict[str, object] = {"source": "files", "train": "reviews.csv", "test": "reviews.csv"}
    classes = ("neg", "pos")
    if run.name == "sample":
        data, classes = {"source": "sample", "num_reviews": 200}, ("negative", "positive")
    elif run.parent.name == "runs" and not recipe.exists():
        data["label_column"], classes = "stars", ("1", "5")
    checkpoint = small_checkpoint(classes, num_heads=num_heads, key_dim=5)
    config = config_from_dict({**config_to_dict(checkpoint.config), "data": data}, "small")
    run.mkdir(parents=True, exist_ok=True)
    write_checkpoint(path, dataclasses.replace(checkpoint, config=config))
    if run.parent.name == "runs":
        (run / "config.yaml").write_text(config_to_yaml(config))


def load_small_config(path: Path, overrides: Sequence[str] = ()) -> Config:
    """The config that a line asks for, with a model and data so small that training takes seconds."""
    whole = config_to_dict(load_config(path, overrides))
    if whole["data"]["source"] == "tfds":
        whole["data"] = {"source": "files", "train": "reviews.csv"}
    small = {"num_reviews": 200, "vocabulary_size": 300, "embed_dim": 16, "feed_forward_dim": 16, "key_dim": 16, "epochs": 1}
    small |= dict.fromkeys(("ngram_buckets", "score_buckets", "subword_buckets"), 64)
    for section in ("data", "text", "model", "training"):
        whole[section] |= {name: size for name, size in small.items() if whole[section].get(name)}
    return config_from_dict(whole, "small")
