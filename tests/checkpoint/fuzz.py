"""Damaged and hostile checkpoints, each read and compared with its one right outcome.

    python -m tests.checkpoint.fuzz 20 0        # 20 rounds of all mutants with the seed 0: how many of each kind, and which came out wrong
    python -m tests.checkpoint.fuzz 2 0 plant   # plant a bug in every check of the reader, one by one: do the mutants notice each?

The reader has to refuse a mutant with one printable line that names the file and the fault, or read exactly the checkpoint that its bytes
stand for. Most are sealed: their checksums fit again, as an attacker would make them, so that the checks behind are reached.

Child processes read the mutants, with a limit on memory and on seconds for each. A signal, a hang, a traceback or too much memory is
wrong. Exit code 1: a mutant came out wrong, or a planted bug was not noticed.
"""

from __future__ import annotations

import ast
import importlib
import json
import os
import random
import re
import resource
import signal
import sys
import tempfile
import types
from collections import Counter
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # the address space of its threads would count as memory

from mha_cli.checkpoint.file import Checkpoint
from mha_cli.errors import MhaError, printable
from tests.checkpoint.mutants import NAME, Mutant, mutants

MORE_MEMORY = 200_000_000
"""Bytes of address space that reading may take beside the libraries."""

SECONDS = 5
"""Seconds of processor time for one mutant; on an idle processor it takes a few thousandths."""

READER = ("archive", "hdf5", "quantization", "file")
"""The modules of ``mha_cli.checkpoint`` that bugs are planted in, none before those that it imports."""

EXEMPT = {
    "weight.shape != parameter.shape": "it is the writer's",
    "len(members['mha.json']) > MAX_DESCRIPTION_BYTES": "so is this",
    "_is_too_long(config)": "so is this",
}
"""Checks that no mutant can reach, by their condition, and why they are there."""

FEEDS = {"update", "hash_beside"}
"""Functions that feed a checksum."""


# Bugs


