"""Damaged and hostile checkpoints, each read and compared with its one right outcome.

    python -m tests.checkpoint.fuzz 20 0        # 20 rounds of all mutants with the seed 0: how many of each kind, and which came out wrong

The reader has to refuse a mutant with one printable line that names the file and the fault, or read exactly the checkpoint that its bytes
stand for. Most are sealed: their checksums fit again, as an attacker would make them, so that the checks behind are reached.

Each is read under a limit on memory and on seconds. Wrong are a hang, another exception, too much memory, and a refusal of the reader that
no mutant reaches: each ``raise`` and ``require`` in its code has to be met. Exit code 1: something is wrong.
"""

import ast
import os
import random
import re
import resource
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from traceback import walk_tb

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # the address space of its threads would count as memory

from mha_cli import checkpoint
from mha_cli.checkpoint.file import read_checkpoint
from mha_cli.errors import MhaError, printable
from tests.checkpoint.mutants import NAME, Mutant, mutants
from tests.checkpoints import same

MORE_MEMORY = 200_000_000  # bytes of address space that reading may take beside the libraries
SECONDS = 5  # seconds of processor time for one mutant; on an idle processor it takes a few thousandths

WRITERS = {"write_checkpoint", "_weights_to_hdf5"}

Line = tuple[str, int]


def refusals() -> set[Line]:
    """File and line of every ``raise``, and every ``require``, in the reader."""
    found = set()
    for path in {str(Path(checkpoint.__path__[0], f"{name}.py")) for name in ("archive", "hdf5", "file")}:
        functions = [node for node in ast.parse(Path(path).read_text(encoding="utf-8")).body if getattr(node, "name", "") not in WRITERS]
        for node in (node for function in functions for node in ast.walk(function)):
            if isinstance(node, ast.Raise) or (isinstance(node, ast.Call) and ast.unparse(node.func) in {"require", "_require"}):
                found.add((path, node.lineno))
    return found


def lines_of(error: BaseException | None) -> Iterator[Line]:
    """Lines of code that an error, and each that it came from, has gone through."""
    while error:
        yield from ((frame.f_code.co_filename, line) for frame, line in walk_tb(error.__traceback__))
        error = error.__context__


def problem_of(path: Path, mutant: Mutant, reached: set[Line]) -> str:
    """The fault in how a mutant is read; empty if there is none."""
    refusal = isinstance(mutant.right, str)
    try:
        with limits():
            found = read_checkpoint(path)
    except MhaError as error:
        reached.update(lines_of(error))
        line, (file, _, said) = str(error), error.message.partition(": ")
        if not (line.isprintable() and printable(path.name) in file and error.exit_code == 2 and len(line) < 1000):
            return f"refused in a wrong way: {line!r}"
        return "" if refusal and re.fullmatch(mutant.right, said) else f"refused: {said}; {mutant.right if refusal else 'it is in order'}"
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
    if refusal:
        return f"read; {mutant.right}"
    return "" if same(found, mutant.right) else "read as something else"


@contextmanager
def limits() -> Iterator[None]:
    """A limit on memory and on seconds."""
    with open("/proc/self/statm", encoding="ascii") as file:
        used = int(file.read().split()[0]) * os.sysconf("SC_PAGESIZE")
    most = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (used + MORE_MEMORY, most))
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
    signal.alarm(60 * SECONDS)  # for what waits without computing; a machine may be busy
    try:
        yield
    finally:
        signal.alarm(0)
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


class TooLong(BaseException):
    """A mutant takes more seconds than it may."""


def too_long(*_: object) -> None:
    raise TooLong


def main(rounds: str, seed: str) -> int:
    count, wrong, reached = Counter[str](), list[str](), set[Line]()
    for number in (signal.SIGVTALRM, signal.SIGALRM):
        signal.signal(number, too_long)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for made in (mutants(Path(folder), random.Random(f"{seed}/{number}")) for number in range(int(rounds))):
            for mutant in made:
                path = Path(NAME)
                path.write_bytes(mutant.data) if isinstance(mutant.data, bytes) else (path := mutant.data(path))
                count[mutant.kind] += 1
                if problem := problem_of(path, mutant, reached):
                    wrong.append(f"{mutant.kind}, {mutant.what}: {problem}")
                if path.is_dir() and not path.is_symlink():
                    path.rmdir()
                elif path.name == NAME:
                    path.unlink(missing_ok=True)
    wrong += [f"{path}:{line}: no mutant gets here" for path, line in sorted(refusals() - reached)]
    print(*(f"{kind:<14}{number:>8,}" for kind, number in count.items()), *wrong, f"{len(wrong)} wrong", sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
