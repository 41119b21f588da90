"""Which task a process has, from the environment of TensorFlow and of SLURM."""

import json
from typing import Any

import pytest

from mha_cli.system.cluster import ALONE, Task, task_of
from tests.errors import error_of

WORKERS = {"cluster": {"worker": ["a:1", "b:2", "c:3"]}, "task": {"type": "worker", "index": 2}}
SRUN = {"SLURM_PROCID": "3", "SLURM_STEP_NUM_TASKS": "5"}
FORM = 'it is {"cluster": {"worker": ["HOST:PORT", …]}, "task": {"type": "worker", "index": 0}}'


def tf_config(value: Any) -> dict[str, str]:
    return {"TF_CONFIG": value if isinstance(value, str) else json.dumps(value)}


def test_tf_config_comes_before_srun() -> None:
    for distribution in ("multi-worker", "auto"):
        assert task_of(distribution, tf_config(WORKERS) | SRUN) == Task(2, 3, "TF_CONFIG")
        assert task_of(distribution, SRUN) == Task(3, 5, "SLURM")
        assert task_of(distribution, tf_config({"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 0}})) is ALONE
    assert task_of("mirrored", {"TF_CONFIG": "nonsense", **SRUN}) is ALONE


def test_a_chief_comes_before_the_workers() -> None:
    cluster = {"worker": ["a:1", "b:2"], "chief": ["c:3"]}
    tasks = [("chief", 0), ("worker", 0), ("worker", 1)]
    found = [task_of("auto", tf_config({"cluster": cluster, "task": {"type": job, "index": index}})) for job, index in tasks]
    assert found == [Task(number, 3, "TF_CONFIG") for number in range(3)]
    assert [task.is_chief for task in found] == [True, False, False]


def test_nobody_names_workers() -> None:
    assert task_of("auto", {"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1"}) is ALONE
    message = "training.distribution=multi-worker: neither TF_CONFIG nor srun names the workers; see docs/scale.md, or take none"
    assert error_of(task_of, "multi-worker", {}) == message


@pytest.mark.parametrize(
    "value",
    [
        *("{", [], {"cluster": {"worker": ["a:1"]}}, {"cluster": [], "task": 1}, {**WORKERS, "cluster": {"worker": 5}}),
        *(
            {**WORKERS, "task": task}
            for task in ({"type": "worker", "index": 3}, {"type": "ps", "index": 0}, {"type": "worker", "index": "2"})
        ),
        *({**WORKERS, "cluster": WORKERS["cluster"] | other} for other in ({"ps": ["b:2"]}, {"chief": ["b:2", "c:3"]})),
    ],
)
def test_a_tf_config_that_is_wrong(value: Any) -> None:
    text = tf_config(value)
    assert error_of(task_of, "auto", text) == f"TF_CONFIG names no task of one chief and workers: {text['TF_CONFIG']}; {FORM}"
