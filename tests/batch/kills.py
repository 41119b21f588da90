"""Kills a batch before each of its renames and removals, and runs it again.

    python -m tests.batch.kills FOLDER

Each run that is killed is a process of its own, so that the kill is real. Prints a JSON object: what undisturbed runs rename and remove,
and what was wrong after each kill.
"""

import hashlib
import itertools
import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mha_cli.batch.files import Folder
from mha_cli.batch.part import Job, classify_shard
from mha_cli.batch.shards import find_shards
from mha_cli.checkpoint.file import read_checkpoint
from mha_cli.runtime.classifier import Classifier
from tests.batch.archive import expected, numbered, refuse_anything_else, rows_of, write_archive
from tests.checkpoints import small_checkpoint_file
from tests.cli.command import tree


def counted(operations: list[str], deadly: int) -> None:
    """Make this process write down each rename and removal, and die before one of them."""

    def counting(operation: Callable[..., None]) -> Callable[..., None]:
        def call(*arguments: Any, **options: Any) -> None:
            operations.append(f"{operation.__name__} {Path(arguments[-1]).suffixes[-1]}")
            if len(operations) == deadly:
                os.kill(os.getpid(), signal.SIGKILL)
            operation(*arguments, **options)

        return call

    os.replace, os.unlink = counting(os.replace), counting(os.unlink)


def main(folder: Path) -> dict[str, Any]:
    """Kill at every rename and removal, with parts of another model there and without."""
    counts = {name: rows for name, rows in write_archive(folder / "in").items() if "/more/" in name}
    models = [small_checkpoint_file(folder / f"{name}.keras", (name, "other")) for name in ("old", "new")]
    jobs = [(Classifier(read_checkpoint(path)), hashlib.sha256(path.read_bytes()).hexdigest()) for path in models]

    def run(output: str, model: int = 1) -> int:
        parts = Folder(str(folder / output))
        parts.make()
        with parts.held("test"):
            shards = find_shards([str(folder / "in" / "more")], None, parts)
            return sum(not classify_shard(shard, Job(*jobs[model], parts)).earlier for shard in shards)

    run("old", 0)
    run("whole")
    operations, faults, output = list[str](), list[str](), folder / "out"
    for earlier in (False, True):
        for number in itertools.count(1):
            shutil.rmtree(output, ignore_errors=True)
            if earlier:
                shutil.copytree(folder / "old", output)
            child = os.fork()
            if not child:
                done = list[str]()
                counted(done, number)
                run("out")
                (folder / "operations.json").write_text(json.dumps(done))
                os._exit(0)
            _, status = os.waitpid(child, 0)
            if os.WIFEXITED(status):
                break
            rows_of(output)  # every manifest fits its part
            half_done = len(list(output.glob("_*")))
            written = run("out")
            wrong = [] if tree(output) == tree(folder / "whole") else ["other files"]
            wrong += [] if numbered(rows_of(output)) == expected(counts) else ["other rows"]
            wrong += [] if written == len(counts) - half_done or earlier else ["finished shards are done again"]
            refuse_anything_else(output)
            if wrong:
                faults.append(f"before {number}, earlier {earlier}: {wrong}")
        operations += json.loads((folder / "operations.json").read_bytes())
    return {"operations": operations, "faults": faults}


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]))))
