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
        cluster, job, index = value["cluster"], value["task"]["type"], value["task"]["index"]
        sizes = [len(cluster.get(name, [])) for name in JOBS]
        if job not in JOBS or not set(cluster) <= set(JOBS) or sizes[0] > 1:
            raise ValueError(f"a task {job} of {', '.join(cluster)}; jobs that train are one chief and workers")
        if type(index) is not int or not 0 <= index < sizes[JOBS.index(job)]:
            raise ValueError(f"task {index} of {sizes[JOBS.index(job)]} of the job {job}; tasks are counted from 0")
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        problem = f"no {error}" if isinstance(error, KeyError) else error
        hint = 'it is {"cluster": {"worker": ["HOST:PORT", …]}, "task": {"type": "worker", "index": 0}}'
        raise MhaError(f"TF_CONFIG: {printable(str(problem), 200)}", hint) from None
    number = index + (sizes[0] if job == "worker" else 0)
    return Task(number, sum(sizes), "TF_CONFIG") if sum(sizes) > 1 else ALONE
