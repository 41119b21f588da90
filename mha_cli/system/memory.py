"""The memory of the machine and of the control groups (versions 1 and 2) around this process, as Linux reports it."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mha_cli.errors import EXIT_FAILURE, MhaError

ROOT = Path("/")  # folder of the file system that holds ``proc`` and ``sys``
NO_LIMIT = 2**60  # bytes; control groups of version 1 write a larger number where they have no limit

GROUP_FILES = {  # limit, use, and the entry of ``memory.stat`` for cached files, by controller: none in version 2, ``memory`` in version 1
    "": ("memory.max", "memory.current", "inactive_file"),
    "memory": ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
}


def machine_memory(root: Path = ROOT) -> dict[str, int]:
    """Linux's ``meminfo``, in bytes by its names; empty where there is no such file."""
    return {name: 1024 * kib for name, kib in _entries(root / "proc/meminfo").items()}


def memory_limit(root: Path = ROOT) -> int | None:
    """The lowest limit of the control groups, in bytes; None where there is none."""
    return min((limit for limit, _ in _control_groups(root)), default=None)


def available_memory(root: Path = ROOT) -> int | None:
    """Bytes that a process may still take, of the machine and of its control groups; None if nothing says."""
    machine = machine_memory(root).get("MemAvailable")
    free = [limit - used for limit, used in _control_groups(root)]
    return min(free if machine is None else [machine, *free], default=None)


def out_of_memory(error: Exception) -> bool:
    """Whether Python or TensorFlow, which has an error of its own, has found no memory."""
    return isinstance(error, MemoryError) or type(error).__name__ == "ResourceExhaustedError"


@contextmanager
def settings_for_less_memory() -> Iterator[None]:
    """Name the settings that decide the memory of a training, if it runs out of memory."""
    try:
        yield
    except Exception as error:
        if not out_of_memory(error):
            raise
        hint = "lower training.batch_size, text.sequence_length or model.embed_dim"
        raise MhaError("out of memory", hint, EXIT_FAILURE) from None


def _control_groups(root: Path) -> Iterator[tuple[int, int]]:
    """Limit and use, in bytes, of the limited groups around this process; the outermost is the one that a container sees as its own."""
    memberships = _text(root / "proc/self/cgroup")
    for controller, (limit_file, used_file, cached) in GROUP_FILES.items():
        membership = re.search(rf"^\d+:{controller}:/(.+)$", memberships, re.MULTILINE)
        group = Path(membership[1] if membership else "")
        for folder in (root / "sys/fs/cgroup" / controller / each for each in {group, *group.parents}):
            limit, used = _text(folder / limit_file).strip(), _text(folder / used_file).strip()
            if limit.isdigit() and int(limit) < NO_LIMIT:
                reclaimable = _entries(folder / "memory.stat").get(cached, 0)
                yield int(limit), max(0, int(used or 0) - reclaimable)


def _entries(path: Path) -> dict[str, int]:
    return {name: int(number) for name, number in re.findall(r"^(\w+):?\s+(\d+)", _text(path), re.MULTILINE)}


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
