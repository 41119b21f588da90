"""What mha takes on disk: the base, and what each extra adds to it.

    pip install -e ".[fast,onnx,litert,ray,report,serve,tune]"
    python benchmarks/extras.py    # table and extras.json

The files of every package that an extra needs, and that the base does not, are added up as they lie in this environment, in which all of
them have to be. Two extras that share packages (pyyaml) take them once.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path

import harness
import tables
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

EXTRAS = ("fast", "onnx", "litert", "ray", "report", "serve", "tune")
"""Those that users install; the others are for work on mha."""


def needed(name: str, extras: frozenset[str] = frozenset()) -> dict[tuple[str, frozenset[str]], None]:
    """A package with all that it needs, and what those need, by name and extras."""
    found: dict[tuple[str, frozenset[str]], None] = {}
    left = [(canonicalize_name(name), extras)]
    while left:
        one = left.pop()
        if one in found:
            continue
        found[one] = None
        left += requirements(*one)
    return found


def requirements(name: str, extras: frozenset[str]) -> Iterator[tuple[str, frozenset[str]]]:
    """What a package needs on this machine, as names and extras."""
    for line in distribution(name).requires or []:
        requirement = Requirement(line)
        if requirement.marker is None or any(requirement.marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            yield canonicalize_name(requirement.name), frozenset(requirement.extras)


def megabytes(name: str) -> float:
    """The size of a package's files."""
    package = distribution(name)
    paths = (Path(str(package.locate_file(file))) for file in package.files or [])
    return sum(path.stat().st_size for path in paths if path.is_file()) / 1e6


def main() -> None:
    """Add up, and print the table."""
    parser = harness.parser(__doc__)
    arguments = parser.parse_args()
    base = {name for name, _ in needed("mha")}
    figures = {"": {name: megabytes(name) for name in base}}
    for extra in EXTRAS:
        figures[extra] = {name: megabytes(name) for name in {name for name, _ in needed("mha", frozenset({extra}))} - base}
    record = harness.record({}, figures, busy=None)
    harness.write_record(arguments.results / "extras.json", record)
    tables.show(tables.extras(record))


if __name__ == "__main__":
    main()
