"""Saves a checkpoint over an earlier one again and again, each time with another fault at another file operation.

    python -m tests.system.faults FOLDER

Every save is a process of its own, so that being killed is real. Prints a JSON object: what each fault came to.
"""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mha_cli.checkpoint.file import read_checkpoint, write_checkpoint
from mha_cli.errors import MhaError
from mha_cli.system.whole_files import LOCK, locked
from tests.checkpoints import small_checkpoint

if TYPE_CHECKING:
    from collections.abc import Callable

FAULTS = ("killed", "short", "ENOSPC")
CALLS = ("open", "fsync", "chmod", "replace", "unlink", "close")


class Saver:
    """Saves with one fault at one file operation, counted from 0. In a write, half of the data comes before it."""

    def __init__(self, fault: str = "", when: int = -1) -> None:
        self.fault, self.when, self.operations = fault, when, list[str]()

    def due(self, operation: str) -> bool:
        """Note an operation; whether the fault is to happen in it."""
        self.operations.append(operation)
        return len(self.operations) - 1 == self.when

    def fail(self) -> None:
        """The fault, unless it is a short write."""
        if self.fault == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.fault == "ENOSPC":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def faulty(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """A system call that may go wrong."""

        def called(*args: Any, **keywords: Any) -> Any:
            if self.due(name):
                self.fail()
            return call(*args, **keywords)

        return called

    def save(self, path: Path) -> str:
        """Save with the fault; what it came to."""
        saver = self

        class Raw(io.FileIO):
            """A file on a disk that goes wrong."""

            def write(self, data: Any, /) -> int:
                if not saver.due("write"):
                    return super().write(data)
                written = super().write(memoryview(data)[: (len(data) + 1) // 2])
                saver.fail()
                return written

        for name in CALLS:
            setattr(os, name, self.faulty(name, getattr(os, name)))
        os.fdopen = lambda descriptor, mode: io.BufferedWriter(Raw(descriptor, mode))
        try:
            write_checkpoint(path, small_checkpoint(seed=1))
        except MhaError as error:
            return f"{error.exit_code} {error}"
        return "saved"


def in_child(path: Path, saver: Saver) -> dict[str, Any]:
    """What a save came to, and the operations that it took, in a process of its own."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        answer = {"result": saver.save(path), "operations": saver.operations}
        with contextlib.suppress(BrokenPipeError):
            os.write(writing, json.dumps(answer).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        text = stream.read()
    _, status = os.waitpid(child, 0)
    return json.loads(text) if text else {"result": f"status {status}"}


def state(path: Path) -> str:
    """Which of the two checkpoints is there, whole."""
    weight = read_checkpoint(path).weights["classifier/kernel"]
    seeds = [seed for seed in (0, 1) if (weight == small_checkpoint(seed=seed).weights["classifier/kernel"]).all()]
    return ["earlier", "new"][seeds[0]]


def main(folder: Path) -> None:
    """Try every fault at every operation."""
    path = folder / "a.keras"  # what is imported late is imported by the first write, and not by every child
    write_checkpoint(path, small_checkpoint(seed=0))
    earlier = path.read_bytes()
    operations = in_child(path, Saver())["operations"]
    cases = []
    for when, operation in enumerate(operations):
        for fault in FAULTS:
            if fault == "short" and operation != "write":
                continue
            path.write_bytes(earlier)
            result = in_child(path, Saver(fault, when))["result"]
            left = sorted(set(os.listdir(folder)) - {path.name})
            case = {"when": when, "operation": operation, "fault": fault, "result": result, "state": state(path), "left": left}
            with locked(folder):
                case["left when locked"] = sorted(set(os.listdir(folder)) - {path.name, LOCK})
            cases.append(case)
    print(json.dumps({"operations": operations, "cases": cases}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
