"""The base of all benchmarks: a process for every candidate, all of them asked in turn, and results as JSON records."""

import argparse
import dataclasses
import datetime
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Self

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
sys.path.insert(0, str(ROOT))  # this checkout's mha_cli, whichever is installed

from mha_cli.system.processor import available_cores  # noqa: E402

PACKAGES = ("tensorflow", "keras", "torch", "scikit-learn", "fasttext", "numpy", "openvino")
INSTRUCTIONS = ("avx2", "avx512f", "avx512_bf16", "amx_bf16")
"""Instructions of a CPU that decide how fast matrices are multiplied."""

ANSWER = "answer: "
"""Mark of an answer on a worker's stdout."""

RSS_UNIT = 1 if sys.platform == "darwin" else 1024
"""Bytes in one of the kernel's units of ``ru_maxrss``."""

STDERR_SHOWN = 4000
"""Characters of a failed process's stderr that are shown."""

QUIET = 0.05
"""Share of the cores' time above which other programs disturb a measurement: torch's threads, which wait for each other, lose most."""

Record = dict[str, Any]
"""One measurement: ``machine``, ``date``, ``busy_share`` (see the function), ``settings`` (what was asked), ``figures`` (what came out)."""


# Processes


def environment() -> dict[str, str]:
    """The environment of every process that is measured: this checkout's code, TensorFlow without its start-up chatter."""
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return os.environ | {"PYTHONPATH": os.pathsep.join(paths), "KERAS_BACKEND": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "3"}


class Worker:
    """A candidate in a process of its own: it answers when asked and is idle in between, so that no two share threads or time.

    The constructor waits until the candidate is ready to be asked.

    Args:
        script: Python file that runs ``serve``.
        arguments: command line of the script.
    """

    def __init__(self, script: Path | str, *arguments: str) -> None:
        self._name = " ".join((Path(script).name, *arguments))
        self._stderr = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115 - closed with the worker
        self._process = subprocess.Popen(
            script_command(script, *arguments),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            cwd=ROOT,
            env=environment(),
            text=True,
        )
        self._read()  # ready

    def ask(self, **request: Any) -> Any:
        """The worker's answer.

        Raises:
            RuntimeError: the worker has ended; the message holds the end of its stderr.
        """
        assert self._process.stdin
        with suppress(BrokenPipeError):  # reading says why
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        return self._read()

    def _read(self) -> Any:
        assert self._process.stdout
        for line in self._process.stdout:
            _, marker, answer = line.partition(ANSWER)  # libraries may print before they are silenced
            if marker:
                return json.loads(answer)
        code = self._process.wait()
        self._stderr.seek(0)
        raise RuntimeError(f"{self._name} ended with code {code}:\n{self._stderr.read()[-STDERR_SHOWN:]}")

    def __enter__(self) -> Self:
        """The worker itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the process: it stops when nothing more can be asked."""
        assert self._process.stdin and self._process.stdout
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._stderr.close()


def serve(answer: Callable[..., Any]) -> None:
    """Answer what the parent asks, as JSON, until it has no more questions; the other side of ``Worker``."""
    sys.stdout.flush()
    with os.fdopen(os.dup(1), "w") as answers:
        os.dup2(2, 1)  # what libraries print goes to stderr
        print(ANSWER, json.dumps("ready"), sep="", file=answers, flush=True)
        for line in sys.stdin:
            print(ANSWER, json.dumps(answer(**json.loads(line))), sep="", file=answers, flush=True)


def start_all(stack: ExitStack, script: Path | str, arguments: Mapping[str, Sequence[str]]) -> dict[str, Worker]:
    """A worker for every candidate, started one after the other and ended with the stack."""
    return {name: stack.enter_context(Worker(script, *own)) for name, own in arguments.items()}


def ask_in_turn(workers: Mapping[str, Worker], rounds: int, **request: Any) -> dict[str, list[Any]]:
    """Ask all workers the same, A B C A B C …, so that what disturbs the machine disturbs all of them alike.

    A round goes before them that does not count: in it functions are traced and caches filled.
    """
    answers: dict[str, list[Any]] = {name: [] for name in workers}
    for number in range(rounds + 1):
        for name, worker in workers.items():
            answer = worker.ask(**request)
            if number:
                answers[name].append(answer)
    return answers


@dataclasses.dataclass(frozen=True)
class Finished:
    """A command that ran to its end.

    Args:
        stdout: text that it printed.
        seconds: wall time.
        peak_megabytes: most memory that it held at once.
    """

    stdout: str
    seconds: float
    peak_megabytes: float


