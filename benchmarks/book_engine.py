"""The engines of `mha predict` alone on the book's model: one process per core, each with ready token ids and an engine of its own."""

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from mha_cli.checkpoint.file import Checkpoint
from mha_cli.config.parameters import parameter_table
from mha_cli.config.settings import Config
from mha_cli.corpus.encoded_texts import EncodedTexts
from mha_cli.runtime.engine import Engine, EngineName, Precision
from mha_cli.runtime.probabilities import Scorer
from mha_cli.runtime.stream import usual_workers
from mha_cli.text.vocabulary import Vocabulary


class Predicting:
    """The encoder with random weights; the reviews are dealt out to the processes by their length."""

    def __init__(self, config: Config, reviews: EncodedTexts, vocabulary: Vocabulary, engine: EngineName, precision: Precision) -> None:
        rng, table = np.random.default_rng(config.seed), parameter_table(config, len(vocabulary), 2)
        weights = {each.path: rng.normal(each.path.endswith("gamma"), 0.05, each.shape).astype(np.float32) for each in table}
        self.checkpoint = Checkpoint(config, ("neg", "pos"), vocabulary, {}, weights, "{}")
        self.options: tuple[EngineName, Precision] = (engine, precision)
        order, workers = np.argsort(reviews.lengths, kind="stable"), usual_workers()
        self.processes = []
        for first in range(workers):
            given = (self.checkpoint, reviews.subset(order[first::workers]), *self.options)
            self.processes.append(ProcessPoolExecutor(1, get_context("fork"), initializer=_begin, initargs=given))

    def predict(self) -> None:
        """Classify every review."""
        for answer in [process.submit(_classify) for process in self.processes]:
            answer.result()

    def about(self) -> dict[str, Any]:
        """Number of weights, and what computes."""
        return {"weights": self.checkpoint.num_weights, "engine": self.options, "processes": len(self.processes)}


_work: list[Any] = []
"""What a process classifies, and with what."""


def _begin(checkpoint: Checkpoint, reviews: EncodedTexts, engine: EngineName, precision: Precision) -> None:
    threadpool_limits(1)
    _work[:] = [Scorer(checkpoint, Engine(checkpoint, engine, precision), 1), reviews]


def _classify() -> None:
    scorer, reviews = _work
    scorer(reviews)
