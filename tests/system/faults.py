"""Saves a file over an earlier one again and again: killed, or with a full disk, at one file operation after the other.

    python -m tests.system.faults FOLDER

Every save is a process of its own, so that being killed is real. Prints as JSON the operations, and what became of each save.
"""

import errno
import io
import itertools
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mha_cli.errors import MhaError
from mha_cli.system.whole_files import LOCK, atomic_write, locked


def save(path: Path, fault: str, when: int) -> list[str]:
    """The operations of a save, and its error if there is one; the fault comes at one of them, counted from 0, and halfway in a write."""
    operations = list[str]()

    def faulty(name: str) -> Callable[..., Any]:
        call = getattr(os, name)

        def called(*args: Any, **keywords: Any) -> Any:
            operations.append(name)
            if len(operations) - 1 != when:
                return call(*args, **keywords)
            if name == "write":
                call(args[0], bytes(args[1])[: len(args[1]) // 2])
            if fault == "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        return called

    class Raw(io.FileIO):
        def write(self, data: Any, /) -> int:
            return os.write(self.fileno(), data)

    for name in ("open", "write", "fsync", "chmod", "replace", "unlink", "close"):
        setattr(os, name, faulty(name))
    os.fdopen = lambda descriptor, mode: io.BufferedWriter(Raw(descriptor, mode))  # type: ignore[assignment, return-value]
    try:
        with atomic_write(path) as file:
            file.write(b"new" * 10_000)
            file.write(b"new")
    except MhaError as error:
        return [*operations, str(error)]
    return operations


def in_child(path: Path, fault: str = "", when: int = -1) -> list[str]:
    """What a save in a process of its own returns; nothing if it is killed."""
    told = path.with_name(f"told-{when}-{fault}")
    if not (child := os.fork()):
        text = json.dumps(save(path, fault, when))
        told.write_text(text)
        os._exit(0)
    os.waitpid(child, 0)
    found: list[str] = json.loads(told.read_text()) if told.exists() else []
    told.unlink(missing_ok=True)
    return found


def main(folder: Path) -> None:
    path = folder / "file.bin"
    path.write_bytes(b"earlier")
    operations, cases = in_child(path), []
    for when, fault in itertools.product(range(len(operations)), ("killed", "full")):
        path.write_bytes(b"earlier")
        told = in_child(path, fault, when)
        left = len(os.listdir(folder)) - 1
        with locked(folder):
            left_when_locked = sorted(os.listdir(folder))
        assert left_when_locked == sorted([path.name, LOCK]), (when, fault, left_when_locked)
        cases.append({"when": when, "fault": fault, "told": told[-1:], "is new": path.read_bytes() == b"new" * 10_001, "left": left})
    print(json.dumps({"operations": operations, "cases": cases}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
