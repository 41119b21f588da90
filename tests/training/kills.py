"""Kills a training in NumPy before each of its renames, and lets it go on.

    python -m tests.training.kills FOLDER

Its state is saved after every step. Each training that is killed is a process of its own, so that the kill is real. Prints a JSON object:
what an undisturbed run renames, and what was wrong after each kill.
"""

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mha_cli.runs import CONFIG
from mha_cli.training import run_files
from tests.training.interruptions import difference, train
from tests.training.numpy_trainer import in_numpy, numpy_config, numpy_data

EPOCHS = 2


def counted(replace: Callable[..., None], deadly: int) -> tuple[Callable[..., None], list[Any]]:
    """``os.replace`` that kills this process at its call number ``deadly``, and the calls so far."""
    calls: list[Any] = []

    def call(*arguments: Any) -> None:
        calls.append(arguments)
        if len(calls) == deadly:
            os.kill(os.getpid(), signal.SIGKILL)
        replace(*arguments)

    return call, calls


def main(folder: Path) -> dict[str, Any]:
    in_numpy(setattr)
    run_files.LEAST_SECONDS, run_files.MOST_SHARE = 0.0, 1e9  # a save after every step
    config, data, replace = numpy_config(epochs=EPOCHS), numpy_data(), os.replace
    os.replace, renames = counted(replace, 0)
    train(config, folder / "whole", data=data)
    os.replace, faults, output = replace, [], folder / "run"
    names = [Path(target).name for _, target in renames]
    for number, name in enumerate(names, start=1):  # what is on disk after a rename is also there before the next
        child = os.fork()
        if not child:
            os.replace, _ = counted(replace, number)
            train(config, output, data=data)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        wrong = [] if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL else [f"status {status}"]
        if not (output / CONFIG).exists():  # before the first rename there is no run
            shutil.rmtree(output)
        train(config, output, data=data, resume=output.exists())
        wrong += [difference(folder / "whole", output), *(path.name for path in output.rglob("*.tmp"))]
        if any(wrong):
            faults.append(f"before {name}, rename {number}: {wrong}")
        shutil.rmtree(output)
    return {"renames": names, "faults": faults}


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]))))
