"""How much memory a checkpoint takes that is read by the real command: the bounds of docs/checkpoint.md."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from mha_cli.checkpoint.file import Checkpoint, write_checkpoint
from mha_cli.config.loading import config_from_dict
from mha_cli.config.parameters import parameter_table
from mha_cli.text.vocabulary import Vocabulary
from tests.checkpoints import small_checkpoint_file
from tests.cli.command import environment

MEASURED = """
import atexit, re, sys
from pathlib import Path
atexit.register(lambda: print(re.search(r"VmHWM:.*", Path("/proc/self/status").read_text())[0], file=sys.stderr))
from mha_cli.cli.app import main
sys.argv[0] = "mha"
main()
"""
"""The command, and at its end the most memory that it held. Of a child Linux says no less than its parent had, so the child says it."""

MARGIN = 8_000_000  # bytes that one run may take more than another


def peak_bytes(checkpoint: Path) -> int:
    """Of `mha doctor CHECKPOINT`."""
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, "doctor", checkpoint], capture_output=True, text=True, check=True, env=environment()
    )
    return 1024 * int(re.search(r"VmHWM:\s*(\d+) kB", done.stderr)[1])


@pytest.fixture(scope="module")
def idle(tmp_path_factory: pytest.TempPathFactory) -> int:
    """Of a checkpoint of no size."""
    return peak_bytes(small_checkpoint_file(tmp_path_factory.mktemp("idle") / "idle.keras"))


def checkpoint_of(embed_dim: int, tokens: list[str], ngram_buckets: int = 0, num_pieces: int = 0) -> Checkpoint:
    """Weights of ones: what they are takes no more and no less."""
    model = {"embed_dim": embed_dim, "num_heads": 1, "feed_forward_dim": 3}
    ngrams = {"max_ngram": 2, "ngram_buckets": ngram_buckets} if ngram_buckets else {}
    text = {"vocabulary_size": len(tokens) + 2, "sequence_length": 13}
    pretrained = {"pretrained": "encoder", "num_pieces": num_pieces, "positions": "learned"} if num_pieces else {}
    config = config_from_dict({"text": text, "model": model | ngrams | pretrained}, "test")
    weights = {parameter.path: np.ones(parameter.shape, np.float32) for parameter in parameter_table(config, len(tokens) + 2, 2)}
    return Checkpoint(config, ("neg", "pos"), Vocabulary(tokens), {"epoch": 1}, weights, "{}", tokenizer=b"{}" if num_pieces else None)


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
@pytest.mark.parametrize("small", [False, pytest.param(True, marks=pytest.mark.process)])
@pytest.mark.parametrize(
    "make",
    [
        lambda: checkpoint_of(8, ["a", "b"], ngram_buckets=2**22),
        pytest.param(lambda: checkpoint_of(32, ["a", "b"], num_pieces=2**20), marks=pytest.mark.process),
        pytest.param(lambda: checkpoint_of(1, [f"word{number}" for number in range(500_000)]), marks=pytest.mark.process),
        # Python keeps each character in four bytes.
        pytest.param(lambda: checkpoint_of(1, [f"{number:099d}🙂" for number in range(100_000)]), marks=pytest.mark.process),
    ],
    ids=["wide tables", "pretrained", "many words and a tiny embedding", "long words of wide characters"],
)
def test_reading_takes_no_more_than_is_said(make: Callable[[], Checkpoint], small: bool, idle: int, tmp_path: Path) -> None:
    path, checkpoint = tmp_path / "a.keras", make()
    write_checkpoint(path, checkpoint, small)
    words = 250 * len(checkpoint.vocabulary) + 8 * len("\n".join(checkpoint.vocabulary.tokens).encode())
    bound = (5 if small else 3.25 if checkpoint.tokenizer else 1.25) * path.stat().st_size + words
    assert bound > 2 * MARGIN
    assert peak_bytes(path) - idle < bound + MARGIN
