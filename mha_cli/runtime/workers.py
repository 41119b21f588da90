"""Processes that work for this one, and the classifier in several of them at once."""

import multiprocessing
import os
import select
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from traceback import format_exc
from typing import Any

from mha_cli.errors import EXIT_FAILURE, MhaError, reason_of
from mha_cli.records.record import Record
from mha_cli.runtime.classifier import Classifier, Prediction
from mha_cli.runtime.inputs import WAIT_SECONDS

BATCHES_AHEAD = 3  # batches, for every worker, that may be done before an earlier one is


@dataclass
class Batch:
    """Records that a worker has been given, and their predictions once they are there, or the error that has ended it."""

    records: list[Record]
    predictions: list[Prediction] | Exception | None = None


class Worker:
    """A process that calls a function with each message of a connection, and sends back the result or the exception.

    It ends by itself when this process is killed. ``fork`` starts it in milliseconds and shares the model's memory; see ``serve``.
    """

    def __init__(self, work: Callable[[Any], Any], method: str = "fork") -> None:
        context = multiprocessing.get_context(method)
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # for good in the worker: this process ends it
        try:
            try:
                self.connection, theirs = context.Pipe()
                with theirs:
                    self.process = context.Process(target=serve, args=(work, theirs, method == "fork"))  # type: ignore[attr-defined]
                    self.process.start()
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        except OSError as error:
            raise MhaError(f"cannot start a process: {reason_of(error)}", "lower --workers", EXIT_FAILURE) from None
        except KeyboardInterrupt:  # it came while it was blocked
            self.end()
            raise

    def end(self) -> None:
        """End the process, whatever it is doing."""
        self.process.kill()
        self.process.join()
        self.connection.close()


class Workers:
    """Processes that each classify a batch at a time, until ``close``."""

    def __init__(self, classifier: Classifier, number: int) -> None:
        self._workers: list[Worker] = []
        self._busy: dict[Connection, Batch] = {}
        self._batches: deque[Batch] = deque()
        try:
            while len(self._workers) < number:
                self._workers.append(Worker(classifier.predict))
        except BaseException:
            self.close()
            raise
        self._idle = [worker.connection for worker in self._workers]

    def close(self) -> None:
        """End the processes, whatever they are doing."""
        for worker in self._workers:
            worker.end()

    @property
    def busy(self) -> bool:
        """Whether any batch is still being computed."""
        return bool(self._busy)

    @property
    def full(self) -> bool:
        """Whether another batch has to wait."""
        return not self._idle or len(self._batches) >= BATCHES_AHEAD * len(self._workers)

    def begin(self, records: list[Record]) -> None:
        """Give a batch to an idle worker; only when not ``full``."""
        connection, batch = self._idle.pop(0), Batch(records)
        with _ended_is_an_error():
            connection.send([record.text for record in records])
        self._busy[connection] = batch
        self._batches.append(batch)

    def wait(self, awaited: int | None = None) -> bool:
        """Wait until a worker is done, the input (``awaited``) goes on or ``WAIT_SECONDS`` are over; returns whether the input goes on."""
        ready = wait([*self._busy] if awaited is None else [*self._busy, awaited], WAIT_SECONDS)
        for connection in [connection for connection in self._busy if connection in ready]:
            with _ended_is_an_error():
                self._busy.pop(connection).predictions = connection.recv()
            self._idle.append(connection)
        return awaited in ready

    def done(self) -> Iterator[list[tuple[Record, Prediction]]]:
        """Batches with their predictions, in order, up to the first that is still being computed."""
        while self._batches and (predictions := self._batches[0].predictions) is not None:
            if isinstance(predictions, Exception):
                raise predictions
            yield list(zip(self._batches.popleft().records, predictions, strict=True))


def serve(work: Callable[[Any], Any], connection: Connection, forked: bool) -> None:
    """The loop of a worker: call a function with each message of a connection, and send back its result, until the connection ends.

    A ``forked`` process inherits descriptors. In others, all descriptors are their own, such as those of an object store's client.
    """
    detach(connection)
    if forked:  # while a worker has an inherited descriptor open, nobody learns that the parent has ended or closed it
        kept, last = connection.fileno(), max(map(int, os.listdir("/dev/fd")))
        os.closerange(3, kept)
        os.closerange(kept + 1, last + 1)
    with suppress(EOFError, OSError, MemoryError):
        while True:
            message = connection.recv()
            try:
                result = work(message)
            except MemoryError:
                raise
            except Exception as error:
                error.add_note(format_exc())
                result = error
            connection.send(result)


def detach(connection: Connection) -> None:
    """Make this process a helper of its parent: it leaves signals and streams to the parent, and ends with it."""
    os.setpgrp()  # signals that a terminal or `timeout` sends are the parent's to answer
    sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__  # those of a progress line write to what is closed here
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1):
        os.dup2(nowhere, descriptor)
    threading.Thread(target=end_with, args=(connection,), daemon=True).start()


def end_with(connection: Connection) -> None:
    """End this process when its parent has ended, even in the middle of a computation: nobody will take the result."""
    parent = select.poll()
    parent.register(connection.fileno(), 0)  # without any event, poll still tells that the other side is gone
    parent.poll()
    os._exit(EXIT_FAILURE)


@contextmanager
def _ended_is_an_error() -> Iterator[None]:
    """Say in a line that the worker at the other side of a connection has ended."""
    try:
        yield
    except (EOFError, OSError):
        raise MhaError("a worker process has ended", "lower --workers if memory is short", EXIT_FAILURE) from None
