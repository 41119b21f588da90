"""Two workers, or two devices, train the model that one trains; what ends one of them ends all, and they go on together."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from mha_cli.checkpoint.file import read_checkpoint
from mha_cli.checkpoint.runs import CHECKPOINT
from mha_cli.config.loading import config_from_dict, config_to_yaml
from mha_cli.training.distribution import _packed, _unpacked, distributed
from mha_cli.training.epoch import EpochInputs
from mha_cli.training.run import HISTORY
from tests.cli.command import ROOT, TIMEOUT, environment, start_training, wait_for_line
from tests.errors import error_of
from tests.training.interruptions import assert_same_run
from tests.training.workers import environments

if TYPE_CHECKING:
    from mha_cli.config.settings import Config
    from mha_cli.data.preparation import PreparedData
    from tests.cli.forks import Forked

LOST = "ended, or does not answer; see its own message, and start all again, with --resume where the run directory has a state"


def config(dropout: float = 0.0, epochs: int = 3, scores: bool = True, distil: bool = False) -> Config:
    """Everything that workers have to agree on, with a linear model or, sooner there, without; batches of an odd number of texts."""
    settings: dict[str, dict[str, Any]] = {
        "data": {"source": "sample", "num_texts": 300},
        "text": {"vocabulary_size": 300, "sequence_length": 24},
        "model": {"embed_dim": 8, "num_heads": 2, "feed_forward_dim": 8, "dropout": dropout, "max_ngram": 2, "ngram_buckets": 64},
        "training": {"distribution": "auto", "epochs": epochs, "batch_size": 13, "learning_rate": 0.01, "schedule": "cosine"},
    }
    settings["model"] |= {"attention_implementation": "fused"}
    if scores:
        settings["linear"] = {"max_ngram": 2, "buckets": 256, "context_windows": [3]}
    settings["training"] |= {
        "clip_norm": 0.1,
        "word_dropout": 0.2,
        "class_weights": "balanced",
        "distill_linear": distil,
        "keep_linear": not distil,
    }
    return config_from_dict(settings, "test")


def start(stack: ExitStack, arguments: list[str], cwd: Path, changes: dict[str, str]) -> subprocess.Popen[str]:
    """A process that is killed if the test leaves it behind."""
    env = environment({"OMP_NUM_THREADS": "1", **changes})
    process = subprocess.Popen(arguments, cwd=cwd, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    stack.callback(process.communicate)
    stack.callback(process.kill)
    return process


def start_all(stack: ExitStack, cwd: Path, *more: str) -> list[Forked]:
    """``mha train`` of ``x.yaml`` into ``run`` on two workers, of which the first is the chief."""
    processes = [start_training(cwd, "--config", "x.yaml", "--output", "run", *more, env=changes) for changes in environments(2)]
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
@pytest.mark.parametrize("distil", [False, True])
def test_two_workers_train_the_model_that_one_trains(tmp_path: Path, distil: bool) -> None:
    workers, alone = tmp_path / "workers", tmp_path / "alone"
    for folder in (workers, alone):
        folder.mkdir()
        (folder / "config.yaml").write_text(config_to_yaml(config(distil=distil)))
    with ExitStack() as stack:
        program = [sys.executable, "-m", "tests.training.workers"]
        processes = [start(stack, [*program, str(workers)], ROOT, changes) for changes in environments(2)]
        processes.append(start(stack, [*program, str(alone)], ROOT, {}))
        for process in processes:
            _, err = process.communicate(timeout=TIMEOUT)
            assert process.returncode == 0, err
    one, other, single = (
        json.loads(path.read_text()) for path in (workers / "found-0.json", workers / "found-1.json", alone / "found-0.json")
    )
    assert len(one["losses"]) == len(single["losses"]) > 50
    np.testing.assert_allclose(one["losses"], single["losses"], atol=1e-4, rtol=0)
    assert one == other  # loss after loss and, bit for bit, the weights
    assert not list((workers / "run-1").rglob("*.*"))[1:]  # the config that `run_directory` has put there, and nothing else
    ours, expected = (read_checkpoint(folder / "run-0" / CHECKPOINT) for folder in (workers, alone))
    assert {path for path in expected.weights if path.startswith("linear/")} == (
        set() if distil else {"linear/table", "linear/context_weights"}
    )
    for path, weight in expected.weights.items():
        np.testing.assert_allclose(ours.weights[path], weight, atol=1e-3, err_msg=path)


@pytest.mark.process
@pytest.mark.parametrize("lost", [0, 1])
def test_a_worker_that_dies_ends_the_other_with_a_line(lost: int, tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text(config_to_yaml(config(epochs=10_000, scores=False)))
    with ExitStack() as stack:
        processes = start_all(stack, tmp_path)
        wait_for_line(processes[0], "epoch 1:")
        processes[lost].kill()
        left = processes[1 - lost]
        _, err = left.communicate(timeout=60)  # what is promised, not a measurement
        assert (left.returncode, err.splitlines()[-1].split(": ", 2)[2]) == (1, LOST)
        assert "Traceback" not in err


@pytest.mark.process
def test_a_polite_kill_of_one_stops_all_and_they_go_on_together(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text(config_to_yaml(config(dropout=0.3, epochs=12, scores=False)))
    with ExitStack() as stack:
        processes = start_all(stack, tmp_path)
        wait_for_line(processes[0], "epoch 1:")
        processes[1].send_signal(signal.SIGTERM)
        again = "go on with: mha train --config run/config.yaml --output run --resume"
        lines = [f"error: interrupted; run keeps what was learnt; {again}", "error: interrupted; the chief says how to go on"]
        assert ends(processes) == [(130, "", lines[0]), (143, "", lines[1])]
        assert not (tmp_path / "run" / "metrics.json").exists()
        (chief, _, _), worker = ends(start_all(stack, tmp_path, "--resume"))
        assert (chief, worker) == (0, (0, "", ""))
        os.rename(tmp_path / "run", tmp_path / "stopped")
        assert [code for code, _, _ in ends(start_all(stack, tmp_path))] == [0, 0]
    assert (tmp_path / "run" / HISTORY).read_text().count("\n") == 12
    assert_same_run(tmp_path / "run", tmp_path / "stopped")


@pytest.mark.process
def test_two_devices_of_one_process_add_gradients_up_once() -> None:
    command = [sys.executable, "-m", "tests.training.mirrored", "fused", "blockwise"]
    done = subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=TIMEOUT, check=False)
    assert done.returncode == 0, done.stderr


# In this process


def test_one_device_is_no_pair_of_them() -> None:
    assert error_of(distributed("mirrored").__enter__) == "training.distribution=mirrored: the only device is /device:CPU:0; take none"


def test_alone_nothing_is_exchanged() -> None:
    with distributed("auto") as alone:
        assert (alone.num_replicas, alone.task.is_chief) == (1, True)
        array = np.arange(3)
        assert alone.sum(array) is array
        assert alone.from_chief(lambda: {"x": array})["x"] is array
        assert alone.sum_of_parts(lambda *parts: [*parts], array) == [array]


def test_arrays_travel_whole() -> None:
    arrays = {"a": np.array("histöry"), "b": np.zeros((0, 3), np.float32), "c": np.arange(7, dtype=np.uint8), "d": np.array(True)}
    found = _unpacked(_packed(arrays))
    assert [(name, array.dtype) for name, array in found.items()] == [(name, array.dtype) for name, array in arrays.items()]
    for name, expected in arrays.items():
        np.testing.assert_array_equal(found[name], expected)
    assert _unpacked(_packed({})) == {}


def test_workers_read_the_parts_of_what_one_reads(tiny_config: Config, tiny_data: PreparedData) -> None:
    """The same words are dropped, too; a batch with fewer texts than workers leaves some without one."""
    training = tiny_config.training.model_copy(update={"word_dropout": 0.5, "batch_size": 31})
    settings = tiny_config.model_copy(update={"training": training})
    data = dataclasses.replace(tiny_data, train=tiny_data.train.subset(np.arange(64)), targets=tiny_data.targets[:64])
    whole = EpochInputs(settings, data)
    parts = [EpochInputs(settings, data, slice(index, None, 3)) for index in range(3)]
    batches = whole.batches(1)
    assert sorted(map(len, batches)) == [2, 31, 31]
    for (rows, tokens), *own in zip(whole.steps(1, batches), *(part.steps(1, batches) for part in parts), strict=True):
        for index, (same_rows, part) in enumerate(own):
            np.testing.assert_array_equal(same_rows, rows)
            expected = tokens[index::3]
            np.testing.assert_array_equal(part, expected[:, : part.shape[1]])
            assert not expected[:, part.shape[1] :].any()
