"""The mutants of benchmarks/fuzz_checkpoint.py: all of them come to what is right, and none of the reader's checks could go unnoticed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command import ROOT, TIMEOUT, environment

FUZZ = ROOT / "benchmarks" / "fuzz_checkpoint.py"
KINDS = {"container", "checksums", "description", "config", "vocabulary", "arrays", "quantization", "paths"}


def fuzz(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, FUZZ, *arguments], env=environment(), capture_output=True, text=True, check=False, timeout=TIMEOUT
    )


def test_every_mutant_comes_to_what_is_right() -> None:
    done = fuzz("--rounds", "2", "--seed", "1")
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    *counts, last = done.stdout.splitlines()
    assert {line.split()[0] for line in counts} == KINDS
    assert re.fullmatch(r"\d+ mutants, seed 1: 0 wrong", last)
    assert sum(int(line.split()[1]) for line in counts) > 500


@pytest.mark.exhaustive
def test_a_bug_in_any_check_of_the_reader_is_noticed() -> None:
    done = fuzz("--plant", "--rounds", "2")
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    planted = set(re.findall(r"^(\w+\.py):\d+: without", done.stdout, re.MULTILINE))
    assert planted == {"archive.py", "hdf5.py", "quantization.py", "file.py"}
    raised = sum(
        len(re.findall(r"\braise (?:MhaError|ValueError)", (ROOT / "mha_cli" / "checkpoint" / name).read_text())) for name in planted
    )
    assert len(done.stdout.splitlines()) - 1 > raised  # a condition of several parts is a bug for each part