def run_command(command: Sequence[str]) -> Finished:
    """Run a command and measure it.

    Linux counts the memory of this process, out of which the command is started, as the command's own least: keep it small.

    Raises:
        RuntimeError: it failed; the message holds the end of its stderr.
    """
    with tempfile.TemporaryFile("w+") as stdout, tempfile.TemporaryFile("w+", errors="replace") as stderr:
        started = time.perf_counter()
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, cwd=ROOT, env=environment())
        try:
            _, status, usage = os.wait4(process.pid, 0)
        except BaseException:
            process.terminate()
            process.wait()
            raise
        seconds = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            stderr.seek(0)
            raise RuntimeError(f"{' '.join(command)} ended with code {process.returncode}:\n{stderr.read()[-STDERR_SHOWN:]}")
        stdout.seek(0)
        return Finished(stdout.read(), seconds, usage.ru_maxrss * RSS_UNIT / 1e6)


def in_rounds(commands: Mapping[str, Sequence[str]], rounds: int) -> dict[str, list[Finished]]:
    """Run commands in turn, so many times each, after a first round that fills the file cache and does not count."""
    finished: dict[str, list[Finished]] = {name: [] for name in commands}
    for number in range(rounds + 1):
        for name, command in commands.items():
            one = run_command(command)
            if number:
                finished[name].append(one)
    return finished


def script_command(script: Path | str, *arguments: str) -> list[str]:
    """A Python script in a process of its own."""
    return [sys.executable, str(script), *arguments]


def mha_command(*arguments: str) -> list[str]:
    """The ``mha`` command of this checkout."""
    return [sys.executable, "-c", "import sys; from mha_cli.cli.app import main; sys.argv[0] = 'mha'; main()", *arguments]


def train(recipe: Path | str, run: Path, overrides: Sequence[str] = ()) -> Finished:
    """``mha train`` with a recipe, some of whose settings are changed."""
    settings = [argument for override in overrides for argument in ("--set", override)]
    return run_command(mha_command("train", "--config", str(recipe), *settings, "--output", str(run)))


# Records


def record(settings: Mapping[str, Any], figures: Any, busy: float | None) -> Record:
    """A measurement of today on this machine; ``busy`` is what ``busy_share`` said before it."""
    today = datetime.date.today().isoformat()
    return {"machine": machine(), "date": today, "busy_share": busy, "settings": dict(settings), "figures": figures}


def busy_share(seconds: float = 1.0) -> float | None:
    """Share of the cores' time that other programs take just now, in [0, 1]; None where the system does not say.

    Says so on stderr where the machine is not quiet.
    """
    if not (counts := Path("/proc/stat")).exists():
        return None
    before = _ticks(counts)
    time.sleep(seconds)
    passed = [after - earlier for after, earlier in zip(_ticks(counts), before, strict=True)]
    idle = passed[3] + passed[4]  # idle, and waiting for a disk
    share = 1.0 - idle / max(1, sum(passed))
    if share > QUIET:
        print(f"warning: other programs take {share:.0%} of the cores; wait for a quiet machine", file=sys.stderr)
    return share


def _ticks(counts: Path) -> list[int]:
    """Ticks of all cores together: user, nice, system, idle, waiting for a disk, interrupts, and so on."""
    return [int(number) for number in counts.read_text().splitlines()[0].split()[1:9]]


def machine() -> dict[str, Any]:
    """The machine and the software, as far as they decide speed."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    fields = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    flags = fields.get("flags", "").split()
    return {
        "cpu": fields.get("model name") or platform.processor() or platform.machine(),
        "cores": available_cores(),
        "instructions": [name for name in INSTRUCTIONS if name in flags],
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "python": platform.python_version(),
        "packages": {name: found for name in PACKAGES if (found := _version(name))},
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def write_record(path: Path, made: Record | list[Record]) -> None:
    """Write a file of one record, or of many."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(_rounded(made), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def read_json(path: Path) -> Any:
    """The content of a results file, or None where there is none."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def merge_records(path: Path, made: Iterable[Record]) -> list[Record]:
    """Put records into a file of many, each in the place of those with the same settings, and give all of them."""
    made = list(made)
    kept = [old for old in read_json(path) or [] if all(old["settings"] != new["settings"] for new in made)]
    merged = sorted([*kept, *map(_rounded, made)], key=lambda one: json.dumps(one["settings"], sort_keys=True))
    write_record(path, merged)
    return merged


def _rounded(value: Any) -> Any:
    """The same with numbers of six significant digits: more would be noise."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, Mapping):
        return {key: _rounded(inner) for key, inner in value.items()}
    return [_rounded(inner) for inner in value] if isinstance(value, list | tuple) else value


# Command lines


def parser(docstring: str | None, of_a_model: bool = False) -> argparse.ArgumentParser:
    """A parser with what every benchmark takes, or every benchmark of one model."""
    made = argparse.ArgumentParser(description=(docstring or "").splitlines()[0])
    made.add_argument("--results", type=Path, default=RESULTS, metavar="FOLDER", help="where JSON and plots go (benchmarks/results)")
    if of_a_model:
        made.add_argument("checkpoint", type=Path, nargs="?", default=ROOT / "mha_cli" / "models" / "imdb.keras", help="the packaged model")
    return made
