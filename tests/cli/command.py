"""Runs the command line as a user does, and what is always asked of its answers."""

import contextlib
import functools
import io
import json
import os
import pty
import select
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest
import typer.main

from mha_cli.cli.app import main
from mha_cli.cli.command import COMMANDS as COMMANDS
from mha_cli.errors import EXIT_USAGE
from tests.cli.forks import Forked, numpy_server, tensorflow_server

Mha = Callable[..., "Result"]

ROOT = Path(__file__).parents[2]
CONFIGS = ROOT / "configs"
COMMAND = (sys.executable, "-c", "import sys; from mha_cli.__main__ import main; sys.argv[0] = 'mha'; main()")
LEARNING = ("train", "report", "shuffle-test", "heads", "export")  # commands that import TensorFlow
TINY = Path(__file__).with_name("tiny.yaml")
TRACED_SOON = ("training.optimizer=rmsprop",)
"""Settings for trainings of which only what happens around them counts: TensorFlow traces them sooner."""
TINY_SETTINGS = ("data.num_texts=400", "model.embed_dim=16", "model.feed_forward_dim=16", "training.epochs=4")
"""Over TINY, for the model that is trained once for many tests, in NumPy."""
SCORED_SETTINGS = (
    *TRACED_SOON,
    "data.num_texts=400",
    "model.embed_dim=16",
    "model.feed_forward_dim=16",
    "linear.max_ngram=2",
    "linear.buckets=4096",
    "linear.end_decay=20",
    "linear.context_windows=[2,5]",
    "training.epochs=2",
    "training.precision=bfloat16",
)
"""Over TINY, for a short training with a linear model, and what else few trainings use."""
RESUME = ("train", "--config", "run/config.yaml", "--output", "run", "--resume")
TIMEOUT = 600  # seconds after which a command that hangs fails its test; no test measures time
parser = functools.cache(typer.main.get_command)
"""Of the command line; Typer makes it anew for every command, which takes longer than most of those that run in this process."""


@dataclass(frozen=True)
class Result:
    """What a command came to; ``code`` is its exit status, minus the number of the signal that ended it."""

    code: int
    stdout: str
    stderr: str

    @property
    def lines(self) -> list[str]:
        """Of stdout; a line feed ends a line, nothing else does."""
        return self.stdout.removesuffix("\n").split("\n") if self.stdout else []

    @property
    def json(self) -> Any:
        """What stdout says, which is JSON."""
        return json.loads(self.stdout)

    def well(self) -> "Result":
        """The same, which has to have ended well."""
        assert self.code == 0, self.stderr
        return self

    def silent(self) -> "Result":
        """The same, which has to have ended well without a word on stderr."""
        assert (self.code, self.stderr) == (0, "")
        return self


@dataclass(frozen=True)
class Run:
    """A command that ran once for all tests, in the folder ``cwd``."""

    cwd: Path
    result: Result

    @property
    def directory(self) -> Path:
        """The run directory of a training without --output."""
        return self.cwd / "runs" / "tiny"

    @property
    def checkpoint(self) -> Path:
        """Of that training."""
        return self.directory / "checkpoint.keras"


def set_all(*settings: str) -> list[str]:
    """The arguments of a command that change settings: ``--set`` before each."""
    return [argument for setting in settings for argument in ("--set", setting)]


