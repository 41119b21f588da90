from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from subprocess import PIPE
from typing import TYPE_CHECKING, Any

import pytest
import typer.main

import mha_cli
from mha_cli.cli.app import app
from mha_cli.cli.command import load_command
from tests.checkpoints import small_checkpoint_file
from tests.cli.command import (
    COMMAND,
    COMMANDS,
    TIMEOUT,
    environment,
    fork,
    has_control_characters,
    obey_signals,
    refusal,
    run_from_scratch,
    run_here,
    run_mha,
    run_on_terminal,
)

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.command import Mha

PAGES: list[tuple[str, ...]] = [(), *((command,) for command in COMMANDS)]
GROUP: Any = typer.main.get_command(app)
WHOLE = {name: load_command(name) for name in COMMANDS}


def words(text: str) -> str:
    """Text without line ends and the frames around tables."""
    return re.sub(r"[\s│]+", " ", text)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_shows_the_first_line_of_each_page(name: str) -> None:
    assert GROUP.commands[name].help == WHOLE[name].help.partition("\n")[0]


def test_version(tmp_path: Path) -> None:
    result = run_from_scratch("--version", cwd=tmp_path)
    assert (result.code, result.stdout, result.stderr) == (0, f"mha {mha_cli.__version__}\n", "")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page[0] if page else "mha")
def test_help(page: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = run_mha(*page, "--help", cwd=tmp_path)
    assert run_here(*page, "-h", cwd=tmp_path, monkeypatch=monkeypatch) == result
    assert (result.code, result.stderr) == (0, "")
    assert not has_control_characters(result.stdout)
    assert f"Usage: {' '.join(('mha', *page))} [OPTIONS]" in words(result.stdout)
    assert "[bold]" not in result.stdout
    if page:
        examples = result.stdout.partition("Examples")[2]
        assert examples.count(f"mha {page[0]}") >= 2
    else:
        assert all(command in result.stdout for command in COMMANDS)
        assert "Start with: mha train --config sample" in result.stdout


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page[0] if page else "mha")
def test_help_on_a_terminal_of_80_columns(page: tuple[str, ...], tmp_path: Path) -> None:
    result = run_on_terminal(*page, "--help", cwd=tmp_path, env={"COLUMNS": "80"})
    assert (result.code, result.stderr) == (0, "")
    shown = re.sub(r"\x1b\[[\d;]*m", "", result.stdout)
    assert max(map(len, shown.splitlines())) <= 80
    assert not re.search(r"<bool>|<list|\[default: \(", shown)
    command = WHOLE[page[0]] if page else GROUP
    examples = re.sub(r"\[/?bold\]", "", command.epilog)
    assert shown.endswith(f"\n\n{examples}\n\n")  # so that a line can be pasted: none is broken but by a backslash at its very end
    lines = examples.splitlines()
    goes_on = [line.startswith("    ") for line in lines]
    assert goes_on == [False, *(line.endswith(" \\") for line in lines[:-1])]
    assert not any(line.endswith(" ") for line in lines)
    if page:
        pasted = shown.partition("\nExamples\n")[2]
        assert subprocess.run(["bash", "-n"], input=pasted, capture_output=True, text=True, check=False).stderr == ""


