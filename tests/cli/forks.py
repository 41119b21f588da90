"""The real command in a process of its own that is forked from one which has done its imports: these are most of a command's seconds.

Descriptors, environment, folder, signals and exit status are the process's own. How Python and mha start is not in it: whoever asks for
that starts ``COMMAND``.
"""

import atexit
import contextlib
import functools
import gc
import importlib
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from subprocess import PIPE
from typing import IO, Any

ROOT = Path(__file__).parents[2]
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
TENSORFLOW = (*NUMPY_ONLY, "mha_cli.analysis.inside", "mha_cli.training", "rich.progress", "sklearn.model_selection")
"""Modules that commands import."""
DIGITS = 10  # bytes of an answer: a process id, later an exit status


class ForkServer:
    """A process that has imported modules and forks itself for every command; ``setup`` runs first, ``program`` in each command."""

    def __init__(self, modules: Sequence[str], setup: str = "", program: str = "from tests.cli.forks import main; main()") -> None:
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


class Forked(subprocess.Popen[Any]):
    """``subprocess.Popen`` of a command that a server forks; the server also tells its exit status."""

    stdin: IO[Any]  # none where a stream is no pipe, and then nobody uses it
    stdout: IO[Any]
    stderr: IO[Any]

    def __init__(
        self,
        server: ForkServer,
        arguments: Sequence[str | bytes | Path],
        cwd: Path,
        environment: Mapping[str, str],
        streams: Sequence[int] = (PIPE, PIPE, PIPE),
        text: bool = False,
    ) -> None:
        words = [os.fsdecode(argument) for argument in arguments]
        self._server, self._job = server, {"arguments": words, "cwd": str(cwd), "environment": dict(environment)}
        super().__init__(words, -1 if text else 0, None, *streams, text=text)
        server.commands.append(self)

    def _execute_child(self, *given: Any) -> None:
        pipes = given[10:16]  # for each standard stream the ends to read from and to write to
        self._answers, theirs = socket.socketpair()
        with theirs:
            self._server.start(self._job, [theirs.fileno(), pipes[0], pipes[3], pipes[5]])
        self._close_pipe_fds(*pipes)
        self.pid, self._child_created = int(self._answers.recv(DIGITS)), True

    def _internal_poll(self, *_: Any, **__: Any) -> int | None:
        with contextlib.suppress(BlockingIOError):
            return self._wait(0)
        return None

    def _wait(self, timeout: float | None) -> int:
        if self.returncode is None:
            self._answers.settimeout(timeout)
            self.returncode = int(self._answers.recv(DIGITS))
            self._answers.close()
        return self.returncode


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


def main() -> None:
    """``mha ARGS``, or the program of a module for ``-m MODULE ARGS``."""
    if sys.argv[1:2] == ["-m"]:
        del sys.argv[:2]
        runpy.run_module(sys.argv[0], run_name="__main__")
    else:
        importlib.import_module("mha_cli.__main__").main()


def obey_signals() -> None:
    """Undo that signals are ignored, as they are below `nohup` or where the tests run in the background of a script."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def _become(job: Mapping[str, Any], descriptors: Sequence[int]) -> None:
    """Make this process the command that is wanted."""
    obey_signals()
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
