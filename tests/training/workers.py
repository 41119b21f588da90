"""Workers of one training on this machine: their environment, and what one of them does as a program of its own.

``python -m tests.training.workers FOLDER`` trains by FOLDER/config.yaml and writes FOLDER/found-INDEX.json.
"""

import dataclasses
import hashlib
import json
import socket
import sys
from contextlib import ExitStack
from pathlib import Path

from mha_cli.config.loading import load_config
from mha_cli.system.callbacks import SILENT, StepProgress
from mha_cli.system.cluster import task_of


def environments(number: int) -> list[dict[str, str]]:
    """TF_CONFIG of every worker, with ports that the kernel gives."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(number)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        addresses = [f"127.0.0.1:{each.getsockname()[1]}" for each in sockets]
    tasks = [{"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}} for index in range(number)]
    return [{"TF_CONFIG": json.dumps(task)} for task in tasks]


def main(folder: Path) -> None:
    """Train, and write the loss after every step and a digest of the weights in the end."""
    from mha_cli.training import run
    from mha_cli.training.trainer import Trainer
    from tests.training.interruptions import train

    made: list[Trainer] = []

    class KeptTrainer(Trainer):
        def __init__(self, *args: object, **kwargs: object) -> None:
            super().__init__(*args, **kwargs)  # type: ignore[arg-type]
            made.append(self)

    run.Trainer = KeptTrainer  # type: ignore[misc]
    losses: list[float] = []

    def on_step(progress: StepProgress) -> None:
        losses.append(progress.loss)

    config = load_config(folder / "config.yaml")
    index = task_of(config.training.distribution).index
    train(config, folder / f"run-{index}", dataclasses.replace(SILENT, on_step=on_step))
    digest = hashlib.sha256(b"".join(weight.tobytes() for weight in made[-1].weights().values())).hexdigest()
    (folder / f"found-{index}.json").write_text(json.dumps({"losses": losses, "digest": digest}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
