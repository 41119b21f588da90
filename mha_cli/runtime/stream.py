"""From records to answers: in batches that fill while a stream is fast and end where it pauses, in this process or in several."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from itertools import chain
from typing import TypeAlias

from mha_cli.errors import MhaError
from mha_cli.records.record import Record
from mha_cli.runtime.classifier import Classifier, Prediction
from mha_cli.runtime.inputs import Arrival
from mha_cli.system.processor import available_cores

FIRST_BATCH_RECORDS = 64
MAX_BATCH_RECORDS = 1024
"""Enough for texts of similar length to be found among them."""
MAX_BATCH_PROBABILITIES = 3_000_000
"""A batch has fewer records where there are many classes: every probability of an answer is a Python object, of some 150 bytes in all."""
MAX_BATCH_CHARACTERS = 1 << 22
"""A batch of long texts has fewer of them."""
MOST_USUAL_WORKERS = 4
"""However many cores there are: more gain little, and somebody else may want them."""

Answer: TypeAlias = tuple[Record, Prediction]
Batch: TypeAlias = tuple[list[Record], int | None]
"""Records to be answered together, none where nothing has come before a pause; and what is awaited then, as in ``Arrival``."""


def batches_of(arrivals: Iterable[Arrival], most_records: int = MAX_BATCH_RECORDS) -> Iterator[Batch]:
    """Records in batches. None is held back while the next one has to be waited for.

    The first batch is small, so that its answers come soon; while the stream is fast, each has twice as many as the one before, up to
    ``most_records``.

    Raises:
        MhaError: what ``arrivals`` raise; every record before that has come.
    """
    batch: list[Record] = []
    characters, max_records = 0, min(FIRST_BATCH_RECORDS, most_records)
    try:
        for records, awaited in arrivals:
            for record in records:
                batch.append(record)
                characters += len(record.text)
                if len(batch) == max_records or characters >= MAX_BATCH_CHARACTERS:
                    yield batch, None
                    batch, characters, max_records = [], 0, min(2 * max_records, most_records)
            if awaited is not None:
                yield batch, awaited
                batch, characters = [], 0
    except MhaError:
        if batch:
            yield batch, None
        raise
    if batch:
        yield batch, None


def most_together(num_classes: int) -> int:
    """Records of a batch, at most, where there are so many classes."""
    return max(1, min(MAX_BATCH_RECORDS, MAX_BATCH_PROBABILITIES // num_classes))


def usual_workers() -> int:
    """Processes to compute in where nobody says how many: one a core that this process may use, and ``MOST_USUAL_WORKERS`` at most."""
    return min(available_cores(), MOST_USUAL_WORKERS)


def answer(classifier: Classifier, arrivals: Iterable[Arrival], workers: int = 1) -> Generator[list[Answer], None, None]:
    """Answers in the order of the records, batch by batch, each as soon as it is there.

    Args:
        classifier: classifier that answers.
        arrivals: records, as they come; how far they are read ahead is bounded.
        workers: processes that compute, from the first batch on that is full; 1 is this one alone. An engine that starts at once
            computes in them from the first text on: this process could not be forked after that.

    Raises:
        MhaError: what ``arrivals`` raise, after the answers to every record before that; or a worker process has ended.
    """
    most_records = most_together(len(classifier.checkpoint.class_names))
    batches = batches_of(arrivals, most_records)
    for records, awaited in batches:
        if workers > 1 and (classifier.engine.at_once or _is_full(records, most_records)):
            yield from _answer_with_workers(classifier, chain([(records, awaited)], batches), workers)
            return
        if records:
            yield list(zip(records, classifier.predict([record.text for record in records]), strict=True))


def _is_full(records: list[Record], most_records: int) -> bool:
    """Whether a batch ended neither at a pause nor with its stream, so that there is enough to share."""
    return len(records) >= min(FIRST_BATCH_RECORDS, most_records) or sum(len(record.text) for record in records) >= MAX_BATCH_CHARACTERS


def _answer_with_workers(classifier: Classifier, batches: Iterable[Batch], number: int) -> Iterator[list[Answer]]:
    from mha_cli.runtime.workers import Workers

    def done() -> Iterator[list[Answer]]:
        for records, scores in workers.done():
            yield list(zip(records, classifier.predictions([record.text for record in records], scores), strict=True))

    def rest() -> Iterator[list[Answer]]:
        while workers.busy:
            workers.wait()
            yield from done()

    with Workers(classifier, number) as workers:
        try:
            for records, awaited in batches:
                if records:
                    while workers.full:
                        workers.wait()
                        yield from done()
                    workers.begin(records)
                if awaited is not None:
                    while workers.busy and not workers.wait(awaited):
                        yield from done()
                    yield from done()
        except MhaError:
            yield from rest()
            raise
        yield from rest()
