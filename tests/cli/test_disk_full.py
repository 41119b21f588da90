"""A disk that fills up during `mha train`: one line, exit code 1, earlier files stay, and with room again the run goes on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.cli.command import COMMAND, RESUME, TIMEOUT, environment, held_training, run_mha, tree

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.process
def test_files_larger_than_allowed(tmp_path: Path) -> None:
    process = held_training(tmp_path)
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGCONT)
    process.communicate(timeout=TIMEOUT)
    assert process.returncode == 130
    kept = {name: (tmp_path / "run" / name).read_bytes() for name in ("checkpoint.keras", "last/state.npz", "config.yaml")}
    blocks = min(len(kept["checkpoint.keras"]), len(kept["last/state.npz"])) // 512 - 1  # the texts, as numbers on disk, take less
    limited = ["sh", "-c", f'ulimit -f {blocks}; "$@"', "sh", *COMMAND, *RESUME]
    environ = environment({"PYTHONDONTWRITEBYTECODE": "1"})
    done = subprocess.run(limited, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert "Traceback" not in done.stderr
    last = done.stderr.splitlines()[-1]
    assert last.startswith("error: run/")
    assert last.endswith(": cannot be written: File too large; the earlier file, if any, is unchanged")
    assert {name: (tmp_path / "run" / name).read_bytes() for name in kept} == kept
    assert not [name for name in tree(tmp_path) if name.endswith((".tmp", ".lock"))]
    assert os.listdir(tmp_path) == ["run"]

    result = run_mha(*RESUME, cwd=tmp_path)
    assert result.code == 0, result
    assert "epoch 1:" not in result.stderr  # what was learnt before was not learnt again
    assert json.loads((tmp_path / "run" / "metrics.json").read_text())["epochs_run"] == 20
