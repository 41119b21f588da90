"""Paths that a user gives, and the files that they name."""

import glob
import os
import re

from mha_cli.errors import MhaError, shown_path

_PATTERN = re.compile(r"[*?]|\[.+\]")


def matching_paths(given: str) -> list[str]:
    """Files and folders that match a pattern with ``*``, ``?``, ``[…]`` or ``**``, in natural order; a path without them is itself."""
    pattern = os.path.expanduser(given)
    if not _PATTERN.search(pattern) or os.path.lexists(pattern):
        return [pattern]
    if not (paths := glob.glob(pattern, recursive=True)):
        raise MhaError(f"{shown_path(given)}: no file matches", "check the pattern; relative paths start at the current folder")
    return sorted(paths, key=natural_order)


def natural_order(name: str) -> tuple[list[tuple[int, str]], str]:
    """Sort key under which runs of digits compare as numbers; by length first, since ``int`` refuses thousands of digits."""
    parts = re.split("([0-9]+)", name)
    key = [(len(digits := part.lstrip("0")), digits) if at % 2 else (0, part) for at, part in enumerate(parts)]
    return key, name
