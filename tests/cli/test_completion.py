"""What a shell gets on TAB, by the protocols of Typer's scripts for bash, zsh and fish."""

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from mha_cli.config.loading import config_from_dict, config_to_dict
from mha_cli.config.recipes import recipe_names
from mha_cli.config.settings import Config
from mha_cli.export.formats import FORMATS
from tests.cli.command import environment, run_here

Complete = Callable[[str], list[str]]
POSITIONS = ("", "learned", "sinusoidal", "rotary", "linear_biases", "none")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with runs, checkpoints and configs; one of each has a name with a space."""
    runs = ("runs/imdb/checkpoint.keras", "runs/mine/checkpoint.keras", "runs/begun/config.yaml")
    for name in (*runs, "models/odd name.keras", "small.keras", "my config.yaml", "mine.yaml", "other.yml"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    return tmp_path


@pytest.fixture
def bash(folder: Path) -> Complete:
    """What bash is told for a line: bash gives words broken at =, one per line, and the number of the current one."""

    def complete(line: str) -> list[str]:
        words = [part for word in line.split(" ") for part in (re.split(r"(=)", word) if word else [""]) if part or not word]
        env = {"_MHA_COMPLETE": "complete_bash", "COMP_WORDS": "\n".join(words), "COMP_CWORD": str(len(words) - 1)}
        result = run_here(cwd=folder, env=env).silent()
        return result.stdout.split()

    return complete


@pytest.mark.parametrize(
    ("line", "answers"),
    [
        ("mha comp", ["compare"]),
        ("mha train --conf", ["--config"]),
        ("mha train --config imdb-f", ["imdb-fast"]),
        ("mha train --config mi", ["mine.yaml"]),
        ("mha train --config 'my", []),  # the shell's own business, and that it quotes
        ("mha export small.keras --format o", ["onnx"]),
        ("mha evaluate ", ["runs/imdb", "runs/mine", "small.keras"]),
        ("mha evaluate runs/i", ["runs/imdb"]),
        ("mha evaluate runs/imdb/", ["runs/imdb/checkpoint.keras"]),
        ("mha compare runs/imdb ru", ["runs/imdb", "runs/mine"]),
        ("mha train --set see", ["seed=", "seed=0"]),
        ("mha train --set model.positi", [f"model.positions={value}" for value in POSITIONS]),
        ("mha train --set data.source", [f"data.source={value}" for value in ("", "sample", "tfds", "files")]),  # no Python program gives
        ("mha train --set text.punctuation", [f"text.punctuation={value}" for value in ("", "true", "false")]),
        ("mha train -s model.key_dim", ["model.key_dim=", "model.key_dim=null"]),
        ("mha train --config imdb --set model.positions=none --config book-", ["book-no-positions"]),
        ("mha --version trai", ["train"]),
    ],
)
def test_bash(line: str, answers: list[str], bash: Complete) -> None:
    assert bash(line) == answers


def test_every_recipe_and_every_format(bash: Complete) -> None:
    assert bash("mha train --config ") == [*recipe_names(), "mine.yaml", "other.yml"]
    assert bash("mha export small.keras --format ") == sorted(FORMATS)


def test_every_setting_and_values_that_the_config_takes(bash: Complete) -> None:
    offered = bash("mha train --set ")
    for data in ({"source": "sample"}, {"source": "tfds"}, {"source": "files", "train": "reviews.csv"}):
        for section, settings in config_to_dict(config_from_dict({"data": data}, "test")).items():
            names = [f"{section}.{setting}=" for setting in settings] if isinstance(settings, dict) else [f"{section}="]
            assert set(names) <= set(offered)
    assert len(offered) == len(set(offered))
    whole = config_to_dict(Config())
    for name in ("model.activation", "training.schedule", "training.precision", "text.truncation"):
        section, _, setting = name.partition(".")
        for value in [answer.removeprefix(f"{name}=") for answer in bash(f"mha train --set {name}")[1:]]:
            assert getattr(getattr(config_from_dict({**whole, section: {setting: value}}, "test"), section), setting) == value


@pytest.mark.parametrize(
    ("line", "answer"), [("mha evaluate runs/i", """_arguments '*: :(("runs/imdb"))'"""), ("mha evaluate models/", "_files")]
)
def test_zsh(line: str, answer: str, folder: Path) -> None:
    result = run_here(cwd=folder, env={"_MHA_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": line})
    assert (result.code, result.stdout, result.stderr) == (0, f"{answer}\n", "")


@pytest.mark.parametrize(
    ("line", "answers"), [("mha train --set model.positions=si", ["model.positions=sinusoidal"]), ("mha evaluate models/", [])]
)
def test_fish(line: str, answers: list[str], folder: Path) -> None:
    env = {"_MHA_COMPLETE": "complete_fish", "_TYPER_COMPLETE_ARGS": line}
    asked = run_here(cwd=folder, env=env | {"_TYPER_COMPLETE_FISH_ACTION": "is-args"})
    assert (asked.code, asked.stdout, asked.stderr) == (0 if answers else 1, "", "")  # 1 lets fish offer files
    given = run_here(cwd=folder, env=env | {"_TYPER_COMPLETE_FISH_ACTION": "get-args"})
    assert (given.code, given.stdout.split(), given.stderr) == (0, answers, "")


@pytest.mark.process
@pytest.mark.skipif(not shutil.which("bash"), reason="needs bash")
def test_it_installs_itself_in_bash_and_works_there(folder: Path) -> None:
    (folder / "bin").mkdir()
    (folder / "bin" / "mha").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m mha_cli "$@"\n')
    (folder / "bin" / "mha").chmod(0o755)
    env = environment() | {"PATH": f"{folder / 'bin'}:/usr/bin:/bin", "HOME": str(folder / "bin")}

    def in_bash(*lines: str) -> list[str]:
        done = subprocess.run(["bash", "-c", "\n".join(lines)], cwd=folder, env=env, capture_output=True, text=True, check=False)
        assert done.stderr == ""
        return done.stdout.splitlines()

    assert in_bash("mha --install-completion; true")[-1] == "Completion will take effect once you restart the terminal"
    ask = 'ask() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _mha_completion mha; echo "${COMPREPLY[*]}"; }'
    asked = ["ask mha train --set model.posi", "ask mha evaluate models/", "ask mha train --config imdb-f"]
    answers = in_bash("source ~/.bashrc", "complete -p mha", ask, *asked)
    assert answers == [
        "complete -o default -F _mha_completion mha",
        " ".join(f"model.positions={value}" for value in POSITIONS),
        "",
        "imdb-fast",
    ]