@pytest.mark.parametrize("name", COMMANDS)
def test_every_parameter_has_a_help_text_and_stands_on_the_page(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = WHOLE[name]
    page = words(run_here(name, "--help", cwd=tmp_path, monkeypatch=monkeypatch).stdout)
    assert command.help
    for parameter in command.params:
        assert parameter.help, parameter.name
        assert parameter.help.partition(" [dim]")[0].endswith("."), parameter.name
        for option in parameter.opts if parameter.opts[0].startswith("-") else []:
            assert f" {option} " in page


@pytest.mark.parametrize("command", COMMANDS)
def test_examples_name_options_that_exist(command: str) -> None:
    known = {option for parameter in WHOLE[command].params for option in parameter.opts}
    examples = "\n".join(line for line in str(WHOLE[command].epilog).splitlines() if not line.startswith("curl "))
    named = set(re.findall(r"(?<=\s)--?[a-z][a-z-]*", examples))
    assert named
    assert named <= known


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("report small.keras --data sample", "mha report needs jinja2; pip install 'mha[report]'"),
        ("serve", "mha serve needs fastapi and uvicorn; pip install 'mha[serve]'"),
        ("tune --config sample", "mha tune needs optuna; pip install 'mha[tune]'"),
        ("export x --format onnx --output new", "--format onnx needs onnx and onnxruntime; pip install 'mha[onnx]'"),
        ("export x --format litert --output new", "--format litert needs ai-edge-litert; pip install 'mha[litert]'"),
        ("predict --checkpoint small.keras --engine openvino film", "--engine openvino needs openvino; pip install 'mha[fast]'"),
        ("batch . --checkpoint small.keras --format lines --output new --address auto", "--address needs ray; pip install 'mha[ray]'"),
    ],
)
def test_missing_packages_are_named(arguments: str, message: str, mha: Mha, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small_checkpoint_file(tmp_path / "small.keras")
    monkeypatch.setattr("mha_cli.errors.find_spec", lambda _: None)
    assert refusal(mha(*arguments.split())) == message
    assert not (tmp_path / "runs").exists()


def test_no_arguments_at_all_are_answered_with_help_alone(tmp_path: Path) -> None:
    result = run_mha(cwd=tmp_path)
    assert result.code == 2
    assert "Usage: mha [OPTIONS] COMMAND" in words(result.stdout + result.stderr)
    assert "error" not in result.stderr


def test_shell_completion_knows_the_commands(tmp_path: Path) -> None:
    env = {"_MHA_COMPLETE": "complete_bash", "COMP_WORDS": "mha ", "COMP_CWORD": "1"}
    result = run_mha(cwd=tmp_path, env=env)
    assert result.code == 0
    assert set(COMMANDS) <= set(result.stdout.split())


# The output cannot be written


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize("flag", ["--version", "--help"])
def test_a_full_disk(flag: str, tmp_path: Path) -> None:
    with open("/dev/full", "wb") as full:
        process = fork([flag], tmp_path, (PIPE, full.fileno(), PIPE))
    assert process.communicate(timeout=TIMEOUT)[1] == b"error: cannot write the output: No space left on device\n"
    assert process.wait() == 1


@pytest.mark.parametrize("flag", ["--version", "--help"])
def test_a_reader_that_left(flag: str, tmp_path: Path) -> None:
    ours, theirs = os.pipe()
    os.close(ours)
    process = fork([flag], tmp_path, (PIPE, theirs, PIPE))
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


@pytest.mark.parametrize(("before", "code"), [("", -signal.SIGINT), ("signal.signal(signal.SIGINT, signal.SIG_IGN)", 0)])
def test_ctrl_c_at_the_first_moment(before: str, code: int, tmp_path: Path) -> None:
    program = f"{INTERRUPTED}{before}\n{COMMAND[-1]}"
    command = [sys.executable, "-c", program, "--version"]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=tmp_path, env=environment(), preexec_fn=obey_signals, timeout=TIMEOUT, check=False
    )
    assert (done.returncode, done.stderr) == (code, "")


def test_ctrl_c_later_is_answered(tmp_path: Path) -> None:
    program = f"{COMMAND[-1].replace('main()', '')}\nimport os, signal\nimport mha_cli.checkpoint.file\n"
    program += "mha_cli.checkpoint.file.read_checkpoint = lambda path: os.kill(os.getpid(), signal.SIGINT)\nmain()"
    command = [sys.executable, "-c", program, "doctor", "x.keras"]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=tmp_path, env=environment(), preexec_fn=obey_signals, timeout=TIMEOUT, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "error: interrupted\n")


# Faults


def test_a_traceback_only_on_request(tmp_path: Path) -> None:
    quiet = run_mha("doctor", "nowhere.keras", cwd=tmp_path)
    loud = run_mha("doctor", "nowhere.keras", cwd=tmp_path, env={"MHA_DEBUG": "1"})
    assert refusal(quiet) == "nowhere.keras: no such file; give a checkpoint that `mha train` wrote"
    assert "Traceback (most recent call last)" in loud.stderr
    assert loud.stderr.endswith(quiet.stderr)
    assert loud.code == 2


def test_a_fault_of_ours_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_args: object) -> None:
        raise RuntimeError("\x1b[31mbroken\nin two")

    monkeypatch.setattr("mha_cli.cli.train.load_config", fail)
    result = run_here("train", "--config", "x.yaml", cwd=tmp_path, monkeypatch=monkeypatch)
    assert result.code == 1
    assert result.stderr == "error: RuntimeError: \\x1b[31mbroken; this is a fault in mha, MHA_DEBUG=1 shows where\n"


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (MemoryError(), 1, "out of memory; close other programs, or give fewer or shorter texts"),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
)
def test_what_can_happen_to_anybody(error: BaseException, code: int, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_args: object) -> None:
        raise error

    run_here("evaluate", "x.keras", cwd=tmp_path, monkeypatch=monkeypatch)  # imports modules that would else keep what stands in below
    monkeypatch.setattr("mha_cli.checkpoint.file.read_checkpoint", fail)
    result = run_here("evaluate", "x.keras", cwd=tmp_path, monkeypatch=monkeypatch)
    assert (result.code, result.stdout, result.stderr) == (code, "", f"error: {message}\n")
