"""How much memory there is, by what Linux writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from mha_cli.system import memory


@pytest.fixture(autouse=True)
def nothing_tells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "MEMORY_INFO", tmp_path / "meminfo")
    monkeypatch.setattr(memory, "CONTROL_GROUP", tmp_path / "cgroup")
    (tmp_path / "cgroup" / "memory").mkdir(parents=True)


def write(path: Path, text: str) -> None:
    path.write_text(text)


def test_nothing_tells() -> None:
    assert memory.available_memory() is None


def test_the_machine(tmp_path: Path) -> None:
    write(tmp_path / "meminfo", "MemTotal:  24000000 kB\nMemFree:  1 kB\nMemAvailable:  2000 kB\n")
    assert memory.available_memory() == 2000 * 1024


@pytest.mark.parametrize(
    ("limit", "used"), [("memory.max", "memory.current"), ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes")]
)
def test_a_container(tmp_path: Path, limit: str, used: str) -> None:
    write(tmp_path / "meminfo", "MemAvailable:  2000 kB\n")
    write(tmp_path / "cgroup" / limit, "900000\n")
    write(tmp_path / "cgroup" / used, "400000\n")
    assert memory.available_memory() == 500_000


def test_a_container_without_a_limit(tmp_path: Path) -> None:
    write(tmp_path / "meminfo", "MemAvailable:  2000 kB\n")
    write(tmp_path / "cgroup" / "memory.max", "max\n")
    write(tmp_path / "cgroup" / "memory.current", "400000\n")
    assert memory.available_memory() == 2000 * 1024
