"""`mha batch` on Ray: the same parts as without it, whatever is killed in the middle."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.batch.archive import expected, numbered, refuse_anything_else, rows_of, write_archive
from tests.checkpoints import small_checkpoint_file
from tests.cli.command import COMMAND, TIMEOUT, environment, tree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytest.importorskip("ray")
pytestmark = [pytest.mark.extras, pytest.mark.process]

LOCAL = ("--address", "local", "--workers", "2")
"""Ray's own name for a cluster that it starts on this machine, for this batch."""

WORKER = "ray::_classify"
NUM_FILES, ROWS = 40, 100
TEXT = "a superb and moving film with a dull and tedious end that nobody will remember"


def descendants(pid: int) -> dict[int, str]:
    """The command lines of all processes that have come of one."""
    found = dict[int, str]()
    with suppress(FileNotFoundError, ProcessLookupError):
        for folder in Path(f"/proc/{pid}/task").iterdir():
            for child in map(int, (folder / "children").read_text().split()):
                found |= descendants(child)
                with suppress(FileNotFoundError, ProcessLookupError):
                    found[child] = Path(f"/proc/{child}/cmdline").read_text().replace("\0", " ")
    return found


def kill(pid: int) -> None:
    """Kill a process with all that have come of it."""
    for one in (*descendants(pid), pid):
        with suppress(ProcessLookupError):
            os.kill(one, signal.SIGKILL)


class Process(subprocess.Popen[str]):
    """``mha batch in -o out ARGS`` in a session of its own."""

    def __init__(self, cwd: Path, *args: str) -> None:
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        super().__init__([*COMMAND, "batch", "in", "-o", "out", *args], cwd=cwd, env=environment(), start_new_session=True, **streams)

    def ended(self) -> tuple[int, str, str]:
        """Exit status, stdout and stderr."""
        stdout, stderr = self.communicate(timeout=TIMEOUT)
        return self.returncode, stdout, stderr

    def when(self, parts: int, output: Path) -> None:
        """Wait until so many parts are done."""
        while len(list(output.glob("_*"))) < parts:
            assert self.poll() is None, self.ended()
            time.sleep(0.01)

    def kill_one(self, mark: str) -> None:
        """Kill the first of its processes that has this in its command line."""
        victim = next(pid for pid, name in descendants(self.pid).items() if mark in name)
        assert "tensorflow" not in Path(f"/proc/{victim}/maps").read_text()
        os.kill(victim, signal.SIGKILL)


@pytest.fixture
def archive(tmp_path: Path) -> dict[str, int]:
    """An archive that takes the model that comes with mha a few seconds; the rows of each file."""
    (tmp_path / "in").mkdir()
    names = [str(tmp_path / "in" / f"{number:02}.txt") for number in range(NUM_FILES)]
    for number, name in enumerate(names):
        Path(name).write_text("".join(" ".join([str(number), str(row), *[TEXT] * 60]) + "\n" for row in range(ROWS)))
    return dict.fromkeys(names, ROWS)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Process]]:
    """Start a batch; it is killed with the test."""
    started: list[Process] = []

    def run(*args: str) -> Process:
        started.append(Process(tmp_path, *args))
        return started[-1]

    yield run
    for process in started:
        kill(process.pid)
        process.communicate()


def refuse_other_rows(folder: Path, archive: dict[str, int], batch: Process) -> dict[str, Any]:
    """The batch ends well with all rows of the archive, and nothing else; its summary."""
    code, stdout, stderr = batch.ended()
    assert code == 0, stderr
    summary: dict[str, Any] = json.loads(stdout)
    assert (summary["written"] + summary["earlier"], summary["rows"], summary["failed"]) == (NUM_FILES, NUM_FILES * ROWS, {})
    assert numbered(rows_of(folder / "out")) == expected(archive)
    refuse_anything_else(folder / "out")
    return summary


def told(stderr: str) -> list[str]:
    """The lines on stderr, but for those that come now and then."""
    return [line for line in stderr.splitlines() if not line.endswith(" texts/s")]


