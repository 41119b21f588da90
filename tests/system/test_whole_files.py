from __future__ import annotations

import errno
import fcntl
import json
import os
import signal
import stat
import subprocess
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from mha_cli.errors import EXIT_FAILURE, EXIT_USAGE, MhaError
from mha_cli.system.whole_files import LOCK, SHARED_LOCK, atomic_write, locked, shared
from tests.cli.command import ROOT, environment

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


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


def test_a_folder_that_cannot_be_synced(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fsync = os.fsync

    def fails(number: int) -> Callable[[int], None]:
        def call(descriptor: int) -> None:
            if os.path.isdir(f"/proc/self/fd/{descriptor}"):
                raise OSError(number, os.strerror(number))
            fsync(descriptor)

        return call

    monkeypatch.setattr(os, "fsync", fails(errno.EIO))
    with pytest.raises(MhaError) as raised, atomic_write(path) as file:
        file.write(b"new")
    assert str(raised.value) == f"{path}: written, but the disk does not confirm it: Input/output error; check the disk"
    assert raised.value.exit_code == EXIT_FAILURE
    assert path.read_bytes() == b"new"
    monkeypatch.setattr(os, "fsync", fails(errno.EINVAL))  # file systems that have nothing to sync there
    with atomic_write(path) as file:
        file.write(b"newer")
    assert path.read_bytes() == b"newer"


def test_the_lock_of_a_folder_removes_the_unfinished_file_of_a_killed_process(path: Path) -> None:
    script = """
import os, signal, sys
from pathlib import Path
from mha_cli.system.whole_files import atomic_write
with atomic_write(Path(sys.argv[1])) as file:
    os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", script, path], check=False)
    assert done.returncode == -signal.SIGKILL
    assert len(os.listdir(path.parent)) == 2
    for name in (".mha-notes", "mha-mine.tmp"):
        (path.parent / name).touch()
    with locked(path.parent):
        assert sorted(os.listdir(path.parent)) == sorted([".mha-notes", LOCK, "file.bin", "mha-mine.tmp"])


# What is there already


def test_the_mode_and_the_owner_stay(path: Path) -> None:
    path.chmod(0o640)
    owner = (12345, 54321) if os.geteuid() == 0 else (os.geteuid(), os.getegid())
    os.chown(path, *owner)
    with atomic_write(path) as file:
        file.write(b"new")
    found = path.stat()
    assert (found.st_mode & 0o777, found.st_uid, found.st_gid) == (0o640, *owner)


@pytest.mark.parametrize("target", ["folder/real", "folder/new"])
def test_a_link_is_followed(target: str, path: Path) -> None:
    (path.parent / "folder").mkdir()
    (path.parent / "folder" / "real").write_bytes(b"earlier")
    (path.parent / "link").symlink_to(target)
    (path.parent / "link to link").symlink_to("link")
    with atomic_write(path.parent / "link to link") as file:
        file.write(b"new")
    assert (path.parent / target).read_bytes() == b"new"
    assert (path.parent / "link to link").is_symlink()
    assert (path.parent / "link").is_symlink()


@pytest.mark.parametrize("make", [lambda path: path.symlink_to("real"), lambda path: path.symlink_to("nowhere"), os.mkfifo])
def test_what_is_no_file_at_a_name_that_nobody_has_given_is_replaced(make: Callable[[Path], None], path: Path) -> None:
    (path.parent / "real").write_bytes(b"earlier")
    make(path.parent / "chosen")
    with atomic_write(path.parent / "chosen", follow=False) as file:
        file.write(b"new")
    assert stat.S_ISREG((path.parent / "chosen").lstat().st_mode)
    assert (path.parent / "chosen").read_bytes() == b"new"
    assert (path.parent / "real").read_bytes() == b"earlier"
    assert not (path.parent / "nowhere").exists()


def test_a_pipe_is_written_to(path: Path) -> None:
    os.mkfifo(path.parent / "pipe")
    with open(os.open(path.parent / "pipe", os.O_RDONLY | os.O_NONBLOCK), "rb") as reader:
        with atomic_write(path.parent / "pipe") as file:
            file.write(b"at ")
            assert reader.read() == b"at "
            file.write(b"once")
        assert reader.read() == b"once"
    assert stat.S_ISFIFO((path.parent / "pipe").stat().st_mode)
    assert set(path.parent.iterdir()) == {path, path.parent / "pipe"}


# Faults


def test_an_earlier_checkpoint_survives_every_fault(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.system.faults", tmp_path], capture_output=True, check=True, cwd=ROOT, env=environment()
    )
    answer = json.loads(done.stdout)
    operations = answer["operations"]
    assert {"open", "write", "fsync", "chmod", "replace", "close"} == set(operations)
    replaced = operations.index("replace")
    reasons = {"ENOSPC": "No space left on device", "EIO": "Input/output error"}
    for case in answer["cases"]:
        when, fault, result, killed = case["when"], case["fault"], case["result"], case["fault"].startswith("killed")
        in_place = when > replaced or (when == replaced and fault == "killed after")
        if killed:
            assert result == f"signal {signal.SIGKILL:d}", case
        elif fault == "short":
            assert result == "saved", case
        elif in_place:
            assert result.startswith(f"1 {tmp_path}/a.keras: written, but the disk does not confirm it: {reasons[fault]}"), case
        else:
            told = f"{tmp_path}/a.keras: cannot be written: {reasons[fault]}; the earlier file, if any, is unchanged"
            assert result == f"1 {told}", case
        assert case["state"] == ("new" if in_place or result == "saved" else "earlier"), case
        assert len(case["left"]) == (killed and not in_place and (when, fault) != (0, "killed before")), case
        assert case["left when locked"] == [], case


# Locks


def test_a_lock_has_one_holder(tmp_path: Path) -> None:
    with locked(tmp_path):
        with pytest.raises(MhaError) as raised, locked(tmp_path):
            pass
        assert str(raised.value) == f"{tmp_path}: another training writes there; wait for it, or choose another folder"
    with locked(tmp_path):
        pass
    assert os.listdir(tmp_path) == []


def test_a_shared_lock_has_holders_of_one_purpose(tmp_path: Path) -> None:
    with shared(tmp_path, b"one"):
        with shared(tmp_path, b"one"):
            pass
        for purpose in (b"on", b"one more", b"two"):
            with pytest.raises(MhaError) as raised, shared(tmp_path, purpose):
                pass
            assert str(raised.value).startswith(f"{tmp_path}: another batch writes there, of another model, format or column; wait")
    with shared(tmp_path, b"two"):
        pass
    assert os.listdir(tmp_path) == []


def test_a_shared_lock_outlives_the_first_holder(tmp_path: Path) -> None:
    with ExitStack() as second:
        with shared(tmp_path, b"one"):
            second.enter_context(shared(tmp_path, b"one"))
        with pytest.raises(MhaError, match="another batch"), shared(tmp_path, b"two"):
            pass
    assert os.listdir(tmp_path) == []


def test_a_shared_lock_whose_file_has_just_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock, gone = fcntl.flock, list[int]()

    def lock_too_late(descriptor: int, how: int) -> None:
        if not gone:
            gone.append(os.unlink(tmp_path / SHARED_LOCK) or descriptor)
        lock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", lock_too_late)
    with shared(tmp_path, b"one"), pytest.raises(MhaError, match="another batch"), shared(tmp_path, b"two"):
        pass


@pytest.mark.parametrize("lock", ["locked(folder)", "shared(folder, b'other')"])
def test_a_lock_dies_with_its_holder(lock: str, tmp_path: Path) -> None:
    script = f"""
import os, signal, sys
from pathlib import Path
from mha_cli.system.whole_files import locked, shared
folder = Path(sys.argv[1])
with {lock}:
    os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", script, tmp_path], check=False)
    assert done.returncode == -signal.SIGKILL
    with locked(tmp_path), shared(tmp_path, b"one"):
        pass


def test_a_lock_whose_holder_has_just_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = fcntl.flock

    def lock_too_late(descriptor: int, how: int) -> None:
        (tmp_path / LOCK).unlink()
        lock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", lock_too_late)
    with pytest.raises(MhaError, match="another training writes there"), locked(tmp_path):
        pass


def test_a_lock_that_leads_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("precious")
    (tmp_path / LOCK).symlink_to("precious")
    with pytest.raises(MhaError) as raised, locked(tmp_path):
        pass
    assert str(raised.value) == f"{tmp_path}: cannot be written to: Too many levels of symbolic links; choose another folder"
    assert (tmp_path / "precious").read_text() == "precious"
