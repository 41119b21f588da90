import ast
import os
import re
import shlex
import signal
import subprocess
import sys
import tomllib
from itertools import chain
from pathlib import Path
from subprocess import PIPE

import pytest

import mha_cli
from mha_cli.cli.app import missing_package
from mha_cli.cli.command import load_command
from tests.checkpoints import small_checkpoint_file
from tests.cli.command import (
    COMMAND,
    COMMANDS,
    ROOT,
    TIMEOUT,
    Mha,
    Result,
    environment,
    fork,
    has_control_characters,
    refusal,
    run_on_terminal,
)
from tests.cli.forks import obey_signals

WHOLE = {name: load_command(name) for name in COMMANDS}


def words(text: str) -> str:
    """Text without line ends and the frames around tables."""
    return re.sub(r"[\s│]+", " ", text)


def from_scratch(program: str, *arguments: str, cwd: Path) -> Result:
    """Run a Python program that starts ``mha``, with all that Python and mha do before they come to the command."""
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        cwd=cwd,
        env=environment(),
        preexec_fn=obey_signals,
        timeout=TIMEOUT,
        check=False,
    )
    return Result(done.returncode, done.stdout, done.stderr)


def test_version(tmp_path: Path) -> None:
    assert from_scratch(COMMAND[-1], "--version", cwd=tmp_path) == Result(0, f"mha {mha_cli.__version__}\n", "")


def test_no_arguments_at_all_are_answered_with_help_alone(mha: Mha) -> None:
    result = mha()
    assert (result.code, mha("-h").code) == (2, 0)
    assert words(mha("--help").stdout) == words(result.stdout + result.stderr)
    assert "Usage: mha [OPTIONS] COMMAND" in words(result.stdout + result.stderr)
    assert "Start with: mha train --config sample" in words(result.stdout + result.stderr)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_help_page_names_every_option_and_ends_in_examples(name: str, mha: Mha) -> None:
    command = WHOLE[name]
    page = words(mha(name, "--help").silent().stdout)
    assert f"Usage: mha {name} [OPTIONS]" in page
    for parameter in command.params:
        assert parameter.help.endswith("."), parameter.name
        for option in parameter.opts if parameter.opts[0].startswith("-") else []:
            assert f" {option} " in page
    assert not re.search(r"<bool>|<list|\[/?bold", page)
    examples = re.sub(r"\[/?bold\]", "", command.epilog)
    named = set(re.findall(r"(?<=\s)--?[a-z][a-z-]*", re.sub(r"(?m)^curl .*", "", examples)))
    assert examples.count(f"mha {name}") >= 2
    assert named and named <= {option for parameter in command.params for option in parameter.opts}
    # They can be pasted from a page of 80 columns: no line is broken but by a backslash at its very end.
    shown = mha(name, "--help", env={"COLUMNS": "80"}).stdout
    assert max(map(len, shown.splitlines())) <= 80
    assert not has_control_characters(shown)
    assert shown.endswith(f"\n\n{examples}\n\n")
    lines = examples.splitlines()
    assert [line.startswith("    ") for line in lines] == [False, *(line.endswith(" \\") for line in lines[:-1])]
    assert not any(line.endswith(" ") for line in lines)
    assert subprocess.run(["bash", "-n"], input=examples, capture_output=True, text=True, check=False).stderr == ""


def test_help_on_a_terminal(mha: Mha, tmp_path: Path) -> None:
    result = run_on_terminal("predict", "--help", cwd=tmp_path, env={"COLUMNS": "80"}).silent()
    assert "\x1b[1m" in result.stdout
    assert re.sub(r"\x1b\[[\d;]*m", "", result.stdout) == mha("predict", "--help", env={"COLUMNS": "80"}).stdout


