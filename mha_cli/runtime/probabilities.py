"""The way from tokens to probabilities with a checkpoint's weights: batch by batch, on request in several threads.

Axes: N texts, C classes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from mha_cli.arrays import Floats, Int32s, Int64s
from mha_cli.checkpoint.file import Checkpoint
from mha_cli.corpus.batches import Rows, padded, scoring_batches
from mha_cli.errors import MhaError
from mha_cli.runtime.engine import Engine
from mha_cli.runtime.forward import class_probabilities, linear_part, pooled_features, probabilities_of
from mha_cli.system.processor import available_cores
from mha_cli.system.working_memory import MOST_BYTES

if TYPE_CHECKING:
    from mha_cli.corpus.encoded_texts import EncodedTexts
    from mha_cli.text.encoding import EncodedText

BATCH_TOKENS, BATCH_NUMBERS = 8_192, 1 << 18
"""Tokens in a batch, padding included, and numbers in their embeddings: enough to keep the cores busy, few enough for their caches."""

MOST_PADDED = 1.25  # of a few texts in a stream, padding would be a third

TokensAndPieces = tuple[Int32s, Int32s | None]  # tokens of a text, and its pieces if a pretrained encoder reads them

Item = TypeVar("Item")
Result = TypeVar("Result")


class Scorer:
    """Scores texts with a checkpoint. Those of similar length are computed together.

    The linear model answers alone where the checkpoint says so: the encoder then reads the other texts.

    Args:
        engine: engine of the encoder; None takes the fastest one that pays. NumPy computes what the engine has no memory for.
        threads: batches that are computed at once, if memory allows; None takes one for each core.
    """

    def __init__(self, checkpoint: Checkpoint, engine: Engine | None = None, threads: int | None = None) -> None:
        self._checkpoint = checkpoint
        self._threads = threads or available_cores()
        self._engine = engine or Engine(checkpoint, "auto", threads=self._threads)
        self.num_encoded = 0  # texts that the encoder has read

    def __call__(self, texts: EncodedTexts, on_texts: Callable[[int], None] = lambda _: None) -> Floats:
        """Probabilities of all classes for every text, (N, C); ``on_texts`` is called with the number of texts done so far."""
        pieces = texts.pieces
        return self._answer(texts.input_lengths, lambda row: (texts[row], None if pieces is None else pieces[row]), on_texts)

    def score_each(self, texts: Sequence[EncodedText]) -> Floats:
        """Probabilities of all classes, (N, C), for texts from a ``TextPipeline``."""
        return self._answer(*_lengths_and_reader(texts))

    def features(self, texts: Sequence[EncodedText], on_texts: Callable[[int], None] = lambda _: None) -> Floats:
        """The pooled output of the encoder, (N, D), for texts from a ``TextPipeline``."""
        return self._score(*_lengths_and_reader(texts), on_texts, pooled_features, self._checkpoint.config.model.embed_dim)

    def _answer(self, lengths: Int64s, read: Callable[[int], TokensAndPieces], on_texts: Callable[[int], None] = lambda _: None) -> Floats:
        """Probabilities of all classes: by the linear model alone where it is sure, else by encoder and linear model."""
        checkpoint, alone = self._checkpoint, self._checkpoint.linear_alone
        self.num_encoded += len(lengths)
        if alone is None:
            return self._score(lengths, read, on_texts)
        linear_NU = self._score(lengths, lambda row: (read(row)[0], None), forward=linear_part, width=len(alone.shift))
        is_sure_N = alone.is_sure(linear_NU)
        probabilities_NC = probabilities_of(alone.logits(linear_NU), checkpoint.weights, checkpoint.config)
        rest, num_sure = np.flatnonzero(~is_sure_N), int(is_sure_N.sum())
        self.num_encoded -= num_sure
        on_texts(num_sure)
        probabilities_NC[rest] = self._score(lengths[rest], lambda row: read(int(rest[row])), lambda done: on_texts(num_sure + done))
        return probabilities_NC

    def _score(
        self,
        lengths: Int64s,
        read: Callable[[int], TokensAndPieces],
        on_texts: Callable[[int], None] = lambda _: None,
        forward: Callable[..., Floats] = class_probabilities,
        width: int | None = None,
    ) -> Floats:
        """What ``forward`` computes of texts of these lengths, (N, width), by default (N, C); ``read`` gives a text by its number."""
        checkpoint = self._checkpoint
        memory_estimate = replace(checkpoint.memory_estimate, in_blocks=True)
        memory_estimate.refuse_too_long(int(lengths.max(initial=0)))
        encoder = None if forward is linear_part else self._engine.choose_encoder(lengths)

        def compute(rows: Rows) -> Floats:
            longest = int(lengths[rows[-1]])
            chosen = encoder if encoder and encoder.has_memory_for(len(rows), longest) else None
            length = chosen.padded_length(longest) if chosen else 1
            tokens, pieces = zip(*map(read, rows), strict=True)
            has_pieces = pieces[0] is not None
            padded_tokens, padded_pieces = padded(tokens, 1 if has_pieces else length), padded(pieces, length) if has_pieces else None
            with errors_naming(checkpoint):
                return forward(padded_tokens, checkpoint.weights, checkpoint.config, chosen, padded_pieces)

        computed, done = np.zeros((len(lengths), width or len(checkpoint.class_names)), dtype=np.float32), 0
        most_tokens = min(BATCH_TOKENS, BATCH_NUMBERS // checkpoint.config.model.embed_dim)
        batches = list(scoring_batches(lengths, memory_estimate, most_tokens, MOST_PADDED))
        most_bytes = max((memory_estimate.num_bytes(len(rows), int(lengths[rows[-1]])) for rows in batches), default=1)
        threads = min(self._threads, max(1, MOST_BYTES // most_bytes))
        for rows, of_batch in zip(batches, in_threads(compute, batches, threads), strict=True):
            computed[rows] = of_batch
            done += len(rows)
            on_texts(done)
        return computed


def _lengths_and_reader(texts: Sequence[EncodedText]) -> tuple[Int64s, Callable[[int], TokensAndPieces]]:
    lengths = np.array([text.input_length for text in texts], dtype=np.int64)
    return lengths, lambda row: (texts[row].tokens, texts[row].pieces)


def in_threads(function: Callable[[Item], Result], items: Iterable[Item], threads: int) -> Iterator[Result]:
    """``map`` in several threads, one per matrix product. If the caller stops early, items that have not begun are dropped."""
    if threads == 1:
        yield from map(function, items)
        return
    from threadpoolctl import threadpool_limits

    pool = ThreadPoolExecutor(threads)
    try:
        with threadpool_limits(1):
            yield from pool.map(function, items)
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def errors_naming(checkpoint: Checkpoint) -> Iterator[None]:
    """Begin errors of the forward pass, which knows weights only, with the name of the checkpoint's file, if it has one."""
    try:
        yield
    except MhaError as error:
        if not checkpoint.name:
            raise
        raise MhaError(f"{checkpoint.name}: {error.message}", error.hint, error.exit_code) from None
