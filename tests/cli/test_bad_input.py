"""Whatever a user gets wrong: one line that says what, where and what to do, exit 2, and nothing is written or lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.checkpoints import members_of, rewrite, small_checkpoint_file, write_archive
from tests.cli.command import CONFIGS, refusal, run_here, run_mha, tree

if TYPE_CHECKING:
    from pathlib import Path

SAMPLE = str(CONFIGS / "sample.yaml")
WAY_OUT = "give a checkpoint that `mha train` wrote"
MIND = "mind indentation, quotes and colons"
READERS = (("predict", "the film", "--checkpoint"), ("shuffle-test", "--data", "sample"))
"""Other commands that a checkpoint can be put behind; in this process, to save start-ups."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with everything that can be wrong in it."""
    configs = {
        "unknown.yaml": "model:\n  num_head: 4\n",
        "type.yaml": "model:\n  num_heads: four\n",
        "heads.yaml": "model:\n  embed_dim: 64\n  num_heads: 7\n",
        "zero.yaml": "model:\n  num_heads: 0\n",
        "negative.yaml": "training:\n  epochs: -3\n",
        "huge.yaml": "text:\n  vocabulary_size: 10000000\nmodel:\n  embed_dim: 16384\n",
        "nan.yaml": "training:\n  learning_rate: .nan\n",
        "tag.yaml": "seed: !!python/object/apply:os.system ['touch hacked']\n",
        "alias.yaml": "a: &x [1]\nb: *x\n",
        "twice.yaml": "seed: 1\nmodel:\n  dropout: 0\n  dropout: 0\n",
        "deep.yaml": "[" * 5000,
        "tab.yaml": "model:\n\tnum_heads: 4\n",
        "list.yaml": "- model\n",
        "escape.yaml": '"\\e[31mred[bold]": 1\n',
    }
    for name, text in configs.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "latin.yaml").write_bytes(b"# caf\xe9\n")
    (tmp_path / "long.yaml").write_bytes(b"#" * 1_000_001)
    for name in ("finished/metrics.json", "unfinished/config.yaml", "mine/notes.txt"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text("precious")
    (tmp_path / "file").write_text("precious")

    small_checkpoint_file(tmp_path / "good.keras")
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
    (tmp_path / "newer.keras").write_bytes(whole)
    rewrite(tmp_path / "newer.keras", format=3)
    return tmp_path


def refused(folder: Path, *args: str) -> str:
    before = tree(folder)
    message = refusal(run_mha(*args, cwd=folder))
    assert tree(folder) == before
    return message


def refused_here(folder: Path, monkeypatch: pytest.MonkeyPatch, *args: str) -> str:
    before = tree(folder)
    message = refusal(run_here(*args, cwd=folder, monkeypatch=monkeypatch))
    assert tree(folder) == before
    return message


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ("nowhere.yaml", "nowhere.yaml: no such file; give the path of a YAML config, for example configs/sample.yaml"),
        ("unknown.yaml", "unknown.yaml:2: model.num_head is not a setting; did you mean num_heads?"),
        ("type.yaml", "type.yaml:2: model.num_heads is 'four'; it should be a valid integer"),
        (
            "heads.yaml",
            "heads.yaml:1: model: num_heads=7 does not divide embed_dim=64; take num_heads=4 or 8, or set key_dim",
        ),
        ("zero.yaml", "zero.yaml:2: model.num_heads is 0; it should be greater than or equal to 1"),
        ("negative.yaml", "negative.yaml:2: training.epochs is -3; it should be greater than or equal to 1"),
        (
            "huge.yaml",
            "huge.yaml: the model would have 164,927,930,497 weights (660 GB), more than the 1,000,000,000 allowed; lower "
            "text.vocabulary_size, model.embed_dim, model.num_blocks, model.num_heads or model.feed_forward_dim",
        ),
        ("nan.yaml", "nan.yaml:2: training.learning_rate is nan; it should be a finite number"),
        ("tag.yaml", "tag.yaml:1: the tag tag:yaml.org,2002:python/object/apply:os.system is not allowed; write a plain value"),
        ("alias.yaml", "alias.yaml:1: anchors and aliases (& and *) are not allowed; write the value out"),
        ("twice.yaml", "twice.yaml:4: model.dropout stands twice (first on line 3); keep one of them"),
        ("deep.yaml", "deep.yaml:1: nested more than 20 deep; a config has two levels"),
        ("tab.yaml", f"tab.yaml:2: not valid YAML: found character '\\t' that cannot start any token; {MIND}"),
        ("list.yaml", "list.yaml: not a mapping of settings; write `section:` lines with `key: value` lines below them"),
        ("latin.yaml", "latin.yaml: not UTF-8 at byte 5; save it as UTF-8"),
        ("long.yaml", "long.yaml: larger than 1,000,000 bytes; a config is a short YAML file"),
        ("escape.yaml", r"escape.yaml:1: \x1b[31mred[bold] is not a setting; choose from data, model, seed, text, training"),
        ("mine", "mine: Is a directory; give the path of a YAML config that can be read"),
        ("good.keras", "good.keras: not UTF-8 at byte "),
    ],
)
def test_configs(config: str, message: str, folder: Path) -> None:
    found = refused(folder, "train", "--config", config)
    assert found.startswith(message) if message.endswith(" ") else found == message


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("model.num_head=4", "--set model.num_head is not a setting; did you mean num_heads?"),
        ("model.embed_dim=[4]", "--set model.embed_dim is [4]; it should be a valid integer"),
        ("text.vocabulary_size=1e3", "--set text.vocabulary_size is 1000.0; it should be a valid integer"),
        ("model.num_heads", "--set model.num_heads: not of the form KEY.PATH=VALUE; write for example --set model.num_heads=4"),
        ("training.learning_rate=inf", "--set training.learning_rate is 'inf'; it should be a valid number"),
    ],
)
def test_overrides(override: str, message: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert refused(folder, "train", "--config", SAMPLE, "--set", override) == message
    assert refused_here(folder, monkeypatch, "shuffle-test", "--config", SAMPLE, "--set", override) == message


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("finished", "--output finished: holds a finished run; choose another folder, or remove this one"),
        ("unfinished", "--output unfinished: holds an unfinished run; add --resume to go on with it, or choose another folder"),
        ("mine", "--output mine: is not empty; choose another folder"),
        ("file", "--output file: is a file; choose another folder"),
        (".", "--output .: is not empty; choose another folder"),
    ],
)
def test_an_output_directory_in_use(output: str, message: str, folder: Path) -> None:
    assert refused(folder, "train", "--config", SAMPLE, "--output", output) == message


