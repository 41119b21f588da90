"""Every mutant of fuzz.py has its right outcome, and every refusal of the reader is met."""

from __future__ import annotations

import subprocess
import sys

from tests.cli.command import ROOT, TIMEOUT, environment

KINDS = {"container", "checksums", "description", "config", "vocabulary", "arrays", "quantization", "paths"}


def test_every_mutant_comes_to_what_is_right() -> None:
    command = [sys.executable, "-m", "tests.checkpoint.fuzz", "2", "1"]
    done = subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, text=True, check=False, timeout=TIMEOUT)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    *counts, last = done.stdout.splitlines()
    assert {line.split()[0] for line in counts} == KINDS
    assert last == "0 wrong"
    assert sum(int(line.split()[1]) for line in counts) > 400
