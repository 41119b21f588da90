"""How much memory there is."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

MEMORY_INFO = Path("/proc/meminfo")
CONTROL_GROUP = Path("/sys/fs/cgroup")
"""Where Linux says what a container may use, versions 2 and 1."""


def memory_info(path: Path) -> dict[str, int]:
    """What Linux's ``meminfo`` says, in bytes, by its names; nothing where there is no such file."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return {}
    fields = ((name.strip(), value.split()) for name, _, value in (line.partition(":") for line in lines))
    return {name: 1024 * int(value[0]) for name, value in fields if value and value[0].isdigit()}


def available_memory() -> int | None:
    """Bytes that a process may still take: what the machine has free, or less where a container sets a limit; None if nothing tells."""
    machine = memory_info(MEMORY_INFO).get("MemAvailable")
    found = [] if machine is None else [machine]
    for limit, used in (("memory.max", "memory.current"), ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes")):
        with suppress(OSError, ValueError):
            found.append(int((CONTROL_GROUP / limit).read_text()) - int((CONTROL_GROUP / used).read_text()))
    return min(found) if found else None