def environment(changes: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a command: what decides its output is the same on every machine."""
    ours = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("MHA_") and name not in {"PYTHONUNBUFFERED", "FORCE_COLOR", "NO_COLOR", "PYTHONIOENCODING"}
    }
    return ours | {"COLUMNS": "150", "TERM": "xterm", "TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONPATH": str(ROOT)} | dict(changes or {})


def run_mha(*args: str | bytes | Path, cwd: Path, stdin: str | bytes = b"", env: Mapping[str, str] | None = None) -> Result:
    """Run ``mha ARGS`` in a process of its own. Its output must be UTF-8."""
    process = fork(args, cwd, env=env)
    stdout, stderr = process.communicate(stdin.encode() if isinstance(stdin, str) else stdin, TIMEOUT)
    return Result(process.wait(), stdout.decode(), stderr.decode())


def fork(
    args: Sequence[str | bytes | Path],
    cwd: Path,
    streams: Sequence[int] = (PIPE, PIPE, PIPE),
    env: Mapping[str, str] | None = None,
    text: bool = False,
) -> Forked:
    """Start ``mha ARGS`` in a process that has done its imports, and leave it running."""
    server = tensorflow_server() if args and args[0] in LEARNING and "--help" not in args else numpy_server()
    return Forked(server, args, cwd, environment(env), streams, text)


def start(args: Sequence[str | Path], cwd: Path, stdin: int = PIPE, stderr: int = PIPE, env: Mapping[str, str] | None = None) -> Forked:
    """Start ``mha predict ARGS`` and leave it running."""
    return fork(["predict", *args], cwd, (stdin, PIPE, stderr), env)


def answer(process: Forked) -> bytes:
    """The next line that a command answers, while its producer waits."""
    assert select.select([process.stdout], [], [], TIMEOUT)[0], "no answer while the producer waits"
    return process.stdout.readline()


def start_training(cwd: Path, *args: str | Path, env: Mapping[str, str] | None = None) -> Forked:
    """Start ``mha train ARGS`` and leave it running; it obeys signals."""
    return fork(["train", *args], cwd, env=env, text=True)


def start_module(name: str, *args: str | Path, env: Mapping[str, str] | None = None) -> Forked:
    """Start ``python -m NAME ARGS`` in a process that has imported TensorFlow, and leave it running."""
    return Forked(tensorflow_server(), ["-m", name, *args], ROOT, environment(env), text=True)


def wait_for_line(process: Forked, start: str) -> None:
    """Read stderr until a line begins so."""
    while not (line := process.stderr.readline()).startswith(start):
        assert line, "the command ended"


def children_of(pid: int) -> list[int]:
    """The processes that one has started."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def nearly(answer: dict[str, Any]) -> dict[str, Any]:
    """An answer up to the last bits of its probabilities, which depend on the texts that it was computed together with."""
    shares = {name: pytest.approx(share, abs=3e-6) for name, share in answer["probabilities"].items()}
    return {**answer, "probability": pytest.approx(answer["probability"], abs=3e-6), "probabilities": shares}


@contextlib.contextmanager
def step_by_step() -> Iterator[None]:
    """TensorFlow computes what it is given, step by step: for a few small batches, tracing takes longer than all else."""
    import tensorflow as tf

    tf.config.run_functions_eagerly(True)
    try:
        yield
    finally:
        tf.config.run_functions_eagerly(False)


def run_on_terminal(
    *args: str | Path, cwd: Path, stream: str = "stdout", stdin: str | bytes = b"", env: Mapping[str, str] | None = None
) -> Result:
    """Run ``mha ARGS`` with ``stdout`` or ``stderr`` on a terminal; that stream's line ends are line feeds again in the result."""
    ours, theirs = pty.openpty()
    shown: list[bytes] = []
    reader = threading.Thread(target=lambda: shown.append(read_terminal(ours)))
    reader.start()
    process = fork(args, cwd, (PIPE, *(theirs if name == stream else PIPE for name in ("stdout", "stderr"))), env)
    os.close(theirs)
    stdout, stderr = process.communicate(stdin.encode() if isinstance(stdin, str) else stdin, TIMEOUT)
    reader.join()
    os.close(ours)
    seen = shown[0].replace(b"\r\n", b"\n").decode()
    return Result(process.wait(), seen if stdout is None else stdout.decode(), seen if stderr is None else stderr.decode())


def read_terminal(descriptor: int) -> bytes:
    """All that is shown on a terminal, until nobody holds its other end."""
    chunks = []
    try:
        while chunk := os.read(descriptor, 65536):
            chunks.append(chunk)
    except OSError:  # how a terminal says so
        pass
    return b"".join(chunks)


def run_here(*args: str | bytes | Path, cwd: Path, stdin: str | bytes = b"", env: Mapping[str, str] | None = None) -> Result:
    """Run ``mha ARGS`` in this process: the same code without the start-up of Python and TensorFlow, for all but the first."""
    with (
        pytest.MonkeyPatch.context() as patch,
        tempfile.TemporaryFile() as given,
        tempfile.TemporaryFile() as data,
        tempfile.TemporaryFile() as rest,
    ):
        given.write(stdin.encode() if isinstance(stdin, str) else stdin)
        given.seek(0)
        stdout, stderr = (io.TextIOWrapper(file, "utf-8", newline="\n") for file in (data, rest))
        patch.chdir(cwd)
        patch.setattr(typer.main, "get_command", parser)
        patch.setattr(sys, "argv", ["mha", *map(os.fsdecode, args)])
        patch.setattr(sys, "stdin", io.TextIOWrapper(given, "utf-8"))
        for name in set(os.environ) - set(environment(env)):
            patch.delenv(name)
        for name, value in environment(env).items():
            patch.setenv(name, value)
        with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
            try:
                main()
            except SystemExit as error:
                code = error.code
        found = []
        for stream in (stdout, stderr):
            stream.flush()
            stream.seek(0)
            found.append(stream.read())
    return Result(code if isinstance(code, int) else 0, *found)


def refusal(result: Result) -> str:
    """The one line on stderr with which a command refuses what the user can correct."""
    assert (result.code, result.stdout) == (EXIT_USAGE, ""), result
    line, end = result.stderr[:-1], result.stderr[-1:]
    assert line.startswith("error: ") and end == "\n"
    assert line.isprintable()
    assert "fault in mha" not in line
    return line.removeprefix("error: ")


def tree(folder: Path) -> dict[str, bytes | None]:
    """Every file in a folder with its content, every folder with None."""
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in sorted(folder.rglob("*"))}


def has_control_characters(text: str) -> bool:
    """Whether a terminal would obey anything in the text beyond line feeds and tabs."""
    return any(not char.isprintable() and char not in "\n\t" for char in text)
