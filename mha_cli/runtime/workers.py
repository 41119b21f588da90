"""The classifier in several processes at once."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from typing import Self

from mha_cli.errors import EXIT_FAILURE, MhaError
from mha_cli.runtime.classifier import Classifier, Scores
from mha_cli.runtime.lines import Pause
from mha_cli.runtime.records import Record

JOBS_AHEAD = 3
"""Times the number of workers: so many batches may be done before an earlier one is."""
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass
class Job:
    """A batch that a worker has been given, and its scores once they are there."""

    records: list[Record]
    scores: Scores | None = field(default=None)


class Workers:
    """Processes that compute scores. They end with the ``with`` block, and by themselves when this process is killed.

    Args:
        classifier: that each of them gets a copy of.
        number: of processes; each computes in one thread.
    """

    def __init__(self, classifier: Classifier, number: int) -> None:
        self._classifier = classifier
        self._number = number
        self._processes: list[multiprocessing.process.BaseProcess] = []
        self._idle: list[Connection] = []
        self._busy: dict[Connection, Job] = {}
        self._jobs: deque[Job] = deque()

    def __enter__(self) -> Self:
        """Start the processes."""
        context = multiprocessing.get_context("spawn")  # a fork would copy the locks of BLAS's threads as they happen to be
        with _one_thread_each(), _interrupts_held_back():
            for _ in range(self._number):
                ours, theirs = context.Pipe()
                process = context.Process(target=_serve, args=(theirs,), daemon=True)
                process.start()
                theirs.close()
                self._processes.append(process)
                self._idle.append(ours)
        for connection in self._idle:
            _send(connection, self._classifier.checkpoint)
        return self

    def __exit__(self, *_: object) -> None:
        """End the processes, whatever they are doing."""
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.join()

    @property
    def busy(self) -> bool:
        """Whether any scores are still being computed."""
        return bool(self._busy)

    @property
    def full(self) -> bool:
        """Whether another batch has to wait."""
        return not self._idle or len(self._jobs) >= JOBS_AHEAD * self._number

    def begin(self, records: list[Record]) -> None:
        """Give a batch to a worker; only when not ``full``."""
        connection, job = self._idle.pop(0), Job(records)
        _send(connection, [record.text for record in records])
        self._busy[connection] = job
        self._jobs.append(job)

    def wait(self, pause: Pause | None = None) -> bool:
        """Wait until a worker is done or the input goes on; returns whether it does.

        Raises:
            MhaError: a worker has ended.
        """
        ready = wait([*self._busy] if pause is None else [*self._busy, pause.descriptor])
        for connection in [connection for connection in self._busy if connection in ready]:
            self._busy.pop(connection).scores = _receive(connection)
            self._idle.append(connection)
        return pause is not None and pause.descriptor in ready

    def done(self) -> Iterator[tuple[list[Record], Scores]]:
        """Batches and their scores, as far as they are there from the first one on."""
        while self._jobs and self._jobs[0].scores is not None:
            job = self._jobs.popleft()
            assert job.scores is not None
            yield job.records, job.scores


def _serve(connection: Connection) -> None:
    """What a worker does: scores for texts, until nobody asks any more."""
    with suppress(EOFError, OSError, MemoryError):
        classifier = Classifier(connection.recv())
        while True:
            connection.send(classifier.score(connection.recv()))


def _send(connection: Connection, message: object) -> None:
    try:
        connection.send(message)
    except OSError:
        raise _ended() from None


def _receive(connection: Connection) -> Scores:
    try:
        scores: Scores = connection.recv()
    except (EOFError, OSError):
        raise _ended() from None
    return scores


def _ended() -> MhaError:
    return MhaError("a worker process has ended", "lower --workers if memory is short: each needs its own", EXIT_FAILURE)


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """What is started meanwhile leaves the other cores to the other workers, unless the user has said otherwise."""
    unset = [name for name in THREAD_VARIABLES if name not in os.environ]
    os.environ.update(dict.fromkeys(unset, "1"))
    try:
        yield
    finally:
        for name in unset:
            del os.environ[name]


@contextmanager
def _interrupts_held_back() -> Iterator[None]:
    """Ctrl-C reaches every process of a pipeline; what is started meanwhile never sees it, and is ended by this process."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
