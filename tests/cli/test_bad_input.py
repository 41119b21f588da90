"""Whatever a user gets wrong: one line that says what, where and what to do, the right exit code, and nothing is written or lost."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

import pytest

from tests.checkpoints import members_of, rewrite, small_checkpoint_file, write_archive
from tests.cli.bad_input import SECTIONS, Case
from tests.cli.command import COMMAND, TIMEOUT, Result, environment, run_here, run_mha, tree

if TYPE_CHECKING:
    from pathlib import Path

    from _pytest.mark.structures import ParameterSet

STARTS = ("KERAS", "LANG", "LC_", "PYTHON")
"""How environment variables begin that count before a command comes to its own code."""
INSTALLED = [COMMAND[0], "-P", *COMMAND[1:]]
"""As the script ``mha`` runs: the current folder is none that modules come from."""


SURROUNDINGS = ("Environment", "Limits")
"""Sections whose cases start Python anew, but for the first of each left out of the default run."""


def param(section: str, number: int, case: Case) -> ParameterSet:
    waits_for_tensorflow = case.shell and case.args.startswith("evaluate") and case.code == 0
    long = waits_for_tensorflow or (section in SURROUNDINGS and number > 0) or case.args.startswith("serve")  # needs an extra
    return pytest.param(case, id=f"{section}: {case.given}", marks=[pytest.mark.process] if long else [])


CASES = [param(section, number, case) for section, cases in SECTIONS.items() for number, case in enumerate(cases)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with runs that must not be lost and checkpoints that are none."""
    for name in ("finished/metrics.json", "unfinished/config.yaml", "mine/notes.txt"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text("precious")
    (tmp_path / "file").write_text("precious")
    for name in ("loop", "loop.png"):
        (tmp_path / name).symlink_to(name)
    small_checkpoint_file(tmp_path / "good.keras")
    (tmp_path / "tried").mkdir()
    shutil.copy(tmp_path / "good.keras", tmp_path / "tried" / "checkpoint.keras")
    whole = (tmp_path / "good.keras").read_bytes()
    members = members_of(tmp_path / "good.keras")
    (tmp_path / "text.keras").write_text("The film was superb.\n")
    (tmp_path / "empty.keras").touch()
    (tmp_path / "folder.keras").mkdir()
    (tmp_path / "cut.keras").write_bytes(whole[: len(whole) // 2])
    flipped = bytearray(whole)
    flipped[whole.index(members["model.weights.h5"]) + 4000] ^= 1
    (tmp_path / "flipped.keras").write_bytes(flipped)
    write_archive(tmp_path / "plain.keras", {"hello.txt": b"hello"})
    write_archive(tmp_path / "keras.keras", {name: members[name] for name in ("metadata.json", "config.json", "model.weights.h5")})
    write_archive(tmp_path / "extra.keras", members | {"extra.py": b"import os"})
    (tmp_path / "two.keras").write_bytes(whole + whole)
    (tmp_path / "newer.keras").write_bytes(whole)
    rewrite(tmp_path / "newer.keras", format=4)
    (tmp_path / "half.keras").write_bytes(whole)
    rewrite(tmp_path / "half.keras", class_names=["a", "\ud800"])
    return tmp_path


def run_case(case: Case, args: str, cwd: Path, monkeypatch: pytest.MonkeyPatch) -> Result:
    if not case.shell and args.startswith("batch"):  # it forks, which this process with its many threads does not survive
        return run_mha(*shlex.split(args), cwd=cwd)
    if not case.shell:
        return run_here(*shlex.split(args), cwd=cwd, monkeypatch=monkeypatch)
    if case.shell == '"$@"' and not any(name.startswith(STARTS) for name in case.env):
        return run_mha(*shlex.split(args), cwd=cwd, stdin=case.stdin, env=case.env)
    done = subprocess.run(
        ["sh", "-c", case.shell, "sh", *INSTALLED, *shlex.split(args)],
        input=case.stdin,
        capture_output=True,
        cwd=cwd,
        env=environment(case.env),
        timeout=TIMEOUT,
        check=False,
    )
    return Result(done.returncode, done.stdout.decode(), done.stderr.decode())


@pytest.mark.skipif(sys.platform != "linux", reason="the devices, limits and words of Linux")
@pytest.mark.usefixtures("untraced")
@pytest.mark.parametrize("case", CASES)
def test_every_row_of_the_table(case: Case, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if case.args.startswith("serve"):
        pytest.importorskip("fastapi")
        pytest.importorskip("uvicorn")
    for name, content in case.files.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    (folder / "finished" / "out").touch()
    before = tree(folder)
    for args in (case.args, *case.also):
        result = run_case(case, args, folder, monkeypatch)
        assert result.code == case.code, result
        assert fnmatchcase(result.stdout, case.stdout), result
        assert "Traceback" not in result.stderr
        assert "fault in mha" not in result.stderr
        if case.message.startswith("works"):
            assert result.stderr == ""
        elif "Fatal Python error" not in case.message:  # before any line of ours runs
            assert result.stderr.endswith("\n")
            *told, last = result.stderr.removesuffix("\n").split("\n")
            assert set(told) <= {"starting TensorFlow"}
            assert last.isprintable()
            pattern = ".*".join(map(re.escape, case.message.split("…")))
            assert re.fullmatch(pattern, last.removeprefix("error: ")), last
            assert last.startswith("error: ") == (case.code != 0)
    assert tree(folder) == before


def test_no_row_stands_twice() -> None:
    for section, cases in SECTIONS.items():
        given = [case.given for case in cases]
        assert len(given) == len(set(given)), section
