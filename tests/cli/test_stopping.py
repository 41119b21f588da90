"""Signals during `mha train`, through the real command."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest

from mha_cli.cli.stopping import StopRequest
from tests.cli.command import COMMAND, TIMEOUT, TINY, environment, obey_signals


def train(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*COMMAND, "train", "--config", str(TINY), "--set", "data.num_reviews=600", "--set", "training.epochs=500", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env=environment(None),
        preexec_fn=obey_signals,
    )


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_run_after_its_step_and_says_how_to_go_on(tmp_path: Path, number: signal.Signals, code: int) -> None:
    process = train(tmp_path)
    assert process.stderr is not None
    while "epoch 1:" not in process.stderr.readline():
        assert process.poll() is None
    process.send_signal(number)
    out, err = process.communicate(timeout=TIMEOUT)
    assert (process.returncode, out) == (code, "")
    again = "mha train --config runs/tiny/config.yaml --output runs/tiny --resume"
    assert err.splitlines()[-1] == f"error: interrupted; runs/tiny keeps what was learnt; go on with: {again}"
    assert (tmp_path / "runs" / "tiny" / "last" / "state.npz").is_file()
    assert not list((tmp_path / "runs").rglob("*.tmp"))


def test_nothing_to_keep_yet() -> None:
    with pytest.raises(KeyboardInterrupt):
        StopRequest().receive(signal.SIGINT, None)


def test_the_first_signal_waits_for_the_step_and_the_second_does_not() -> None:
    request = StopRequest()
    request.patient = True
    request.receive(signal.SIGTERM, None)
    assert (request.signal, request.exit_code) == (signal.SIGTERM, 143)
    with pytest.raises(KeyboardInterrupt):
        request.receive(signal.SIGINT, None)
    assert request.exit_code == 130
