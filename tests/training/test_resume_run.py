"""The real trainer and the real command: interrupted and gone on with, a run ends as if it had not been, bit for bit."""

import dataclasses
import signal
from pathlib import Path

import pytest

from mha_cli.config.loading import config_to_yaml, load_config
from mha_cli.config.settings import Config
from mha_cli.preparation.prepare import PreparedData, prepare
from mha_cli.system.callbacks import SILENT, StepProgress
from tests.cli.command import RESUME, TIMEOUT, TINY, run_mha, start_training, wait_for_line
from tests.training.interruptions import assert_same_run, interrupt, train

STEPS = 7  # of an epoch: 216 texts in batches of 32


@pytest.fixture(scope="module")
def config() -> Config:
    """Everything that draws or is fitted."""
    settings = {
        "data": {"num_texts": 240, "validation_share": 0.1},
        "text": {"subword_characters": 9},
        "model": {"embed_dim": 8, "num_heads": 2, "feed_forward_dim": 8, "dropout": 0.2, "max_ngram": 2, "ngram_buckets": 64}
        | {"conv_kernel_size": 3, "subword_buckets": 32},
        "linear": {"max_ngram": 2, "buckets": 256, "context_windows": [3]},
        "training": {"epochs": 2, "learning_rate": 0.01, "word_dropout": 0.2, "schedule": "warmup-cosine"},
    }
    return load_config(TINY, [f"{section}.{key}={value}" for section, values in settings.items() for key, value in values.items()])


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
