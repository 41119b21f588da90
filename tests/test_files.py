from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from mha_cli.errors import EXIT_FAILURE, EXIT_USAGE, MhaError
from mha_cli.files import atomic_write, locked

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

NO_SPACE = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def raises(error: BaseException) -> Callable[..., Any]:
    def fail(*_args: object) -> None:
        raise error

    return fail


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file that is there already, the only one in its folder."""
    path = tmp_path / "file.bin"
    path.write_bytes(b"earlier")
    return path


def assert_unchanged(path: Path) -> None:
    assert path.read_bytes() == b"earlier"
    assert list(path.parent.iterdir()) == [path]


def test_a_new_file(tmp_path: Path) -> None:
    with atomic_write(tmp_path / "new.bin") as file:
        file.write(b"whole")
        assert not (tmp_path / "new.bin").exists()
    assert (tmp_path / "new.bin").read_bytes() == b"whole"
    assert os.listdir(tmp_path) == ["new.bin"]


def test_the_earlier_file_stays_until_the_new_one_is_whole(path: Path) -> None:
    with atomic_write(path) as file:
        file.write(b"new")
        file.flush()
        assert path.read_bytes() == b"earlier"
    assert path.read_bytes() == b"new"
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("error", [ValueError("a fault"), KeyboardInterrupt(), SystemExit(3)])
def test_an_interruption_changes_nothing(error: BaseException, path: Path) -> None:
    with pytest.raises(type(error)), atomic_write(path) as file:
        file.write(b"half")
        raise error
    assert_unchanged(path)


@pytest.mark.parametrize("call", ["fsync", "chmod", "replace"])
def test_a_full_disk_changes_nothing(call: str, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, call, raises(NO_SPACE))
    with pytest.raises(MhaError) as raised, atomic_write(path) as file:
        file.write(b"half")
    assert str(raised.value) == f"{path}: cannot be written: No space left on device; the earlier file, if any, is unchanged"
    assert raised.value.exit_code == EXIT_FAILURE
    assert_unchanged(path)


def test_a_full_disk_in_the_middle_of_writing(path: Path) -> None:
    with pytest.raises(MhaError, match="No space left on device"), atomic_write(path) as file:
        file.write(b"half")
        raise NO_SPACE
    assert_unchanged(path)


def test_a_process_that_is_killed_in_the_middle_changes_nothing(path: Path) -> None:
    script = """
import os, signal, sys
from pathlib import Path
from mha_cli.files import atomic_write
with atomic_write(Path(sys.argv[1])) as file:
    file.write(b"half")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", script, path], check=False)
    assert done.returncode == -signal.SIGKILL
    assert path.read_bytes() == b"earlier"


def test_everything_is_on_disk_before_it_takes_its_place(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    fsync, replace = os.fsync, os.replace

    def noted_fsync(descriptor: int) -> None:
        calls.append("fsync folder" if os.path.isdir(f"/proc/self/fd/{descriptor}") else f"fsync {os.fstat(descriptor).st_size} bytes")
        fsync(descriptor)

    def noted_replace(source: str, target: Path) -> None:
        calls.append("replace")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(os, "replace", noted_replace)
    with atomic_write(path) as file:
        file.write(b"whole")
    assert calls == ["fsync 5 bytes", "replace", "fsync folder"]


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600)])
def test_the_mode_is_that_of_any_new_file(mask: int, mode: int, tmp_path: Path) -> None:
    earlier = os.umask(mask)
    try:
        with atomic_write(tmp_path / "new.bin"):
            pass
        assert os.umask(mask) == mask
    finally:
        os.umask(earlier)
    assert (tmp_path / "new.bin").stat().st_mode & 0o777 == mode


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    path = tmp_path / "no" / "file.bin"
    with pytest.raises(MhaError) as raised, atomic_write(path):
        pass
    assert str(raised.value) == (f"{path}: cannot be written: No such file or directory; choose a folder that exists and can be written to")
    assert raised.value.exit_code == EXIT_USAGE
    assert not path.parent.exists()


def test_a_folder_of_that_name(tmp_path: Path) -> None:
    (tmp_path / "file.bin").mkdir()
    with pytest.raises(MhaError, match=r"file\.bin: cannot be written: Is a directory"), atomic_write(tmp_path / "file.bin"):
        pass
    assert os.listdir(tmp_path) == ["file.bin"]


def test_a_name_that_is_too_long(tmp_path: Path) -> None:
    with pytest.raises(MhaError, match="cannot be written: File name too long"), atomic_write(tmp_path / ("a" * 255)):
        pass
    assert os.listdir(tmp_path) == []


# Locks


def test_a_lock_has_one_holder(tmp_path: Path) -> None:
    with locked(tmp_path):
        with pytest.raises(MhaError) as raised, locked(tmp_path):
            pass
        assert str(raised.value) == f"{tmp_path}: another training writes there; wait for it, or choose another folder"
    with locked(tmp_path):
        pass
    assert os.listdir(tmp_path) == []


def test_a_lock_dies_with_its_holder(tmp_path: Path) -> None:
    script = """
import os, signal, sys
from pathlib import Path
from mha_cli.files import locked
with locked(Path(sys.argv[1])):
    os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", script, tmp_path], check=False)
    assert done.returncode == -signal.SIGKILL
    with locked(tmp_path):
        pass
