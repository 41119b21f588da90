"""Which refusals of a reader tests have reached."""

import ast
from collections.abc import Iterator
from pathlib import Path
from traceback import walk_tb
from types import ModuleType

Line = tuple[str, int]

WRITERS = {"write_checkpoint", "_weights_to_hdf5"}


def refusals_of(*modules: ModuleType) -> set[Line]:
    """File and line of every ``raise`` and every ``require``, but for those of functions that write."""
    found = set()
    for path in (str(module.__file__) for module in modules):
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
