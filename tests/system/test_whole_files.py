import errno
import fcntl
import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from mha_cli.errors import MhaError
from mha_cli.system.whole_files import LOCK, SHARED_LOCK, atomic_replace, atomic_write, locked
from tests.cli.command import ROOT, environment
from tests.errors import error_of


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file that is there already, the only one in its folder."""
    path = tmp_path / "file.bin"
    path.write_bytes(b"earlier")
    return path


def write(path: Path) -> None:
    with atomic_write(path) as file:
        file.write(b"new")


def lock(folder: Path, purpose: bytes = b"") -> None:
    with locked(folder, purpose):
        pass


def killed(block: str, path: Path) -> None:
    """Kill a process in the middle of a block."""
    script = "import os, signal, sys; from pathlib import Path; from mha_cli.system.whole_files import atomic_write, locked"
    script += f"\nwith {block}:\n    os.kill(os.getpid(), signal.SIGKILL)"
    assert subprocess.run([sys.executable, "-c", script, path], check=False).returncode == -signal.SIGKILL


def test_the_earlier_file_stays_until_the_new_one_is_whole(path: Path) -> None:
    for found, before in ((path, b"earlier"), (path.parent / "new.bin", None)):
        with atomic_write(found) as file:
            file.write(b"new")
            file.flush()
            assert (found.read_bytes() if found.exists() else None) == before
        assert found.read_bytes() == b"new"
    assert sorted(os.listdir(path.parent)) == ["file.bin", "new.bin"]


def test_everything_is_on_disk_before_it_takes_its_place(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    fsync, replace = os.fsync, os.replace

    def noted_fsync(descriptor: int) -> None:
        is_folder = os.path.isdir(f"/proc/self/fd/{descriptor}")
        calls.append("fsync folder" if is_folder else f"fsync {os.fstat(descriptor).st_size} bytes")
        if is_folder:
            raise OSError(errno.EINVAL, "Invalid argument")  # a file system that has nothing to sync in a folder
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(os, "replace", lambda source, target: (calls.append("replace"), replace(source, target)))
    write(path)
    assert calls == ["fsync 3 bytes", "replace", "fsync folder"]
    assert path.read_bytes() == b"new"


# What is there already


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600)])
def test_the_mode_is_that_of_any_new_file(mask: int, mode: int, tmp_path: Path) -> None:
    earlier = os.umask(mask)
    try:
        write(tmp_path / "new.bin")
        assert os.umask(mask) == mask
    finally:
        os.umask(earlier)
    assert (tmp_path / "new.bin").stat().st_mode & 0o777 == mode


def test_the_mode_and_the_owner_stay(path: Path) -> None:
    path.chmod(0o640)
    owner = (12345, 54321) if os.geteuid() == 0 else (os.geteuid(), os.getegid())
    os.chown(path, *owner)
    write(path)
    found = path.stat()
    assert (found.st_mode & 0o777, found.st_uid, found.st_gid) == (0o640, *owner)


@pytest.mark.parametrize("target", ["folder/real", "folder/new"])
def test_a_link_is_followed(target: str, path: Path) -> None:
    (path.parent / "folder").mkdir()
    (path.parent / "folder" / "real").write_bytes(b"earlier")
    (path.parent / "link").symlink_to(target)
    (path.parent / "link to link").symlink_to("link")
    write(path.parent / "link to link")
    assert (path.parent / target).read_bytes() == b"new"
    assert (path.parent / "link to link").is_symlink()
    assert (path.parent / "link").is_symlink()


@pytest.mark.parametrize("make", [lambda path: path.symlink_to("file.bin"), lambda path: path.symlink_to("nowhere"), os.mkfifo])
def test_what_is_no_file_at_a_name_that_nobody_has_given_is_replaced(make: Callable[[Path], None], path: Path) -> None:
    make(path.parent / "chosen")
    with atomic_replace(path.parent / "chosen") as file:
        file.write(b"new")
    assert stat.S_ISREG((path.parent / "chosen").lstat().st_mode)
    assert (path.parent / "chosen").read_bytes() == b"new"
    assert path.read_bytes() == b"earlier"
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


def test_an_earlier_file_survives_every_fault(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.system.faults", tmp_path]
    found = json.loads(subprocess.run(command, capture_output=True, check=True, cwd=ROOT, env=environment()).stdout)
    operations, reason = found["operations"], "No space left on device"
    assert {"open", "write", "fsync", "chmod", "replace", "close"} == set(operations)
    for case in found["cases"]:
        in_place, killed = case["when"] > operations.index("replace"), case["fault"] == "killed"
        error = f"{tmp_path}/file.bin: cannot be written: {reason}; the earlier file, if any, is unchanged"
        if in_place:
            error = f"{tmp_path}/file.bin: written, but the disk does not confirm it: {reason}; check the disk"
        assert case["told"] == ([] if killed else [error]), case
        assert case["is new"] == in_place, case
        assert case["left"] == (killed and not in_place and case["when"] > 0), case


def test_the_lock_of_a_folder_removes_the_unfinished_file_of_a_killed_process(path: Path) -> None:
    killed("atomic_write(Path(sys.argv[1]))", path)
    assert len(os.listdir(path.parent)) == 2
    for name in (".mha-notes", "mha-mine.tmp"):
        (path.parent / name).touch()
    with locked(path.parent):
        assert sorted(os.listdir(path.parent)) == sorted([".mha-notes", LOCK, "file.bin", "mha-mine.tmp"])


# Locks


def test_a_lock_has_one_holder_or_several_of_one_purpose(tmp_path: Path) -> None:
    with locked(tmp_path):
        assert error_of(lock, tmp_path) == f"{tmp_path}: another training writes there; wait for it, or choose another folder"
    with locked(tmp_path, b"one"):
        lock(tmp_path, b"one")
        for purpose in (b"on", b"one more", b"two"):
            assert error_of(lock, tmp_path, purpose).startswith(f"{tmp_path}: another batch writes there, of another model")
    lock(tmp_path)
    lock(tmp_path, b"two")
    assert os.listdir(tmp_path) == []


def test_a_lock_outlives_the_first_holder(tmp_path: Path) -> None:
    with ExitStack() as second:
        with locked(tmp_path, b"one"):
            second.enter_context(locked(tmp_path, b"one"))
        with pytest.raises(MhaError, match="another batch"):
            lock(tmp_path, b"two")
    assert os.listdir(tmp_path) == []


def test_a_lock_whose_file_has_just_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flock, gone = fcntl.flock, list[int]()

    def lock_too_late(descriptor: int, how: int) -> None:
        if not gone:
            gone.append(os.unlink(tmp_path / SHARED_LOCK) or descriptor)
        flock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", lock_too_late)
    with locked(tmp_path, b"one"), pytest.raises(MhaError, match="another batch"):
        lock(tmp_path, b"two")


@pytest.mark.parametrize("purpose", [b"", b"other"])
def test_a_lock_dies_with_its_holder(purpose: bytes, tmp_path: Path) -> None:
    killed(f"locked(Path(sys.argv[1]), {purpose!r})", tmp_path)
    with locked(tmp_path), locked(tmp_path, b"one"):
        pass


def test_a_lock_that_leads_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("precious")
    (tmp_path / LOCK).symlink_to("precious")
    assert error_of(lock, tmp_path) == f"{tmp_path}: cannot be written to: Too many levels of symbolic links; choose another folder"
    assert (tmp_path / "precious").read_text() == "precious"
