"""Saves a checkpoint over an earlier one again and again, each time with another fault at another file operation.

    python -m tests.system.faults FOLDER

Every save is a process of its own, so that being killed is real. Prints a JSON object: what each fault came to.
"""

import contextlib
import errno
import io
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mha_cli.checkpoint.file import read_checkpoint, write_checkpoint
from mha_cli.errors import MhaError
from mha_cli.system.whole_files import LOCK, locked
from tests.checkpoints import small_checkpoint

FAULTS = ("killed", "short", "ENOSPC")


def save(path: Path, fault: str, when: int) -> dict[str, Any]:
    """Save with one fault at one file operation, counted from 0; in a write, half of the data comes before it."""
    operations: list[str] = []

    def due(operation: str) -> bool:
        operations.append(operation)
        return len(operations) - 1 == when

    def fail() -> None:
        if fault == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if fault == "ENOSPC":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def faulty(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def called(*args: Any, **keywords: Any) -> Any:
            if due(name):
                fail()
            return call(*args, **keywords)

        return called

    class Raw(io.FileIO):
        """A file on a disk that goes wrong."""

        def write(self, data: Any, /) -> int:
            if not due("write"):
                return super().write(data)
            written = super().write(memoryview(data)[: (len(data) + 1) // 2])
            fail()
            return written

    for name in ("open", "fsync", "chmod", "replace", "unlink", "close"):
        setattr(os, name, faulty(name, getattr(os, name)))
    os.fdopen = lambda descriptor, mode: io.BufferedWriter(Raw(descriptor, mode))
    try:
        write_checkpoint(path, small_checkpoint(seed=1))
    except MhaError as error:
        return {"result": f"{error.exit_code} {error}", "operations": operations}
    return {"result": "saved", "operations": operations}


def in_child(path: Path, fault: str = "", when: int = -1) -> dict[str, Any]:
    """What a save came to, and the operations that it took, in a process of its own."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        answer = save(path, fault, when)
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
    path = folder / "a.keras"  # what is imported late is imported by the first write, and not by every child
    write_checkpoint(path, small_checkpoint(seed=0))
    earlier = path.read_bytes()
    operations = in_child(path)["operations"]
    cases = []
    for when, operation in enumerate(operations):
        for fault in FAULTS:
            if fault == "short" and operation != "write":
                continue
            path.write_bytes(earlier)
            result = in_child(path, fault, when)["result"]
            left = sorted(set(os.listdir(folder)) - {path.name})
            case = {"when": when, "operation": operation, "fault": fault, "result": result, "state": state(path), "left": left}
            with locked(folder):
                case["left when locked"] = sorted(set(os.listdir(folder)) - {path.name, LOCK})
            cases.append(case)
    print(json.dumps({"operations": operations, "cases": cases}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
