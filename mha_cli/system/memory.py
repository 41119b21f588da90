"""How much memory there is, as Linux writes it: of the machine, and of the control groups (versions 1 and 2) that a process is in."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

ROOT = Path("/")
"""Folder of the file system that holds ``proc`` and ``sys``."""

NO_LIMIT = 2**60
"""Bytes; what control groups of version 1 say where there is no limit is larger."""


class ControlGroup(NamedTuple):
    """Bytes that the processes of a group, such as a container, may have together, and that they have (0 where nothing says it).

    What files left in memory, which the system takes back when it is needed, is not counted.
    """

    limit: int
    used: int


def machine_memory(root: Path = ROOT) -> dict[str, int]:
    """What Linux's ``meminfo`` says of the machine, in bytes, by its names; nothing where there is no such file."""
    lines = _text(root / "proc/meminfo").splitlines()
    fields = ((name.strip(), value.split()) for name, _, value in (line.partition(":") for line in lines))
    return {name: 1024 * int(value[0]) for name, value in fields if value and value[0].isdigit()}


def control_groups(root: Path = ROOT) -> list[ControlGroup]:
    """The limited groups among the one that this process is in, those above it, and the outermost that is to be seen from here."""
    folders = {"": {Path()}, "memory": {Path()}}  # by controller: none in version 2; a container sees its own group as the outermost
    for line in _text(root / "proc/self/cgroup").splitlines():
        controllers, _, group = line.partition(":")[2].partition(":")
        if controllers in folders:
            folder = Path(group.lstrip("/"))
            folders[controllers] |= {folder, *folder.parents}
    files = {
        "": ("", "memory.max", "memory.current", "inactive_file"),
        "memory": ("memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    }
    found = []
    for controllers, (base, limit_file, used_file, of_files) in files.items():
        for folder in (root / "sys/fs/cgroup" / base / inner for inner in folders[controllers]):
            limit, used = (_number(_text(folder / name)) for name in (limit_file, used_file))
            if limit is not None and limit < NO_LIMIT:
                told = dict(line.split(maxsplit=1) for line in _text(folder / "memory.stat").splitlines() if " " in line)
                found.append(ControlGroup(limit, max(0, (used or 0) - (_number(told.get(of_files, "")) or 0))))
    return found


def memory_limit(root: Path = ROOT) -> int | None:
    """The lowest limit of the control groups, in bytes; None where there is none."""
    return min((group.limit for group in control_groups(root)), default=None)


def available_memory(root: Path = ROOT) -> int | None:
    """Bytes that a process may still take: what the machine has free, or less where a control group sets a limit; None if nothing says."""
    machine = machine_memory(root).get("MemAvailable")
    free = [group.limit - group.used for group in control_groups(root)]
    return min(free if machine is None else [machine, *free], default=None)


def _number(text: str) -> int | None:
    """The number in a line; None where there is a word, such as ``max``, in it, or nothing."""
    return int(text) if text.strip().isdigit() else None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
