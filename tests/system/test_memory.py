"""The memory that Linux reports; `mha doctor` and the check before a training read the same."""

from pathlib import Path

import pytest

from mha_cli.report.diagnosis import diagnose
from mha_cli.system.memory import available_memory, memory_limit

GB = 1_000_000_000
MACHINE = {"proc/meminfo": "MemTotal:  24000000 kB\nMemFree:  1 kB\nMemAvailable:  21000000 kB\n"}
FREE = 21_000_000 * 1024
IN_A_GROUP = {"proc/self/cgroup": "0::/outer/inner\n"}
IN_A_GROUP_OF_VERSION_1 = {"proc/self/cgroup": "5:cpu,cpuacct:/elsewhere\n4:memory:/outer/inner\n1:name=systemd:/\n"}


def version_2(group: str, limit: int | str, used: int, of_files: int = 0) -> dict[str, str]:
    """The files of a control group, of whose memory some holds files that nobody uses."""
    folder = f"sys/fs/cgroup/{group}"
    told = f"anon {used - of_files}\ninactive_file {of_files}\nactive_file 7\n"
    return {f"{folder}/memory.max": f"{limit}\n", f"{folder}/memory.current": f"{used}\n", f"{folder}/memory.stat": told}


def version_1(group: str, limit: int, used: int, of_files: int = 0) -> dict[str, str]:
    """The files of a control group of version 1, whose limit is a large number where there is none."""
    folder = f"sys/fs/cgroup/memory/{group}"
    told = f"inactive_file 7\ntotal_inactive_file {of_files}\n"
    return {f"{folder}/memory.limit_in_bytes": f"{limit}\n", f"{folder}/memory.usage_in_bytes": f"{used}\n", f"{folder}/memory.stat": told}


TREES: dict[str, tuple[dict[str, str], int | None, int | None]] = {
    "nothing tells": ({}, None, None),
    "a container that sees itself as the outermost group": ({**MACHINE, **version_2(".", 3 * GB, 3 * GB, of_files=2 * GB)}, 3 * GB, 2 * GB),
    "a container of version 1 that has read files": ({**MACHINE, **version_1(".", 3 * GB, 3 * GB, of_files=2 * GB)}, 3 * GB, 2 * GB),
    "no limit": ({**MACHINE, **IN_A_GROUP, **version_2("outer/inner", "max", GB), **version_2("outer", "max", GB)}, None, FREE),
    "the lowest limit is not the one that leaves least": (
        {**MACHINE, **IN_A_GROUP, **version_2("outer/inner", 5 * GB, GB), **version_2("outer", 7 * GB, 6 * GB)},
        5 * GB,
        GB,
    ),
    "groups within each other of version 1": (
        {**MACHINE, **IN_A_GROUP_OF_VERSION_1, **version_1("outer/inner", 5 * GB, GB), **version_1("elsewhere", GB, GB)},
        5 * GB,
        4 * GB,
    ),
    "a limit above what is free": ({**MACHINE, **IN_A_GROUP, **version_2("outer", 500 * GB, GB)}, 500 * GB, FREE),
}
"""Files, the limit, and what may still be taken."""


@pytest.mark.parametrize(("files", "limit", "available"), TREES.values(), ids=TREES)
def test_the_limit_that_doctor_shows_is_the_one_that_the_check_heeds(
    files: dict[str, str], limit: int | None, available: int | None, tmp_path: Path
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    found = diagnose(root=tmp_path)
    assert found["memory_limit_bytes"] == memory_limit(tmp_path) == limit
    assert found["memory_bytes"] == (24_000_000 * 1024 if "proc/meminfo" in files else None)
    assert available_memory(tmp_path) == available
