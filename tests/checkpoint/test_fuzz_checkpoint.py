"""Every mutant of fuzz.py has its right outcome, and a bug in any check of the reader is noticed."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.cli.command import ROOT, TIMEOUT, environment

KINDS = {"container", "checksums", "description", "config", "vocabulary", "arrays", "quantization", "paths"}


def fuzz(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.checkpoint.fuzz", *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, text=True, check=False, timeout=TIMEOUT)


def test_every_mutant_comes_to_what_is_right() -> None:
    done = fuzz("2", "1")
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    *counts, last = done.stdout.splitlines()
    assert {line.split()[0] for line in counts} == KINDS
    assert last == "0 wrong"
    assert sum(int(line.split()[1]) for line in counts) > 500


@pytest.mark.exhaustive
def test_a_bug_in_any_check_of_the_reader_is_noticed() -> None:
    done = fuzz("2", "0", "plant")
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    planted = set(re.findall(r"^(\w+\.py):\d+: without", done.stdout, re.MULTILINE))
    assert planted == {"archive.py", "hdf5.py", "quantization.py", "file.py"}
    raised = sum(
        len(re.findall(r"\braise (?:MhaError|ValueError)", (ROOT / "mha_cli" / "checkpoint" / name).read_text())) for name in planted
    )
    assert len(done.stdout.splitlines()) - 1 > raised  # a condition of several parts is a bug for each part
