"""A model that is trained once with the real command and that many tests look at."""

import dataclasses
import fcntl
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.command import SCORED_SETTINGS, TINY, TINY_SETTINGS, Mha, Result, Run, run_here, set_all
from tests.training.numpy_trainer import in_numpy


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """``mha train`` on the built-in sample, with positions, in NumPy. Not to be written to."""
    with pytest.MonkeyPatch.context() as patch:
        in_numpy(patch.setattr)
        train = ("train", "--config", TINY, *set_all(*TINY_SETTINGS), "--json")
        return once(tmp_path_factory, "trained", lambda cwd: run_here(*train, cwd=cwd))


@pytest.fixture(scope="session")
def scored(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """``mha train`` with a linear model and bfloat16. Not to be written to."""
    return once(tmp_path_factory, "scored", lambda cwd: run_here("train", "--config", TINY, *set_all(*SCORED_SETTINGS), "--json", cwd=cwd))


@pytest.fixture
def predict(small: Path, mha: Mha) -> Mha:
    """``mha predict -c SMALL ARGS``, in this process; arguments may name another checkpoint."""
    return lambda *args, **more: mha("predict", *([] if "-c" in args else ["-c", small]), *args, **more)


def once(tmp_path_factory: pytest.TempPathFactory, name: str, run: Callable[[Path], Result]) -> Run:
    """Run a command in a folder that all workers of pytest-xdist share; the first comer runs it, the others wait for its result."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / name
    folder.mkdir(exist_ok=True)
    answer, cwd = folder / "result.json", folder / "cwd"
    with (folder / "lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not answer.exists():
            cwd.mkdir()
            answer.write_text(json.dumps(dataclasses.asdict(run(cwd))))
    return Run(cwd, Result(**json.loads(answer.read_text())))
