"""Two workers, or two devices, train the model that one trains; what ends one of them ends all, and they go on together."""

import dataclasses
import json
import signal
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mha_cli.checkpoint.file import read_checkpoint
from mha_cli.config.loading import config_from_dict, config_to_yaml
from mha_cli.config.settings import Config
from mha_cli.preparation.prepare import PreparedData
from mha_cli.runs import CHECKPOINT
from mha_cli.system.cluster import Task
from mha_cli.training.distribution import Distribution, distributed
from tests.cli.command import TIMEOUT, start_module, start_training, wait_for_line
from tests.cli.forks import Forked
from tests.errors import error_of
from tests.training.interruptions import assert_same_run
from tests.training.numpy_trainer import NumpyTrainer
from tests.training.workers import environments

LOST = "ended, or does not answer; see its own message, and start all again, with --resume where the run directory has a state"


SIZES = {"embed_dim": 8, "num_heads": 2, "feed_forward_dim": 8}


def config(epochs: int, model: Mapping[str, Any] = {}, linear: Any = None, **training: Any) -> Config:
    """Batches of an odd number of texts, and as many epochs as a signal takes."""
    settings = {
        "data": {"source": "sample", "num_texts": 300},
        "text": {"vocabulary_size": 300, "sequence_length": 24},
        "model": {**SIZES, "dropout": 0.0, **model},
        "linear": linear,
        "training": {"distribution": "auto", "epochs": epochs, "batch_size": 13, "learning_rate": 0.003, **training},
    }
    return config_from_dict(settings, "test")


def everything(epochs: int) -> Config:
    """All that workers have to agree on."""
    model, linear = {"max_ngram": 2, "ngram_buckets": 64}, {"max_ngram": 2, "buckets": 256, "context_windows": [3]}
    learning = {"schedule": "cosine", "word_dropout": 0.2, "class_weights": "balanced", "teacher": "linear"}
    return config(epochs, model, linear, **learning)


def start_all(stack: ExitStack, start: Callable[..., Forked], *args: str | Path) -> list[Forked]:
    """Two workers, of which the first is the chief; they are killed if the test leaves them behind."""
    processes = [start(*args, env=changes) for changes in environments(2)]
    for process in processes:
        stack.callback(process.kill)
    return processes


def ends(processes: list[Forked]) -> list[tuple[int, str, str]]:
    """Exit status, stdout and the last line on stderr, if there is any, of every process."""
    found = []
    for process in processes:
        out, err = process.communicate(timeout=TIMEOUT)
        assert "Traceback" not in err, err
        found.append((process.wait(), out, "".join(err.splitlines()[-1:])))
    return found


@pytest.mark.process
def test_two_workers_train_the_model_that_one_trains_and_go_on_together(tmp_path: Path) -> None:
    workers, alone = tmp_path / "workers", tmp_path / "alone"
    for folder in (workers, alone):
        folder.mkdir()
        (folder / "config.yaml").write_text(config_to_yaml(everything(epochs=4)))
    with ExitStack() as stack:
        processes = [*start_all(stack, start_module, "tests.training.workers", workers), start_module("tests.training.workers", alone)]
        stack.callback(processes[-1].kill)
        assert ends(processes) == [(0, "", "")] * 3
        one, other, single = (
            json.loads((workers / name).read_text()) for name in ("found-0.json", "found-1.json", "../alone/found-0.json")
        )
        assert len(one["losses"]) == len(single["losses"]) > 80  # later, rounding has grown
        np.testing.assert_allclose(one["losses"], single["losses"], atol=1e-4, rtol=0)
        assert one == other  # loss after loss and, bit for bit, the weights
        assert not list((workers / "run-1").rglob("*.*"))[1:]  # the config that `run_directory` has put there, and nothing else
        ours, expected = (read_checkpoint(folder / "run-0" / CHECKPOINT) for folder in (workers, alone))
        assert {path for path in expected.weights if path.startswith("linear/")} == {"linear/table", "linear/context_weights"}
        for path, weight in expected.weights.items():
            np.testing.assert_allclose(ours.weights[path], weight, atol=1e-3, err_msg=path)

        train = partial(start_training, workers, "--config", "config.yaml", "--output", "run")
        processes = start_all(stack, train)
        wait_for_line(processes[0], "epoch 1:")
        processes[1].send_signal(signal.SIGTERM)
        again = "go on with: mha train --config run/config.yaml --output run --resume"
        lines = [f"error: interrupted; run keeps what was learnt; {again}", "error: interrupted; the chief says how to go on"]
        assert ends(processes) == [(130, "", lines[0]), (143, "", lines[1])]
        assert not (workers / "run" / "metrics.json").exists()
        (chief, _, _), worker = ends(start_all(stack, train, "--resume"))
        assert (chief, worker) == (0, (0, "", ""))
    assert_same_run(workers / "run-0", workers / "run")


@pytest.mark.process
@pytest.mark.parametrize("lost", [0, 1])
def test_a_worker_that_dies_ends_the_other_with_a_line(lost: int, tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text(config_to_yaml(config(epochs=10_000, optimizer="rmsprop")))
    with ExitStack() as stack:
        processes = start_all(stack, start_training, tmp_path, "--config", "x.yaml", "--output", "run")
        wait_for_line(processes[0], "epoch 1:")
        processes[lost].kill()
        left = processes[1 - lost]
        _, err = left.communicate(timeout=60)  # what is promised, not a measurement
        assert (left.returncode, err.splitlines()[-1].split(": ", 2)[2]) == (1, LOST)
        assert "Traceback" not in err


@pytest.mark.process
def test_two_devices_of_one_process_add_gradients_up_once() -> None:
    process = start_module("tests.training.mirrored", "fused", "blockwise")
    _, err = process.communicate(timeout=TIMEOUT)
    assert process.wait() == 0, err


# In this process


def test_one_device_is_no_pair_of_them() -> None:
    assert error_of(distributed("mirrored").__enter__) == "training.distribution=mirrored: the only device is /device:CPU:0; take none"


def test_workers_read_the_parts_of_what_one_reads(tiny_config: Config, tiny_data: PreparedData) -> None:
    """The same words are dropped, too; a batch with fewer texts than workers leaves some without one."""
    settings = tiny_config.changed(training={"word_dropout": 0.5, "batch_size": 31})
    data = dataclasses.replace(tiny_data, train=tiny_data.train.subset(np.arange(64)))
    whole = NumpyTrainer(settings, data)
    parts = [NumpyTrainer(settings, data, Distribution(task=Task(index, 3))) for index in range(3)]
    batches = whole.batches(1)
    assert sorted(map(len, batches)) == [2, 31, 31]
    for (rows, tokens), *own in zip(whole.steps(1, batches), *(part.steps(1, batches) for part in parts), strict=True):
        for index, (same_rows, part) in enumerate(own):
            np.testing.assert_array_equal(same_rows, rows)
            expected = tokens[index::3]
            np.testing.assert_array_equal(part, expected[:, : part.shape[1]])
            assert not expected[:, part.shape[1] :].any()