def bugs(tree: ast.Module) -> Iterator[str]:
    """Disable one check of a module after another, each while the generator rests; yield which."""
    own = FEEDS | {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    for node in ast.walk(tree):
        conditional = isinstance(node, ast.If) and any(map(_refuses, node.body))
        if conditional and ast.unparse(node.test) not in EXEMPT:
            yield from _weaker(node, "test")
        elif isinstance(node, ast.Return) and isinstance(node.value, ast.BoolOp) and isinstance(node.value.op, ast.And):
            yield from _weaker(node, "value")
        for block in (getattr(node, field, []) for field in ("body", "orelse", "finalbody")):
            for index, statement in enumerate(block if isinstance(block, list) else []):
                if (_refuses(statement) and not conditional) or (isinstance(statement, ast.Expr) and _calls(statement.value, own)):
                    block[index] = ast.copy_location(ast.Pass(), statement)
                    yield f"{statement.lineno}: without {ast.unparse(statement)[:90]}"
                    block[index] = statement


def _refuses(statement: ast.stmt) -> bool:
    """Whether a statement raises, or notes what will be raised."""
    if isinstance(statement, ast.Assign):
        return ast.unparse(statement.targets[0]) == "problem" and ast.unparse(statement.value) != "''"
    return isinstance(statement, ast.Raise)


def _calls(value: ast.expr, own: set[str]) -> bool:
    return isinstance(value, ast.Call) and ast.unparse(value.func).rpartition(".")[2] in own


def _weaker(node: ast.If | ast.Return, field: str) -> Iterator[str]:
    """Each part of a condition left out in turn, or all of it where it has no parts."""
    parts: list[tuple[Any, int | str, Any]] = []
    for inner in ast.walk(getattr(node, field)):
        if isinstance(inner, ast.BoolOp):
            neutral = ast.Constant(isinstance(inner.op, ast.And))
            parts += [(inner.values, index, neutral) for index in range(len(inner.values))]
        elif isinstance(inner, ast.Compare) and isinstance(inner.left, ast.Tuple) and isinstance(inner.comparators[0], ast.Tuple):
            pairs = range(len(inner.left.elts))
            parts += [(inner.left.elts, index, inner.comparators[0].elts[index]) for index in pairs]
    for owner, index, other in parts or [(vars(node), field, ast.Constant(False))]:
        part = owner[index]
        owner[index] = ast.copy_location(other, part)
        yield f"{node.lineno}: without {ast.unparse(part)}"
        owner[index] = part


def planted() -> Iterator[tuple[str, str, types.CodeType]]:
    """Every bug: its description, the module that has it, and that module's code with it."""
    for name in READER:
        spec = find_spec(f"mha_cli.checkpoint.{name}")
        path = Path(spec.origin)
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for bug in bugs(tree):
            yield f"{name}.py:{bug}", spec.name, compile(tree, path, "exec")


def plant(name: str, code: types.CodeType) -> None:
    """Load the reader anew with a bug in one of its modules."""
    for other in READER:
        del sys.modules[f"mha_cli.checkpoint.{other}"]
    for other in (f"mha_cli.checkpoint.{other}" for other in READER):
        if other == name:
            sys.modules[name] = module = types.ModuleType(name)
            exec(code, module.__dict__)
        else:
            importlib.import_module(other)


# Mutants


def problem_of(path: Path, mutant: Mutant) -> str:
    """The fault in how a mutant is read; empty if there is none."""
    from mha_cli.checkpoint.file import read_checkpoint  # the one that has the bug

    refusal = isinstance(mutant.right, str)
    try:
        found = read_checkpoint(path)
    except MhaError as error:
        line, (file, _, said) = str(error), error.message.partition(": ")
        if not (line.isprintable() and printable(path.name) in file and error.exit_code == 2 and len(line) < 1000):
            return f"refused in a wrong way: {line!r}"
        return "" if refusal and re.fullmatch(mutant.right, said) else f"refused: {said}; {mutant.right if refusal else 'it is in order'}"
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
    if refusal:
        return f"read; {mutant.right}"
    return "" if same(found, mutant.right) else "read as something else"


def same(found: Checkpoint, right: Checkpoint) -> bool:
    """Whether two checkpoints are equal in everything."""
    names = ("config", "class_names", "metrics", "keras_config", "thresholds")
    fields = [([getattr(each, name) for name in names], each.vocabulary.tokens) for each in (found, right)]
    weights = [{path: (weight.dtype, weight.shape, weight.tobytes()) for path, weight in each.weights.items()} for each in (found, right)]
    return fields[0] == fields[1] and weights[0] == weights[1]


def problems(made: list[Mutant], bug: tuple[str, types.CodeType] | None = None) -> list[str]:
    """The fault in how each mutant is read, in child processes; a child that dies is replaced by another one.

    With a bug planted, the list ends at the first fault.
    """
    found: list[str] = []
    while len(found) < len(made) and not (bug and any(found)):
        report_from, report_to = os.pipe()
        child = os.fork()
        if not child:
            os.close(report_from)
            with open(report_to, "w", encoding="utf-8") as report:
                try:
                    if bug:
                        plant(*bug)
                    for mutant in made[len(found) :]:
                        problem = read_under_limits(mutant)
                        print(json.dumps(problem), file=report, flush=True)
                        if bug and problem:
                            break
                except BaseException as error:
                    print(json.dumps(f"{type(error).__name__}: {error}"), file=report, flush=True)
            os._exit(0)
        os.close(report_to)
        with open(report_from, encoding="utf-8") as report:
            found += [json.loads(line) for line in report]
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if code:
            found.append("hangs" if -code in {signal.SIGVTALRM, signal.SIGALRM} else f"ends with {code}")
    return found


def read_under_limits(mutant: Mutant) -> str:
    """The fault in how a mutant is read under limits."""
    path = Path(NAME)
    if isinstance(mutant.data, bytes):
        path.write_bytes(mutant.data)
    else:
        path = mutant.data(path)
    with open("/proc/self/statm", encoding="ascii") as file:
        used = int(file.read().split()[0]) * os.sysconf("SC_PAGESIZE")
    most = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (used + MORE_MEMORY, most))
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
    signal.alarm(60 * SECONDS)  # for what waits without computing; a machine may be busy
    found = problem_of(path, mutant)
    signal.alarm(0)
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    if path.is_dir() and not path.is_symlink():
        path.rmdir()
    elif path.name == NAME:
        path.unlink(missing_ok=True)
    return found


def main(rounds: str, seed: str, plant_bugs: str = "") -> int:
    """Run the mutants, print their outcomes, return the exit code."""
    count, wrong = Counter[str](), list[str]()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        made = [mutant for number in range(int(rounds)) for mutant in mutants(Path(folder), random.Random(f"{seed}/{number}"))]
        if plant_bugs:
            for bug, name, code in planted():
                noticed = problems(made, (name, code))
                by = made[len(noticed) - 1]
                print(f"{bug}: {f'{by.kind}, {by.what}: {noticed[-1]}' if noticed[-1] else 'NOT NOTICED'}", flush=True)
                wrong += [] if noticed[-1] else [bug]
        else:
            for mutant, problem in zip(made, problems(made), strict=True):
                count[mutant.kind] += 1
                wrong += [f"{mutant.kind}, {mutant.what}: {problem}"] if problem else []
            print(*(f"{kind:<14}{number:>8,}" for kind, number in count.items()), *wrong, sep="\n")
    print(f"{len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