@pytest.mark.parametrize(
    ("checkpoint", "message"),
    [
        ("nowhere.keras", f"nowhere.keras: no such file; {WAY_OUT}"),
        ("text.keras", f"text.keras: damaged, or no checkpoint (File is not a zip file); {WAY_OUT}"),
        ("empty.keras", f"empty.keras: is empty; {WAY_OUT}"),
        ("folder.keras", f"folder.keras: is a folder; {WAY_OUT}"),
        ("/dev/null", f"/dev/null: is not a regular file; {WAY_OUT}"),
        ("plain.keras", f"plain.keras: not a checkpoint of mha: has no metadata.json; {WAY_OUT}"),
        ("keras.keras", f"keras.keras: not a checkpoint of mha: has no vocabulary.txt; {WAY_OUT}"),
        ("extra.keras", f"extra.keras: not a checkpoint of mha: has members that do not belong there; {WAY_OUT}"),
        ("cut.keras", f"cut.keras: damaged, or no checkpoint (File is not a zip file); {WAY_OUT}"),
        ("flipped.keras", f"flipped.keras: damaged, or no checkpoint (Bad CRC-32 for file 'model.weights.h5'); {WAY_OUT}"),
        ("newer.keras", "newer.keras: has format 3; this version of mha reads format 2; update mha, or train anew"),
        ("unknown.yaml", f"unknown.yaml: damaged, or no checkpoint (File is not a zip file); {WAY_OUT}"),
    ],
)
def test_checkpoints(checkpoint: str, message: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert refused(folder, "evaluate", checkpoint) == message
    for command in READERS:
        assert refused_here(folder, monkeypatch, *command, checkpoint) == message


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nonsense"], "No such command 'nonsense'.; see `mha --help`"),
        (["\x1b[31m"], r"No such command '\x1b[31m'.; see `mha --help`"),
        (["--nonsense"], "No such option: --nonsense; see `mha --help`"),
        (["train"], "Missing option '--config' / '-c'.; see `mha train --help`"),
        (["train", "x.yaml", "--config", SAMPLE], "Got unexpected extra argument"),
        (["train", "--config", SAMPLE, "--resume"], "--resume needs --output; name the run directory to go on with"),
        (["evaluate"], "Missing argument 'checkpoint'.; see `mha evaluate --help`"),
        (["evaluate", "good.keras", "--jsno"], "No such option: --jsno"),
        (["predict", "-c", "good.keras", "--not an option"], "No such option: --not an option"),
        (["shuffle-test"], "shuffle-test takes either checkpoints or --config; see `mha shuffle-test --help` for examples"),
        (["shuffle-test", "good.keras", "--shuffles", "0"], "Invalid value for '--shuffles' / '-n'"),
        (["shuffle-test", "good.keras", "--shuffles", "many"], "Invalid value for '--shuffles' / '-n'"),
        (["shuffle-test", "good.keras", "--max-reviews", "-1"], "Invalid value for '--max-reviews'"),
        (["shuffle-test", "good.keras", "--seed", "-1"], "Invalid value for '--seed'"),
    ],
)
def test_arguments(arguments: list[str], message: str, folder: Path) -> None:
    assert refused(folder, *arguments).startswith(message)
