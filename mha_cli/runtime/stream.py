"""From records to answers: in batches that fill while a stream is fast and end where it pauses, in this process or in several."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, TypeAlias

from mha_cli.errors import MhaError
from mha_cli.records.record import Record
from mha_cli.runtime.classifier import Classifier, Prediction
from mha_cli.system.processor import available_cores

if TYPE_CHECKING:
    from mha_cli.runtime.workers import Workers

FIRST_BATCH_RECORDS = 64
MOST_IN_A_STREAM = 512  # enough for texts of similar length to be found among them; with more, workers end further apart
MAX_BATCH_RECORDS = 1024
MAX_BATCH_PROBABILITIES = 1_000_000
"""A batch has fewer records where there are many classes: every probability of an answer is a Python object, of some 150 bytes in all."""
MAX_BATCH_CHARACTERS = 1 << 22  # a batch of long texts has fewer of them
MOST_USUAL_WORKERS = 4  # more gain little, and other programs may want the cores

Predicted: TypeAlias = tuple[Record, Prediction]


def most_together(num_classes: int) -> int:
    """The most records that a batch may have with so many classes."""
    return max(1, min(MAX_BATCH_RECORDS, MAX_BATCH_PROBABILITIES // num_classes))


def usual_workers() -> int:
    """The default number of worker processes: one per core that this process may use, at most ``MOST_USUAL_WORKERS``."""
    return min(available_cores(), MOST_USUAL_WORKERS)


class Answering:
    """Answers records in batches and in their order.

    The source of the records calls ``on_wait`` before it waits, so a slow producer gets its answers at once. The first batch is small, so
    that its answers come soon; while the source is fast, each batch has twice as many records as the one before.

    ``workers`` are processes that compute, from the first batch on that is full; 1 is this one alone. An engine that starts at once
    computes in them from the first text on: this process could not be forked after that.
    """

    def __init__(self, classifier: Classifier, workers: int = 1) -> None:
        self._classifier, self._num_workers = classifier, workers
        self.num_texts = self.num_words = self.num_unknown = 0  # of the answered texts; see ``Prediction``
        self._most_records = min(MOST_IN_A_STREAM, most_together(len(classifier.checkpoint.class_names)))
        self._first_records = self._batch_records = min(FIRST_BATCH_RECORDS, self._most_records)
        self._held: list[Record] = []
        self._num_characters = 0
        self._pool: Workers | None = None
        self._write: Callable[[list[Predicted]], object] = lambda _: None

    def run(self, records: Iterable[Record], write: Callable[[list[Predicted]], object]) -> None:
        """Answer all records; ``write`` takes the answers of each batch as soon as they are there. Few records are read ahead."""

        def counted(predicted: list[Predicted]) -> None:
            self.num_texts += len(predicted)
            self.num_words += sum(prediction.num_words for _, prediction in predicted)
            self.num_unknown += sum(prediction.num_unknown for _, prediction in predicted)
            write(predicted)

        self._write = counted
        with ExitStack() as self._stack:
            try:
                for record in records:
                    self._held.append(record)
                    self._num_characters += len(record.text)
                    if self._is_full(self._batch_records):
                        self._compute()
                        self._batch_records = min(2 * self._batch_records, self._most_records)
            except MhaError:
                self._finish()
                raise
            self._finish()

    def on_wait(self, awaited: int) -> None:
        """Answer everything that is held back, until the descriptor that the source of the records waits for becomes readable."""
        self._compute()
        if self._pool:
            while self._pool.busy and not self._pool.wait(awaited):
                self._write_done()
            self._write_done()

    def _is_full(self, num_records: int) -> bool:
        return len(self._held) >= num_records or self._num_characters >= MAX_BATCH_CHARACTERS

    def _compute(self) -> None:
        """Answer the batch, or give it to a worker."""
        if not self._held:
            return
        if self._num_workers > 1 and self._pool is None and (self._classifier.engine.at_once or self._is_full(self._first_records)):
            from mha_cli.runtime.workers import Workers

            self._pool = self._stack.enter_context(closing(Workers(self._classifier, self._num_workers)))
        records, self._held, self._num_characters = self._held, [], 0
        if not self._pool:
            self._write(list(zip(records, self._classifier.predict([record.text for record in records]), strict=True)))
            return
        while self._pool.full:
            self._pool.wait()
            self._write_done()
        self._pool.begin(records)

    def _write_done(self) -> None:
        for answers in self._pool.done() if self._pool else ():
            self._write(answers)

    def _finish(self) -> None:
        self._compute()
        while self._pool and self._pool.busy:
            self._pool.wait()
            self._write_done()
