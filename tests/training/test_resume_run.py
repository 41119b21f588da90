"""The real trainer and the real command: interrupted and gone on with, a run ends as if it had not been, bit for bit."""

import dataclasses
import signal
from pathlib import Path

import numpy as np
import pytest

from mha_cli.config.loading import config_to_yaml, load_config
from mha_cli.config.settings import Config
from mha_cli.preparation.prepare import PreparedData, prepare
from mha_cli.system.callbacks import SILENT, StepProgress
from tests.cli.command import RESUME, TIMEOUT, TINY, run_mha, start_training, wait_for_line
from tests.training.interruptions import assert_same_run, interrupt, train

STEPS, NUM_UNLABELLED = 7, 97  # steps of an epoch: 216 texts in batches of 32

WORDS = ("film", "plot", "cast", "scene", "it")


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Config:
    """Everything that draws or is fitted."""
    folder = tmp_path_factory.mktemp("texts")
    rng = np.random.default_rng(0)

    def text(good: bool) -> str:
        return " ".join([*rng.choice(WORDS, rng.integers(1, 9)).tolist(), "fine" if good != (rng.random() < 0.25) else "dull"])

    rows = [f"{text(bool(number % 2))},{['neg', 'pos'][number % 2]}" for number in range(240)]
    (folder / "train.csv").write_text("\n".join(["text,label", *rows]) + "\n")
    (folder / "more.txt").write_text("\n".join(text(bool(number % 2)) for number in range(NUM_UNLABELLED)) + "\n")
    settings = {
        "data.source": "files",
        "data.train": folder / "train.csv",
        "data.unlabelled": folder / "more.txt",
        "data.validation_share": 0.1,
        "model.embed_dim": 8,
        "model.num_heads": 2,
        "model.feed_forward_dim": 8,
        "model.dropout": 0.2,
        "model.max_ngram": 2,
        "model.ngram_buckets": 64,
        "model.conv_kernel_size": 3,
        "linear.max_ngram": 2,
        "linear.buckets": 256,
        "linear.context_windows": "[3]",
        "text.subword_characters": 9,
        "model.subword_buckets": 32,
        "training.epochs": 2,
        "training.learning_rate": 0.01,
        "training.word_dropout": 0.2,
        "training.schedule": "warmup-cosine",
    }
    return load_config(TINY, [f"{key}={value}" for key, value in settings.items()])


@pytest.fixture(scope="module")
def data(config: Config) -> PreparedData:
    return prepare(config)


@pytest.fixture(scope="module")
def whole(config: Config, data: PreparedData, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("whole") / "run"
    train(config, output, data=data)
    return output


@pytest.mark.process
def test_stopped_in_an_epoch(config: Config, data: PreparedData, whole: Path, tmp_path: Path) -> None:
    interrupt(config, tmp_path / "run", STEPS + 3, data)
    seen: list[StepProgress] = []
    train(config, tmp_path / "run", dataclasses.replace(SILENT, on_step=seen.append), data, resume=True)
    assert (seen[0].epoch, seen[0].step, seen[0].steps) == (2, 4, STEPS)
    assert_same_run(whole, tmp_path / "run")


@pytest.mark.process
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_through_the_command(number: int, code: int, config: Config, tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text(config_to_yaml(config.changed(training={"epochs": 50, "patience": 2})))
    process = start_training(tmp_path, "--config", "x.yaml", "--output", "run")
    wait_for_line(process, "epoch 1:")
    process.send_signal(number)
    out, err = process.communicate(timeout=TIMEOUT)
    assert (process.returncode, out) == (code, "")
    assert err.splitlines()[-1] == f"error: interrupted; run keeps what was learnt; go on with: mha {' '.join(RESUME)}"
    assert err.count("error:") == 1
    assert not list((tmp_path / "run").rglob("*.tmp"))
    run_mha(*RESUME, cwd=tmp_path).well()
    assert (tmp_path / "run" / "metrics.json").is_file()
