"""A disk that fills up during `mha train`: one line, exit code 1, what was there stays, and with room again the run goes on."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
from typing import TYPE_CHECKING

import pytest

from mha_cli.checkpoint.file import read_checkpoint
from tests.cli.command import COMMAND, RESUME, TIMEOUT, environment, held_training, run_mha, tree

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own with room for a run and little more."""
    place = tmp_path / "disk"
    place.mkdir()
    if (
        not shutil.which("mount")
        or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", place], capture_output=True, check=False).returncode
    ):
        pytest.skip("only root may mount a file system")
    try:
        yield place
    finally:
        subprocess.run(["umount", place], check=True)


@pytest.mark.process
def test_a_file_system_that_is_full(small_disk: Path) -> None:
    process = held_training(small_disk)
    with (small_disk / "filler").open("wb", buffering=0) as filler, contextlib.suppress(OSError):
        while True:
            filler.write(bytes(4096))
    process.send_signal(signal.SIGCONT)
    out, err = process.communicate(timeout=TIMEOUT)
    assert (process.returncode, out) == (1, "")
    last = err.splitlines()[-1]
    assert last.startswith("error: run/")
    assert last.endswith(": cannot be written: No space left on device; the earlier file, if any, is unchanged")
    assert "Traceback" not in err
    earlier = read_checkpoint(small_disk / "run" / "checkpoint.keras")
    assert not [name for name in tree(small_disk) if name.endswith((".tmp", ".lock"))]
    (small_disk / "filler").unlink()
    result = run_mha(*RESUME, cwd=small_disk)
    assert result.code == 0, result
    metrics = json.loads((small_disk / "run" / "metrics.json").read_text())
    assert metrics["epochs_run"] == 20
    assert metrics["best"]["validation_accuracy"] >= earlier.metrics["validation_accuracy"]
    assert "epoch 1:" not in result.stderr  # what was learnt before was not learnt again


@pytest.mark.process
def test_files_larger_than_allowed(tmp_path: Path) -> None:
    process = held_training(tmp_path)
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGCONT)
    process.communicate(timeout=TIMEOUT)
    assert process.returncode == 130
    kept = {name: (tmp_path / "run" / name).read_bytes() for name in ("checkpoint.keras", "last/state.npz", "config.yaml")}
    blocks = min(len(kept["checkpoint.keras"]), len(kept["last/state.npz"])) // 512 - 1  # the reviews, as numbers on disk, take less
    limited = ["sh", "-c", f'ulimit -f {blocks}; "$@"', "sh", *COMMAND, *RESUME]
    environ = environment({"PYTHONDONTWRITEBYTECODE": "1"})
    done = subprocess.run(limited, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    last = done.stderr.splitlines()[-1]
    assert last.startswith("error: run/")
    assert last.endswith(": cannot be written: File too large; the earlier file, if any, is unchanged")
    assert {name: (tmp_path / "run" / name).read_bytes() for name in kept} == kept
    assert not [name for name in tree(tmp_path) if name.endswith((".tmp", ".lock"))]
    assert os.listdir(tmp_path) == ["run"]
