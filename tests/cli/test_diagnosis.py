from __future__ import annotations

from pathlib import Path

import pytest

from mha_cli.checkpoint.runs import PACKAGED
from mha_cli.cli.diagnosis import Place, diagnose

CPU = "processor\t: 0\nflags\t\t: fpu sse amx_bf16 avx512_bf16 amx_tile\n\nprocessor\t: 1\nflags\t\t: fpu\n"
MEMORY = "MemTotal:       24684000 kB\nMemFree:         100 kB\nMemAvailable:   21000000 kB\n"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file system with the files that Linux tells of the machine."""
    monkeypatch.chdir(tmp_path)
    for name, text in {
        "proc/cpuinfo": CPU,
        "proc/meminfo": MEMORY,
        "proc/self/cgroup": "0::/outer/inner\n",
        "sys/fs/cgroup/outer/memory.max": "2000000000\n",
        "sys/fs/cgroup/outer/inner/memory.max": "max\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_the_machine(root: Path) -> None:
    found = diagnose(root=root, environment={})
    assert found.bfloat16 == ("amx_bf16", "avx512_bf16")
    assert (found.memory_bytes, found.memory_available_bytes) == (24_684_000 * 1024, 21_000_000 * 1024)
    assert found.memory_limit_bytes == 2_000_000_000


def test_places(root: Path) -> None:
    data, checkpoint, runs, packaged = diagnose(root=root, environment={}).places
    assert (data.path, data.named_by) == (str(Path("~/tensorflow_datasets").expanduser()), "default")
    assert checkpoint == Place("checkpoint", None, "MHA_CHECKPOINT", False)
    assert runs == Place("trained runs", str(root / "runs"), "default", False, 0)
    assert packaged == Place("model that comes with mha", str(PACKAGED), "default", True)
    (root / "a.keras").touch()
    (root / "runs" / "a").mkdir(parents=True)
    (root / "runs" / "a" / "checkpoint.keras").touch()
    data, checkpoint, runs, _ = diagnose(root=root, environment={"TFDS_DATA_DIR": str(root), "MHA_CHECKPOINT": "a.keras"}).places
    assert data == Place("TensorFlow Datasets", str(root), "TFDS_DATA_DIR", True)
    assert checkpoint == Place("checkpoint", "a.keras", "MHA_CHECKPOINT", True)
    assert runs == Place("trained runs", str(root / "runs"), "default", True, 1)
