"""Which processes train one model together, as ``TF_CONFIG`` or SLURM's ``srun`` says it. TensorFlow comes later."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mha_cli.errors import MhaError, printable

JOBS = ("chief", "worker")  # jobs of a cluster whose tasks train, in the order of their numbers


@dataclass(frozen=True)
class Task:
    """A process among those that train together: its number, 0 for the chief, of how many, and the environment that says so."""

    index: int = 0
    num_workers: int = 1
    environment: str = ""

    @property
    def is_chief(self) -> bool:
        """Whether this process writes the run directory."""
        return self.index == 0


ALONE = Task()


def task_of(distribution: str, environment: Mapping[str, str] = os.environ) -> Task:
    """The task of this process, by ``training.distribution``."""
    if distribution not in ("multi-worker", "auto"):
        return ALONE
    if environment.get("TF_CONFIG"):
        return _tf_config_task(environment["TF_CONFIG"])
    number, count = environment.get("SLURM_PROCID", ""), environment.get("SLURM_STEP_NUM_TASKS", "")
    if number.isdecimal() and count.isdecimal() and int(count) > 1:
        return Task(int(number), int(count), "SLURM")
    if distribution == "multi-worker":
        message = "training.distribution=multi-worker: neither TF_CONFIG nor srun names the workers"
        raise MhaError(message, "see docs/scale.md, or take none")
    return ALONE


def _tf_config_task(text: str) -> Task:
    try:
        value: Any = json.loads(text)
        cluster, task = value["cluster"], value["task"]
        tasks = [(job, index) for job in JOBS for index in range(len(cluster.get(job, [])))]
        if not cluster.keys() <= {*JOBS} or ("chief", 1) in tasks:
            raise ValueError
        number = tasks.index((task["type"], task["index"]))
    except (AttributeError, KeyError, TypeError, ValueError):
        hint = 'it is {"cluster": {"worker": ["HOST:PORT", …]}, "task": {"type": "worker", "index": 0}}'
        raise MhaError(f"TF_CONFIG names no task of one chief and workers: {printable(text, 200)}", hint) from None
    return Task(number, len(tasks), "TF_CONFIG") if len(tasks) > 1 else ALONE
