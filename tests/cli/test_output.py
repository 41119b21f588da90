"""Where results go that a user names: whatever is written, a file keeps its mode, a link is followed, a pipe is written to."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.checkpoints import small_checkpoint_file
from tests.cli.command import TIMEOUT, environment, fork, obey_signals

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.command import Mha

WAYS = [("predict", "-o", "labels.tsv"), ("attention", "--png", "picture.png"), ("explain", "--html", "page.html")]
"""Plots are written as pictures are."""


@pytest.mark.parametrize(("command", "option", "name"), WAYS)
def test_a_file_behind_a_link_keeps_its_mode(command: str, option: str, name: str, small: Path, mha: Mha, tmp_path: Path) -> None:
    (tmp_path / "real").write_text("earlier")
    (tmp_path / "real").chmod(0o600)
    (tmp_path / name).symlink_to("real")
    notes = [tmp_path / ".mha-notes.tmp", tmp_path / ".mha-notes_1.tmp"]
    for note in notes:
        note.touch()
    assert mha(command, "the film", "-c", small, option, name).code == 0
    assert (tmp_path / name).is_symlink()
    assert (tmp_path / "real").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "real").read_bytes() != b"earlier"
    assert set(tmp_path.iterdir()) == {tmp_path / "real", tmp_path / name, *notes}


@pytest.mark.parametrize(("command", "option", "name"), WAYS)
def test_a_pipe_is_written_to_and_not_replaced(command: str, option: str, name: str, small: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / name)
    with fork([command, "the film", "-c", small, option, name], tmp_path) as process:
        written = (tmp_path / name).read_bytes()
        assert process.wait(TIMEOUT) == 0
    assert written.startswith((b"neg\t", b"pos\t", b"<!", b"\x89PNG"))
    assert stat.S_ISFIFO((tmp_path / name).stat().st_mode)


HALF_EXPORTED = """
import dataclasses, sys
from mha_cli.cli.app import main
from mha_cli.export.formats import FORMATS

def write(checkpoint, path):
    path.write_bytes(b"half")
    print("half", flush=True)
    sys.stdin.read()

FORMATS["int8"] = dataclasses.replace(FORMATS["int8"], write=write)
main()
"""
EXPORT = ("export", "a.keras", "-f", "int8", "-o", "small.keras")


def test_an_export_that_is_asked_to_end_leaves_nothing(tmp_path: Path) -> None:
    small_checkpoint_file(tmp_path / "a.keras")
    command = [sys.executable, "-c", HALF_EXPORTED, *EXPORT]
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, preexec_fn=obey_signals
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"half\n"
        process.terminate()
        assert process.wait(TIMEOUT) == 128 + signal.SIGTERM
    assert os.listdir(tmp_path) == ["a.keras"]
