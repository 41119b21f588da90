"""Whatever a user gets wrong: one line that says what, where and what to do, the right exit code, and nothing is written or lost."""

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from _pytest.mark.structures import ParameterSet

from tests.checkpoints import rewrite, small_checkpoint_file
from tests.cli.bad_input import ALWAYS, SECTIONS, Case
from tests.cli.command import COMMAND, TIMEOUT, Result, environment, run_here, run_mha, tree

INSTALLED = [COMMAND[0], "-P", *COMMAND[1:]]  # as the script ``mha`` runs: no module comes from the current folder


def param(section: str, number: int, case: Case) -> ParameterSet:
    """A row as a parameter; in the default run, one row is enough of those that start Python anew only for their environment."""
    long = (section == "Environment" and number > 0 and case.shell) or case.args.startswith("serve")  # needs an extra
    return pytest.param(case, id=f"{section}: {case.given or case.args}", marks=[pytest.mark.process] if long else [])


CASES = [param(section, number, case) for section, cases in SECTIONS.items() for number, case in enumerate(cases)]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of every row: among them runs that must not be lost, and checkpoints that are none."""
    folder = tmp_path_factory.mktemp("template")
    write(folder, ALWAYS | dict.fromkeys(("finished/metrics.json", "unfinished/config.yaml", "mine/notes.txt", "file"), "precious"))
    write(folder, {"reviews.keras": "The film was superb.\n"})
    for name in ("loop", "loop.png"):
        (folder / name).symlink_to(name)
    small_checkpoint_file(folder / "good.keras")
    (folder / "tried").mkdir()
    shutil.copy(folder / "good.keras", folder / "tried" / "checkpoint.keras")
    shutil.copy(folder / "good.keras", folder / "newer.keras")
    rewrite(folder / "newer.keras", format=4)
    return folder


def write(folder: Path, files: Mapping[str, str | bytes]) -> None:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())


def run_case(case: Case, args: str, cwd: Path) -> Result:
    if not case.shell and args.startswith("batch"):  # it forks, which this process with its many threads does not survive
        return run_mha(*shlex.split(args), cwd=cwd)
    if not case.shell:
        return run_here(*shlex.split(args), cwd=cwd, stdin=case.stdin, env=case.env)
    command = ["sh", "-c", case.shell, "sh", *INSTALLED, *shlex.split(args)]
    done = subprocess.run(command, input=case.stdin, capture_output=True, cwd=cwd, env=environment(case.env), timeout=TIMEOUT, check=False)
    return Result(done.returncode, done.stdout.decode(), done.stderr.decode())


@pytest.mark.skipif(sys.platform != "linux", reason="the devices, limits and words of Linux")
@pytest.mark.parametrize("case", CASES)
def test_every_row_of_the_table(case: Case, template: Path, tmp_path: Path) -> None:
    if case.args.startswith("serve"):
        pytest.importorskip("fastapi")
        pytest.importorskip("uvicorn")
    folder = shutil.copytree(template, tmp_path / "cwd", symlinks=True)
    write(folder, case.files)
    before = tree(folder)
    for args in (case.args, *case.also):
        result = run_case(case, args, folder)
        assert (result.code, fnmatchcase(result.stdout, case.stdout)) == (case.code, True), (args, result)
        if case.message == "works":
            assert result.stderr == ""
            continue
        *told, last = result.stderr.removesuffix("\n").split("\n")
        assert set(told) <= {"starting TensorFlow"}, result
        assert last.isprintable()
        pattern = ".*".join(map(re.escape, case.message.split("…")))
        assert re.fullmatch(pattern, last.removeprefix("error: ")), (args, last)
        assert last.startswith("error: ") == (case.code != 0)
        assert "fault in mha" not in last
    assert tree(folder) == before
