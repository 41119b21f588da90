"""The classifier in several processes at once."""

from __future__ import annotations

import multiprocessing
import os
import select
import signal
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from typing import Self

from mha_cli.errors import EXIT_FAILURE, MhaError
from mha_cli.records.record import Record
from mha_cli.runtime.classifier import Classifier, Scores

JOBS_AHEAD = 3
"""Batches, for every worker, that may be done before an earlier one is."""


@dataclass
class Job:
    """A batch that a worker has been given, and its scores once they are there, or why there are none."""

    records: list[Record]
    scores: Scores | MhaError | None = None


class Workers:
    """Processes that compute scores. They end with the ``with`` block, and by themselves when this process is killed.

    They are forked: so they are there within milliseconds, and share the memory of the model.

    Args:
        classifier: classifier that each of them uses.
        number: processes to start.
    """

    def __init__(self, classifier: Classifier, number: int) -> None:
        self._classifier = classifier
        self._number = number
        self._processes: list[ForkProcess] = []
        self._idle: list[Connection] = []
        self._busy: dict[Connection, Job] = {}
        self._jobs: deque[Job] = deque()

    def __enter__(self) -> Self:
        """Start the processes."""
        context = multiprocessing.get_context("fork")
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # for good in the workers: this process ends them
        try:
            for _ in range(self._number):
                ours, theirs = context.Pipe()
                with theirs:
                    self._idle.append(ours)
                    process = context.Process(target=serve, args=(self._classifier, theirs), daemon=True)
                    process.start()
                self._processes.append(process)
        except OSError as error:
            self.__exit__()
            raise MhaError(f"cannot start a process: {error.strerror}", "lower --workers", EXIT_FAILURE) from None
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        return self

    def __exit__(self, *_: object) -> None:
        """End the processes, whatever they are doing."""
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.join()
        for connection in [*self._idle, *self._busy]:
            connection.close()

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
        with _ended_is_an_error():
            connection.send([record.text for record in records])
        self._busy[connection] = job
        self._jobs.append(job)

    def wait(self, awaited: int | None = None) -> bool:
        """Wait until a worker is done or the input goes on; returns whether it does.

        Args:
            awaited: descriptor of the input; None waits for the workers alone.

        Raises:
            MhaError: a worker has ended.
        """
        ready = wait([*self._busy] if awaited is None else [*self._busy, awaited])
        for connection in [connection for connection in self._busy if connection in ready]:
            with _ended_is_an_error():
                self._busy.pop(connection).scores = connection.recv()
            self._idle.append(connection)
        return awaited in ready

    def done(self) -> Iterator[tuple[list[Record], Scores]]:
        """Batches and their scores, as far as they are there from the first one on.

        Raises:
            MhaError: a batch cannot be scored; those before it have come.
        """
        while self._jobs and (scores := self._jobs[0].scores) is not None:
            if isinstance(scores, MhaError):
                raise scores
            yield self._jobs.popleft().records, scores


def serve(classifier: Classifier, connection: Connection) -> None:
    """Do a worker's work: send scores for the texts that come over a connection, until nobody asks any more."""
    os.setpgrp()  # signals that a terminal or `timeout` sends are the parent's to answer
    _close_all_but(connection.fileno())
    threading.Thread(target=end_with, args=(connection,), daemon=True).start()
    with suppress(EOFError, OSError, MemoryError):
        while True:
            texts = connection.recv()
            answer: Scores | MhaError
            try:
                answer = classifier.score(texts)
            except MhaError as error:
                answer = error
            connection.send(answer)


def end_with(connection: Connection) -> None:
    """End this process when the parent has ended, in the middle of a product too: nobody will take the answer."""
    parent = select.poll()
    parent.register(connection.fileno(), 0)  # no event is asked for; poll says all the same that the other side is gone
    parent.poll()
    os._exit(EXIT_FAILURE)


def _close_all_but(kept: int) -> None:
    """Close what was inherited: while a worker has it open, nobody learns that the parent has ended or closed it."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1):
        os.dup2(nowhere, descriptor)
    for descriptor in map(int, os.listdir("/dev/fd")):
        if descriptor > 2 and descriptor != kept:
            with suppress(OSError):  # that of the list itself is closed already
                os.close(descriptor)


@contextmanager
def _ended_is_an_error() -> Iterator[None]:
    """Say in a line that the worker at the other side of a connection has ended."""
    try:
        yield
    except (EOFError, OSError):
        raise MhaError("a worker process has ended", "lower --workers if memory is short", EXIT_FAILURE) from None
