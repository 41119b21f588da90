"""The small form of a checkpoint: one byte a weight, for `mha` itself; see ``mha_cli.checkpoint.quantization``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mha_cli.checkpoint.file import Checkpoint, read_checkpoint, write_checkpoint
from mha_cli.runtime.classifier import forward_of


def write(checkpoint: Checkpoint, path: Path) -> None:
    """Write a checkpoint with one byte a weight."""
    write_checkpoint(path, checkpoint, small=True)


def opened(path: Path) -> Callable[[npt.NDArray[np.int32]], Any]:
    """The small checkpoint as a function from token ids, (B, L), to probabilities of all classes, (B, C)."""
    return forward_of(read_checkpoint(path))
