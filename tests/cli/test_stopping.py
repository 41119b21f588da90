"""Signals during `mha train`, through the real command."""

import contextlib
import os
import signal
import threading
from pathlib import Path

import pytest

from mha_cli.cli.stopping import StopRequest, stop_request
from mha_cli.errors import MhaError
from tests.cli.command import TIMEOUT, TINY, Mha

pytestmark = pytest.mark.usefixtures("sigint_obeyed")


def test_the_same_command_starts_what_had_learnt_nothing(mha: Mha, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
        monkeypatch.setattr("mha_cli.training.run.Trainer", lambda *_, number=number, **__: os.kill(os.getpid(), number))
        result = mha("train", "--config", TINY, "--set", "data.num_texts=200", "--output", "run")
        assert (result.code, result.stdout) == (code, "")
        assert result.stderr.splitlines()[-1] == "error: interrupted before there was anything to keep; start again"
        assert "stopping" in result.stderr.splitlines()
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("patient", "told"), [(False, "stopping"), (True, "stopping after this step; Ctrl-C again ends at once")])
def test_a_signal_is_answered_before_the_step_is_done(patient: bool, told: str) -> None:
    answered = threading.Event()
    said: list[str] = []

    def tell(text: str) -> None:
        said.append(text)
        answered.set()

    earlier = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        with contextlib.suppress(MhaError), stop_request(tell, str) as request:
            request.patient = patient
            threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # other threads get it, and this one waits as for a long step
            assert answered.wait(TIMEOUT)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, earlier)
    assert said == [told]


def test_the_first_signal_waits_for_the_step_and_the_second_does_not() -> None:
    request = StopRequest()
    with pytest.raises(KeyboardInterrupt):  # before the first step there is nothing to keep
        request.receive(signal.SIGINT, None)
    request = StopRequest()
    request.patient = True
    request.receive(signal.SIGTERM, None)
    assert (request.signal, request.exit_code) == (signal.SIGTERM, 143)
    with pytest.raises(KeyboardInterrupt):
        request.receive(signal.SIGINT, None)
    assert request.exit_code == 130
