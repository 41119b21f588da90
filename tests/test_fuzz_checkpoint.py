"""Some hundreds of the mutants that benchmarks/fuzz_checkpoint.py makes by the thousand."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.cli.command import ROOT, TIMEOUT, environment

FUZZ = ROOT / "benchmarks" / "fuzz_checkpoint.py"


def fuzz(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, FUZZ, *arguments], env=environment(), capture_output=True, text=True, check=False, timeout=TIMEOUT
    )


def test_no_mutant_gets_through() -> None:
    done = fuzz("--mutants", "500", "--seed", "1")
    assert done.stderr == ""
    assert done.returncode == 0, done.stdout
    lines = done.stdout.splitlines()
    assert lines[-1] == "500 mutants, seed 1: 0 wrong"
    counts = [[int(number) for number in re.findall(r"\d+", line)[-4:]] for line in lines[1:-1]]
    refused, same, other, wrong = map(sum, zip(*counts, strict=True))
    assert (refused + same + other, wrong) == (500, 0)
    assert all(sum(kind) > 5 for kind in counts)
    assert refused > 250
    assert same > 50


def test_a_mutant_can_be_made_again(tmp_path: Path) -> None:
    for name in ("a.keras", "b.keras"):
        fuzz("--first", "3", "--mutants", "1", "--keep", tmp_path / name)
    assert len((tmp_path / "a.keras").read_bytes()) == len((tmp_path / "b.keras").read_bytes()) > 0  # they differ in the date only
