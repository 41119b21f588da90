"""The real command in a process of its own that is forked from one which has done its imports: these are most of a command's seconds.

Descriptors, environment, folder, signals and exit status are the process's own. How Python and mha start is not in it: whoever asks for
that starts ``COMMAND``.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from subprocess import PIPE
from typing import IO, TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ROOT = Path(__file__).parents[2]
MAIN = "from mha_cli.__main__ import main; main()"
NUMPY_ONLY = (
    "mha_cli.cli.answers",
    "mha_cli.cli.app",
    "mha_cli.cli.explain",
    "mha_cli.cli.predict",
    "mha_cli.cli.render_inspection",
    "mha_cli.runtime.inspection",
    "mha_cli.runtime.stream",
    "rich.table",
    "typer.rich_utils",
)
TENSORFLOW = (*NUMPY_ONLY, "mha_cli.analysis.inside", "mha_cli.training", "rich.progress", "sklearn.metrics", "sklearn.model_selection")
"""Modules that commands import."""
DIGITS = 10
"""Bytes of an answer: a process id, later an exit status."""


class ForkServer:
    """A process that has imported modules and forks itself for every command; ``setup`` runs first, ``program`` in each command."""

    def __init__(self, modules: Sequence[str], setup: str = "", program: str = MAIN) -> None:
        self.commands: list[Forked] = []
        self._jobs, theirs = socket.socketpair()
        with theirs:
            code = f"{setup}\nfrom tests.cli.forks import serve\nserve({theirs.fileno()}, {[*modules]})\n{program}"
            environment = os.environ | {"PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3"}
            self._process = subprocess.Popen([sys.executable, "-c", code], pass_fds=[theirs.fileno()], env=environment)
        atexit.register(self.end)

    def start(self, job: Mapping[str, Any], descriptors: Sequence[int]) -> None:
        """Fork a command; the first descriptor hears its process id and its exit status, the others are its standard streams."""
        socket.send_fds(self._jobs, [json.dumps(job).encode() + b"\n"], descriptors)

    def end(self) -> None:
        """End the server, and commands that a test has left running."""
        for command in self.commands:
            command.kill()
        self._jobs.close()
        self._process.wait()


class Forked:
    """A command that is running; the part of ``subprocess.Popen`` that tests use."""

    def __init__(
        self,
        server: ForkServer,
        arguments: Sequence[str | bytes | Path],
        cwd: Path,
        environment: Mapping[str, str],
        streams: Sequence[int] = (PIPE, PIPE, PIPE),
        text: bool = False,
    ) -> None:
        self.returncode: int | None = None
        self._answers, theirs = socket.socketpair()
        ends, given = list[IO[Any] | None](), list[int]()
        for number, stream in enumerate(streams):
            if stream != PIPE:
                ends.append(None)
                given.append(os.dup(stream))
                continue
            reads, writes = os.pipe()
            ours, its = (writes, reads) if number == 0 else (reads, writes)
            ends.append(open(ours, ("w" if number == 0 else "r") + ("" if text else "b"), -1 if text else 0))  # noqa: SIM115
            given.append(its)
        self.stdin, self.stdout, self.stderr = ends
        job = {"arguments": [os.fsdecode(argument) for argument in arguments], "cwd": str(cwd), "environment": dict(environment)}
        with theirs:
            server.start(job, [theirs.fileno(), *given])
        for descriptor in given:
            os.close(descriptor)
        self.pid = int(self._answers.recv(DIGITS))
        server.commands.append(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for pipe in (self.stdin, self.stdout, self.stderr):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
        self.wait()

    def send_signal(self, number: int) -> None:
        """Send it a signal, if it is still there."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)

    def poll(self) -> int | None:
        """Its exit status, minus the number of the signal that ended it; None while it runs."""
        with contextlib.suppress(BlockingIOError):
            return self.wait(0)
        return None

    def wait(self, timeout: float | None = None) -> int:
        """The same, once it has ended."""
        if self.returncode is None:
            self._answers.settimeout(timeout)
            self.returncode = int(self._answers.recv(DIGITS))
            self._answers.close()
        return self.returncode

    def communicate(self, given: str | bytes | None = None, timeout: float | None = None) -> tuple[Any, Any]:
        """What it writes to pipes until it ends; None of the others."""
        seen: dict[IO[Any], Any] = {}
        pipes = [pipe for pipe in (self.stdout, self.stderr) if pipe is not None]
        readers = [threading.Thread(target=lambda pipe=pipe: seen.update({pipe: pipe.read()}), daemon=True) for pipe in pipes]
        for reader in readers:
            reader.start()
        if self.stdin is not None:
            with contextlib.suppress(BrokenPipeError), self.stdin as stdin:
                _write_all(stdin, given or b"")
        self.wait(timeout)
        for reader, pipe in zip(readers, pipes, strict=True):
            reader.join(timeout)
            pipe.close()
        return tuple(None if pipe is None else seen[pipe] for pipe in (self.stdout, self.stderr))


def _write_all(stream: IO[Any], data: Any) -> None:
    while data:
        data = data[stream.write(data) :]


@functools.cache
def numpy_server() -> ForkServer:
    """A server of commands that do without TensorFlow."""
    return ForkServer(NUMPY_ONLY, "from mha_cli.system.processor import prepare_to_compute; prepare_to_compute()")


@functools.cache
def tensorflow_server() -> ForkServer:
    """A server of commands that train or evaluate."""
    return ForkServer(TENSORFLOW, "from mha_cli.system.tensorflow_setup import import_tensorflow; import_tensorflow()")


def serve(descriptor: int, modules: Sequence[str]) -> None:
    """Start commands until nobody asks for more; returns in every process that is to be one.

    A process in between waits for each of them, so that several can run at a time.
    """
    for module in modules:
        importlib.import_module(module)
    gc.freeze()  # a process does not look through, and so copy, what all of them share
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the tests, which then ask for no more
    jobs = socket.socket(fileno=descriptor)
    while True:
        message, descriptors, _, _ = socket.recv_fds(jobs, 1 << 20, 4)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG if message else 0)[0]:
                pass
        if not message:
            os._exit(0)
        while not message.endswith(b"\n"):
            message += jobs.recv(1 << 20)
        if os.fork() == 0:
            break
        for given in descriptors:
            os.close(given)
    jobs.close()
    command = os.fork()
    if command:
        with socket.socket(fileno=descriptors[0]) as answers:
            for given in descriptors[1:]:
                os.close(given)
            answers.send(b"%*d" % (DIGITS, command))
            _, status = os.waitpid(command, 0)
            answers.send(b"%*d" % (DIGITS, os.waitstatus_to_exitcode(status)))
        os._exit(0)
    _become(json.loads(message), descriptors)


def _become(job: Mapping[str, Any], descriptors: Sequence[int]) -> None:
    """Make this process the command that is wanted."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    os.close(descriptors[0])
    for number, given in enumerate(descriptors[1:]):
        os.dup2(given, number)
        os.close(given)
    # As Python opens them; those of the server know what its own descriptors were.
    sys.stdin, sys.stdout = open(0, closefd=False), open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", 1, errors="backslashreplace", closefd=False)  # noqa: SIM115
    os.chdir(job["cwd"])
    os.environ.clear()
    os.environ.update(job["environment"])
    sys.argv = ["mha", *job["arguments"]]
