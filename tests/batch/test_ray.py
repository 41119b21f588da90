"""`mha batch` on Ray: the same parts as without it, whatever is killed in the middle."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.batch.archive import expected, numbered, refuse_anything_else, rows_of, write_archive
from tests.checkpoints import small_checkpoint_file
from tests.cli.command import TIMEOUT, environment, fork, tree
from tests.cli.forks import Forked

Start = Callable[..., Forked]

pytest.importorskip("ray")
pytestmark = [pytest.mark.extras, pytest.mark.process]

NUM_FILES, ROWS = 24, 40
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


def kill_one(of: int, mark: str) -> None:
    """Kill the first process that has come of one and has this in its command line."""
    while not (found := [pid for pid, name in descendants(of).items() if mark in name]):
        time.sleep(0.01)
    assert "tensorflow" not in Path(f"/proc/{found[0]}/maps").read_text()
    os.kill(found[0], signal.SIGKILL)


@pytest.fixture
def archive(tmp_path: Path) -> dict[str, int]:
    """An archive that takes the model that comes with mha a few seconds; the rows of each file."""
    (tmp_path / "in").mkdir()
    names = [str(tmp_path / "in" / f"{number:02}.txt") for number in range(NUM_FILES)]
    for number, name in enumerate(names):
        Path(name).write_text("".join(" ".join([str(number), str(row), *[TEXT] * 60]) + "\n" for row in range(ROWS)))
    return dict.fromkeys(names, ROWS)


@pytest.fixture
def start() -> Iterator[Start]:
    """Start ``mha batch in -o out ARGS`` in a folder; it is killed with the test."""
    started: list[Forked] = []

    def run(cwd: Path, *args: str) -> Forked:
        started.append(fork(["batch", "in", "-o", "out", *args], cwd, text=True))
        return started[-1]

    yield run
    for process in started:
        kill(process.pid)
        process.communicate()


def wait_for(parts: int, batch: Forked, output: Path) -> None:
    """Wait until so many parts are done."""
    while len(list(output.glob("_*"))) < parts:
        assert batch.poll() is None, batch.communicate()
        time.sleep(0.01)


def refuse_other_rows(folder: Path, archive: dict[str, int], batch: Forked) -> dict[str, Any]:
    """The batch ends well with all rows of the archive, and nothing else; its summary."""
    stdout, stderr = batch.communicate(timeout=TIMEOUT)
    assert batch.returncode == 0, stderr
    summary: dict[str, Any] = json.loads(stdout)
    assert (summary["written"] + summary["earlier"], summary["rows"], summary["failed"]) == (NUM_FILES, NUM_FILES * ROWS, {})
    assert numbered(rows_of(folder / "out")) == expected(archive)
    refuse_anything_else(folder / "out")
    return summary


class Machine(subprocess.Popen[str]):
    """A machine of one core in a Ray cluster, as far as Ray knows."""

    def __init__(self, log: Path, *args: str) -> None:
        command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--num-cpus", "1", "--object-store-memory", "200000000"]
        with log.open("w") as file:
            super().__init__([*command, *args], env=environment(), stdout=file, stderr=file, text=True, start_new_session=True)
        while "Process exit logs" not in log.read_text():  # the last line of the start
            assert self.poll() is None, log.read_text()
            time.sleep(0.1)

    def die(self) -> None:
        """End it with all its processes at once."""
        if self.poll() is None:
            kill(self.pid)
        self.wait()


def free_port() -> int:
    """A port below those that Ray gives its workers."""
    for port in range(6400, 9900):
        with socket.socket() as found, suppress(OSError):
            found.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no port is free")


def test_a_batch_on_a_cluster(tmp_path: Path, archive: dict[str, int], start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its parts are those of one machine, and it outlives workers and a machine of the cluster, which needs a token."""
    for name, value in {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": os.urandom(32).hex(), "RAY_USAGE_STATS_ENABLED": "0"}.items():
        monkeypatch.setenv(name, value)
    with ExitStack() as machines:
        port = free_port()
        address = f"127.0.0.1:{port}"
        head = Machine(tmp_path / "head", "--head", "--include-dashboard", "false", "--port", str(port))
        machines.callback(head.die)
        (tmp_path / "small").mkdir()
        compare_parts(tmp_path / "small", start, address)

        other = Machine(tmp_path / "other", "--address", address)
        machines.callback(other.die)
        batch = start(tmp_path, "--address", address, "--json")
        for done in (2, 6):
            wait_for(done, batch, tmp_path / "out")
            kill_one(head.pid, "ray::_classify")
        wait_for(10, batch, tmp_path / "out")
        other.die()
        refuse_other_rows(tmp_path, archive, batch)


def compare_parts(folder: Path, start: Start, address: str) -> None:
    """A batch says and writes the same on the cluster as without it, faults and warnings included."""
    write_archive(folder / "in")
    (folder / "in" / "broken.jsonl.gz").write_bytes(b"\x1f\x8b rubbish")
    (folder / "in" / "rows.jsonl").write_text('{"text": "the film"}\nrubbish\n')
    (folder / "in" / "odd.txt").write_bytes(b"__label__x caf\xe9\n")
    model = str(small_checkpoint_file(folder / "model.keras"))
    found = []
    for args in ((), ("--address", address)):
        batch = start(folder, "-c", model, "--json", *args)
        stdout, stderr = batch.communicate(timeout=TIMEOUT)
        lines = [line for line in stderr.splitlines() if not line.endswith(" texts/s")]  # these come now and then
        found.append((batch.returncode, json.loads(stdout) | {"seconds": 0}, lines, tree(folder / "out")))
        shutil.rmtree(folder / "out")
    assert found[0] == found[1]
    code, one, lines, _ = found[0]
    assert code == 1
    assert [len(warnings) for warnings in one["warnings"].values()] == [2]
    assert lines == [f"failed: {one['failed'][f'{folder}/in/broken.jsonl.gz']}", *one["warnings"][f"{folder}/in/odd.txt"]]


def test_a_cluster_that_ends_ends_the_batch(tmp_path: Path, archive: dict[str, int], start: Start) -> None:
    """``local`` is Ray's own name for a cluster that it starts on this machine, for this batch."""
    batch = start(tmp_path, "--address", "local", "--workers", "2")
    wait_for(4, batch, tmp_path / "out")
    started = descendants(batch.pid)
    kill_one(batch.pid, "raylet/raylet ")
    _, stderr = batch.communicate(timeout=TIMEOUT)
    assert batch.returncode == 1
    assert stderr.endswith("\nerror: the Ray cluster has ended; run the same again: what is done stays\n")
    while any(Path(f"/proc/{pid}").exists() for pid in started):  # what it has started ends with it
        time.sleep(0.1)
    done = len({row["file"] for row in rows_of(tmp_path / "out")})
    assert refuse_other_rows(tmp_path, archive, start(tmp_path, "--json"))["earlier"] == done  # without Ray


def test_an_address_where_nobody_listens(tmp_path: Path, start: Start) -> None:
    write_archive(tmp_path / "in")
    batch = start(tmp_path, "--address", "127.0.0.1:9")
    stdout, stderr = batch.communicate(timeout=TIMEOUT)
    assert (batch.returncode, stdout) == (2, "")
    line = "error: --address 127.0.0.1:9: Connection refused; give the address that `ray start --head` shows"
    assert stderr.splitlines()[1:] == [line]
