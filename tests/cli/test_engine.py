"""`mha predict --engine`, in processes that no other test has started OpenVINO in."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING

import pytest

from tests.checkpoints import WORDS
from tests.cli.command import TIMEOUT, answer, run_mha, start

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.extras
@pytest.mark.parametrize("workers", ["1", "2"])
def test_openvino_answers_as_numpy_does(workers: str, small: Path, tmp_path: Path) -> None:
    pytest.importorskip("openvino")
    rng = random.Random(0)
    texts = "".join(" ".join(rng.choices(WORDS, k=rng.randrange(30))) + "\n" for _ in range(700))
    ours, theirs = (
        run_mha("predict", "-c", small, "--json", "--workers", workers, "--engine", engine, cwd=tmp_path, stdin=texts)
        for engine in ("numpy", "openvino")
    )
    assert (theirs.code, theirs.stderr) == (0, "")
    for own, other in zip(map(json.loads, ours.lines), map(json.loads, theirs.lines), strict=True):
        assert other["probabilities"] == pytest.approx(own["probabilities"], abs=1e-5)
        assert own | {"probability": 0, "probabilities": 0} == other | {"probability": 0, "probabilities": 0}


@pytest.mark.extras
def test_openvino_answers_a_slow_producer_at_once_and_then_a_fast_one(small: Path, tmp_path: Path) -> None:
    pytest.importorskip("openvino")
    with start(["-c", small, "--engine", "openvino", "--workers", "2"], tmp_path) as process:
        assert process.stdin
        assert process.stdout
        for lines in (1, 2, 300, 1):
            process.stdin.write(b"the film\n" * lines)
            for _ in range(lines):
                assert b"\t" in answer(process)
        process.stdin.close()
        assert process.stdout.read() == b""
        assert process.wait(TIMEOUT) == 0
