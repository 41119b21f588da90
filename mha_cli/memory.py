"""How much memory there is."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

MEMORY_INFO = Path("/proc/meminfo")
CONTROL_GROUP = Path("/sys/fs/cgroup")
"""Where Linux says what a container may use, versions 2 and 1."""


def available_memory() -> int | None:
    """Bytes that a process may still take: what the machine has free, or less where a container sets a limit; None if nothing tells."""
    found = []
    with suppress(OSError, ValueError, IndexError):
        lines = dict(line.split(":", 1) for line in MEMORY_INFO.read_text().splitlines())
        found.append(int(lines["MemAvailable"].split()[0]) * 1024)
    for limit, used in (("memory.max", "memory.current"), ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes")):
        with suppress(OSError, ValueError):
            found.append(int((CONTROL_GROUP / limit).read_text()) - int((CONTROL_GROUP / used).read_text()))
    return min(found) if found else None