def test_the_parts_are_those_of_this_machine_alone(tmp_path: Path, start: Callable[..., Process]) -> None:
    write_archive(tmp_path / "in")
    (tmp_path / "in" / "broken.jsonl.gz").write_bytes(b"\x1f\x8b rubbish")
    (tmp_path / "in" / "rows.jsonl").write_text('{"text": "the film"}\nrubbish\n')
    (tmp_path / "in" / "odd.txt").write_bytes(b"__label__x caf\xe9\n")
    model = str(small_checkpoint_file(tmp_path / "model.keras"))
    code, stdout, stderr = start("-c", model, "--json").ended()
    one = json.loads(stdout)
    (tmp_path / "out").rename(tmp_path / "one")
    on_ray = start("-c", model, *LOCAL, "--json").ended()
    assert on_ray[0] == code == 1
    assert [len(warnings) for warnings in one["warnings"].values()] == [2]
    lines = [f"failed: {one['failed'][str(tmp_path / 'in' / 'broken.jsonl.gz')]}", *one["warnings"][str(tmp_path / "in" / "odd.txt")]]
    assert told(on_ray[2]) == told(stderr) == lines
    assert json.loads(on_ray[1]) | {"seconds": 0} == one | {"seconds": 0}
    assert tree(tmp_path / "out") == tree(tmp_path / "one")


def test_a_worker_that_is_killed_is_replaced(tmp_path: Path, archive: dict[str, int], start: Callable[..., Process]) -> None:
    batch = start(*LOCAL, "--json")
    for done in (2, 10, 20):
        batch.when(done, tmp_path / "out")
        batch.kill_one(WORKER)
    refuse_other_rows(tmp_path, archive, batch)


def test_a_cluster_that_ends_ends_the_batch(tmp_path: Path, archive: dict[str, int], start: Callable[..., Process]) -> None:
    batch = start(*LOCAL)
    batch.when(4, tmp_path / "out")
    started = descendants(batch.pid)
    batch.kill_one("raylet/raylet ")
    code, _, stderr = batch.ended()
    assert code == 1
    assert stderr.endswith("\nerror: the Ray cluster has ended; run the same again: what is done stays\n")
    while any(Path(f"/proc/{pid}").exists() for pid in started):  # what it has started ends with it
        time.sleep(0.1)
    done = len({row["file"] for row in rows_of(tmp_path / "out")})
    assert refuse_other_rows(tmp_path, archive, start("--json"))["earlier"] == done  # without Ray


class Machine(subprocess.Popen[str]):
    """A machine of one core in a Ray cluster, as far as Ray knows."""

    def __init__(self, log: Path, token: str, *args: str) -> None:
        variables = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token, "RAY_USAGE_STATS_ENABLED": "0"}
        command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--num-cpus", "1", "--object-store-memory", "200000000", "--block"]
        with log.open("w") as file:
            super().__init__([*command, *args], env=environment(variables), stdout=file, stderr=file, text=True, start_new_session=True)
        while "Process exit logs" not in log.read_text():  # the last line of the start
            assert self.poll() is None, log.read_text()
            time.sleep(0.1)

    def die(self) -> None:
        """End it with all its processes at once."""
        kill(self.pid)
        self.wait()


def free_port() -> int:
    """A port below those that Ray gives its workers."""
    for port in range(6400, 9900):
        with socket.socket() as found, suppress(OSError):
            found.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no port is free")


def test_a_batch_outlives_a_machine_of_its_cluster(
    tmp_path: Path, archive: dict[str, int], start: Callable[..., Process], monkeypatch: pytest.MonkeyPatch
) -> None:
    token, port = os.urandom(32).hex(), free_port()
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("RAY_AUTH_TOKEN", token)
    with ExitStack() as machines:
        for name, args in {"head": ("--head", "--port", str(port)), "other": ("--address", f"127.0.0.1:{port}")}.items():
            machine = Machine(tmp_path / name, token, *args)
            machines.callback(machine.die)
        batch = start("--address", f"127.0.0.1:{port}", "--json")
        batch.when(6, tmp_path / "out")
        machine.die()
        refuse_other_rows(tmp_path, archive, batch)


def test_an_address_where_nobody_listens(tmp_path: Path, archive: dict[str, int], start: Callable[..., Process]) -> None:
    code, stdout, stderr = start("--address", "127.0.0.1:9").ended()
    assert (code, stdout) == (2, "")
    line = "error: --address 127.0.0.1:9: Connection refused; give the address that `ray start --head` shows"
    assert stderr.splitlines()[1:] == [line]
