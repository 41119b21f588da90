"""The recipe for any texts, through the commands: its decisions, and a model that reads words by their characters."""

from __future__ import annotations

import json
import random
import shutil
from typing import TYPE_CHECKING

import numpy as np
import pytest

from mha_cli.checkpoint.file import read_checkpoint
from mha_cli.config.loading import load_config
from tests.cli.command import refusal, run_here

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.command import Mha, Result

ROOTS = {"bad": ("langweilig", "furchtbar", "schrecklich"), "good": ("glanzvoll", "herrlich", "wunderbar"), "lost": ("verschollen",)}
SMALL = ("model.embed_dim=8", "model.feed_forward_dim=8", "model.num_heads=2", "model.attention_implementation=fused", "training.epochs=2")
TRAIN = ("train", "--config", "text", *(part for setting in ("data.train=texts.csv", *SMALL) for part in ("--set", setting)))


def rows(num_texts: int) -> str:
    """Verdicts in German, where words have endings; and of one class a single text."""
    rng = random.Random(0)
    lines = ["text,label", "Der Film ist verschollen,lost"]
    for number in range(num_texts - 1):
        label = ("bad", "good")[number % 2]
        verdict = rng.choice(ROOTS[label]) + rng.choice(("", "e", "er", "es", "en"))
        lines.append(f"{rng.choice(('Der Film', 'Die Musik', 'Das Ende'))} {rng.choice(('war', 'ist', 'bleibt'))} {verdict},{label}")
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    """``mha train --config text`` on forty texts, and the folder that it ran in. Not to be written to."""
    cwd = tmp_path_factory.mktemp("texts")
    (cwd / "texts.csv").write_text(rows(40))
    with pytest.MonkeyPatch.context() as patch:
        return cwd, run_here(*TRAIN, "--output", "run", cwd=cwd, monkeypatch=patch)


@pytest.fixture
def mha(trained: tuple[Path, Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Mha:
    """``mha ARGS`` beside the texts and the run."""
    cwd = tmp_path / "cwd"
    shutil.copytree(trained[0], cwd)
    return lambda *args, **options: run_here(*args, cwd=cwd, monkeypatch=monkeypatch, **options)


def test_decisions_are_reported_and_kept(trained: tuple[Path, Result]) -> None:
    cwd, result = trained
    assert result.code == 0, result.stderr
    told = " ".join(result.stderr.split())
    assert "texts.csv: 1 class has a single text, which is used for training only: lost" in told
    assert "40 texts in 3 classes; half are up to 4 tokens long, 98 % up to 4; " in told
    config = load_config(cwd / "run" / "config.yaml")
    assert not config.auto
    assert config == read_checkpoint(cwd / "run" / "checkpoint.keras").config
    assert (config.data.validation_share, config.text.subword_characters, config.training.batch_size) == (0.2, 16, 8)
    for setting in (f"text: vocabulary_size={config.text.vocabulary_size}", "validation_share=0.2", "context_windows=[]", "batch_size=8"):
        assert setting in told
    assert config.training.epochs == 2
    assert "epochs=" not in told  # it was named
    history = [json.loads(line) for line in (cwd / "run" / "history.jsonl").read_text().splitlines()]
    assert [record["best"] for record in history] == [False, True]  # monitor: last


def test_an_unknown_word_is_read_by_its_characters(mha: Mha) -> None:
    """Four words that the model has never seen: one with an ending of its own, one misspelt, and two of other letters."""
    texts = [f"Der Film war {word}" for word in ("herrlichstes", "herlich", "langweiligste", "langweillig")]
    answers = [json.loads(line) for line in mha("predict", "--json", "-c", "run", stdin="\n".join(texts)).lines]
    assert [answer["label"] for answer in answers] == ["good", "good", "bad", "bad"]
    assert all(answer["unknown"] for answer in answers)
    assert len({tuple(answer["probabilities"].values()) for answer in answers}) == 4
    for looked_at in (("explain", "--gradients"), ("attention",)):
        found = json.loads(mha(*looked_at, "-c", "run", texts[0], "--json").stdout)
        assert (found["label"], found["unknown"]) == ("good", [False, False, False, True])
        assert found["probability"] == pytest.approx(answers[0]["probability"], abs=1e-5)
        if looked_at[0] == "explain":
            assert found["occlusion"][3] == max(found["occlusion"]) > 0.01  # what is left out is the word with its characters
            assert np.isfinite(found["gradients"]).all()


def test_without_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = refusal(run_here("train", "--config", "text", cwd=tmp_path, monkeypatch=monkeypatch))
    hint = "give it with --set data.train=FILE, or let `mha init FILE` write a config"
    assert said.endswith(f"configs/text.yaml:4: data.train is missing; {hint}")
    assert not list(tmp_path.iterdir())