@pytest.mark.parametrize(
    ("arguments", "needs", "extra"),
    [
        ("report small.keras --data sample", "mha report needs jinja2", "report"),
        ("serve", "mha serve needs fastapi, httptools, uvicorn, uvloop", "serve"),
        ("export x --format onnx --output new", "--format onnx needs onnx, onnxruntime", "onnx"),
        ("export x --format litert --output new", "--format litert needs ai-edge-litert", "litert"),
        ("predict --checkpoint small.keras --engine openvino film", "--engine openvino needs openvino", "fast"),
    ],
)
def test_missing_packages_are_named(
    arguments: str, needs: str, extra: str, mha: Mha, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_checkpoint_file(tmp_path / "small.keras")
    monkeypatch.setattr("mha_cli.errors.find_spec", lambda _: None)
    assert refusal(mha(*arguments.split())) == f"{needs}; pip install -e '.[{extra}]' in your copy of mha's repository"
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("module", "arguments", "package"),
    [
        ("pyarrow", "predict -c small.keras film -o answers.parquet", "pyarrow>=17"),
        pytest.param("sklearn", "train --config sample", "scikit-learn<2,>=1.6", marks=pytest.mark.process),  # TensorFlow starts before
        pytest.param("keras", "export small.keras -f saved-model -o exported", "keras<4,>=3.13", marks=pytest.mark.process),
    ],
)
def test_a_package_that_is_not_installed_is_named(module: str, arguments: str, package: str, tmp_path: Path) -> None:
    small_checkpoint_file(tmp_path / "small.keras")
    program = f"import sys; sys.modules[{module!r}] = None; {COMMAND[-1]}"
    done = from_scratch(program, *shlex.split(arguments), cwd=tmp_path)
    name = re.match(r"[\w-]+", package)
    assert name is not None
    hint = f"pip install '{package}', or all of mha: pip install . in your copy of its repository"
    assert (done.code, done.stdout) == (2, "")
    assert done.stderr.splitlines()[-1] == f"error: this needs {name[0]}, which is not installed; {hint}"
    assert "Traceback" not in done.stderr


def test_every_module_that_mha_imports_is_of_a_package_that_it_declares(monkeypatch: pytest.MonkeyPatch) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    declared = [*project["dependencies"], *chain.from_iterable(project["optional-dependencies"].values())]
    monkeypatch.setattr("importlib.metadata.requires", lambda _: declared)
    imported = set[str]()
    for path in Path(mha_cli.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = [name.name for name in node.names] if isinstance(node, ast.Import) else []
            imported.update(names or ([node.module or ""] if isinstance(node, ast.ImportFrom) else []))
    modules = (
        {name.partition(".")[0] for name in imported} - sys.stdlib_module_names - {"mha_cli", "starlette", "markupsafe"}
    )  # of FastAPI and Jinja2
    assert len(modules) > 20
    assert [name for name in sorted(modules) if not missing_package(ModuleNotFoundError(name=name))] == []
    assert missing_package(ModuleNotFoundError(name="mha_cli.nonsense")) == ""


def test_a_reader_that_left(tmp_path: Path) -> None:
    ours, theirs = os.pipe()
    os.close(ours)
    process = fork(["--help"], tmp_path, (PIPE, theirs, PIPE))
    os.close(theirs)
    assert process.communicate(timeout=TIMEOUT)[1] == b""
    assert process.wait() == 1


# Ctrl-C while mha is being imported

INTERRUPTED = """
import os, signal, sys

class Interruption:
    def find_spec(self, name, *_):
        if name == "typer":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interruption())
"""


MISSING = "x.keras: no such file; give a checkpoint that `mha train` wrote"
LATER = """
import os, signal
import mha_cli.checkpoint.file
mha_cli.checkpoint.file.read_checkpoint = lambda path: os.kill(os.getpid(), signal.SIGINT)
"""


@pytest.mark.parametrize(
    ("before", "after", "code", "said"),
    [
        (INTERRUPTED, "", -signal.SIGINT, ""),
        (f"{INTERRUPTED}signal.signal(signal.SIGINT, signal.SIG_IGN)", "", 2, f"error: {MISSING}\n"),
        ("", LATER, 130, "error: interrupted\n"),
    ],
    ids=["while importing", "where it is ignored", "later"],
)
def test_ctrl_c(before: str, after: str, code: int, said: str, tmp_path: Path) -> None:
    program = f"{before}\n{COMMAND[-1].replace('main()', '')}\n{after}\nmain()"
    assert from_scratch(program, "predict", "-c", "x.keras", "film", cwd=tmp_path) == Result(code, "", said)


def test_a_traceback_only_on_request(mha: Mha) -> None:
    quiet, loud = (mha("predict", "-c", "x.keras", "film", env={"MHA_DEBUG": debug}) for debug in "01")
    assert refusal(quiet) == MISSING
    assert "Traceback (most recent call last)" in loud.stderr
    assert loud.stderr.endswith(quiet.stderr)
    assert loud.code == 2


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (MemoryError(), 1, "out of memory; close other programs, or give fewer or shorter texts"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (RuntimeError("\x1b[31mbroken\nin two"), 1, "RuntimeError: \\x1b[31mbroken; this is a fault in mha, MHA_DEBUG=1 shows where"),
    ],
)
def test_what_can_happen_to_anybody(error: BaseException, code: int, message: str, mha: Mha, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_args: object) -> None:
        raise error

    monkeypatch.setattr("mha_cli.checkpoint.file.read_checkpoint", fail)
    result = mha("predict", "-c", "x.keras", "film")
    assert (result.code, result.stdout, result.stderr) == (code, "", f"error: {message}\n")
