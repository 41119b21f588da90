"""The choice of what computes the encoder: NumPy, which starts at once, or OpenVINO, which is faster in the long run."""

from __future__ import annotations

from importlib.util import find_spec
from math import inf
from typing import TYPE_CHECKING, Literal

import numpy as np

from mha_cli.arrays import Int64s
from mha_cli.config.settings import ModelConfig
from mha_cli.errors import EXIT_FAILURE, MhaError, need, reason_of
from mha_cli.system.processor import bfloat16_features

if TYPE_CHECKING:
    from mha_cli.checkpoint.file import Checkpoint
    from mha_cli.runtime.openvino_encoder import OpenVinoEncoder

EngineName = Literal["auto", "numpy", "openvino"]
Precision = Literal["float32", "bfloat16"]

WORTH_STARTING = 5_000_000_000  # multiplications, about 0.3 s of NumPy's, in which OpenVINO wins back the 0.1 s that it takes to start
MANY_TEXTS = 64  # fewest texts of a call for which ``auto`` starts OpenVINO: a single answer never waits for the start


def usual_engine() -> EngineName:
    """The engine that ``auto`` chooses for much work: OpenVINO is up to twice as fast as NumPy, also with an encoder of 8 units."""
    return "openvino" if find_spec("openvino") is not None else "numpy"


def multiplications(model: ModelConfig, lengths: Int64s) -> Int64s:
    """Multiplications in the encoder for each text of these lengths."""
    widths = [2 * heads * model.head_key_dim for heads in model.heads]
    a_token = sum(2 * model.embed_dim * (width + model.feed_forward_dim) for width in widths)
    products: Int64s = lengths * a_token + np.square(lengths) * sum(widths)
    return products


class Engine:
    """The choice between NumPy and OpenVINO for the encoder of a checkpoint.

    It is ``openvino`` from the first text on, ``numpy``, or ``auto`` for OpenVINO after much work, where it is there and gains.
    ``bfloat16`` goes with ``openvino`` only. ``threads`` of this process may compute at once.
    """

    def __init__(self, checkpoint: Checkpoint, name: EngineName = "numpy", precision: Precision = "float32", threads: int = 1) -> None:
        if precision == "bfloat16" and name != "openvino":
            raise MhaError("--precision bfloat16 goes with --engine openvino", "give both, or neither")
        if name == "openvino":
            need("--engine openvino", "fast", "openvino")
        if precision == "bfloat16" and not bfloat16_features():
            raise MhaError("--precision bfloat16: this processor has no instructions for it", "leave it out")
        self.at_once = name == "openvino"
        chosen = usual_engine() if name == "auto" else name
        self._checkpoint, self._precision, self._threads = checkpoint, precision, threads
        self._left = WORTH_STARTING if chosen == "openvino" else inf
        self._encoder: OpenVinoEncoder | None = None

    def choose_encoder(self, lengths: Int64s) -> OpenVinoEncoder | None:
        """The encoder for texts of these lengths, which is started if that pays; None is NumPy."""
        if self._encoder is None and self.at_once:
            self._start()
        elif self._encoder is None and len(lengths) >= MANY_TEXTS:
            self._left -= multiplications(self._checkpoint.config.model, lengths).sum()
            if self._left <= 0:
                self._start()
        return self._encoder

    def _start(self) -> None:
        try:
            from mha_cli.runtime.openvino_encoder import OpenVinoEncoder

            self._encoder = OpenVinoEncoder(self._checkpoint, self._precision, self._threads)
        except (ImportError, OSError, RuntimeError) as error:  # RuntimeError: what OpenVINO raises
            if self.at_once:
                message = f"--engine openvino cannot be started: {reason_of(error)}"
                raise MhaError(message, "take --engine numpy", EXIT_FAILURE) from None
            self._left = inf
