"""The classifier in several processes at once."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
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
        self._processes: list[subprocess.Popen[bytes]] = []
        self._idle: list[Connection] = []
        self._busy: dict[Connection, Job] = {}
        self._jobs: deque[Job] = deque()

    def __enter__(self) -> Self:
        """Start the processes."""
        for _ in range(self._number):
            ours, theirs = multiprocessing.Pipe()
            with theirs:
                command = [sys.executable, "-P", "-c", f"from {__name__} import serve; serve({theirs.fileno()})"]
                # In a process group of their own they are not interrupted by Ctrl-C: this process ends them.
                process = subprocess.Popen(
                    command,
                    pass_fds=[theirs.fileno()],
                    env=_environment(),
                    process_group=0,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                )
            self._processes.append(process)
            self._idle.append(ours)
        for connection in self._idle:
            _send(connection, self._classifier.checkpoint)
        return self

    def __exit__(self, *_: object) -> None:
        """End the processes, whatever they are doing."""
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.wait()
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


def serve(descriptor: int) -> None:
    """What a worker does: scores for texts, until nobody asks any more."""
    connection = Connection(descriptor)
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


def _environment() -> dict[str, str]:
    """That of this process, with our modules where they are here and one thread a worker, unless the user wants more."""
    return dict.fromkeys(THREAD_VARIABLES, "1") | os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
