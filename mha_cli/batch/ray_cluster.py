"""The shards on a Ray cluster: Ray Data hands them out, and its actors hold the classifier and write the parts."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import socket
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from typing import Any

from mha_cli.batch.part import ATTEMPTS, Job, ShardReport, classify_shard, given_up
from mha_cli.batch.shards import Shard
from mha_cli.errors import EXIT_FAILURE, MhaError, need, printable
from mha_cli.runtime.workers import end_with
from mha_cli.system.numpy_setup import prepare_to_compute

SILENCE = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_DATA_DISABLE_PROGRESS_BARS": "1", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
"""Environment variables with which Ray sends nothing to its makers, and says less."""
SHUTDOWN_SECONDS = 20
CONNECT_SECONDS = 10


@dataclass(frozen=True)
class Given:
    """What every actor takes from the object store, once a machine: its arrays are shared there."""

    shards: Sequence[Shard]
    job: Job


class Desk:
    """The actor that the others come to: it lives beside the driver.

    Args:
        given: reference of what they take from the object store, in a list, so that Ray leaves it alone.
    """

    def __init__(self, given: list[Any]) -> None:
        self._given = given
        self._begun: Counter[int] = Counter()

    def given(self) -> list[Any]:
        """The reference."""
        return self._given

    def begin(self, number: int) -> int:
        """How often this shard has been begun, now included: if its process ends, Ray begins it anew, for ever."""
        self._begun[number] += 1
        return self._begun[number]


class ClassifyShards:
    """The actor that holds the classifier and takes shard after shard.

    Args:
        desk: handle of the actor of that name.
    """

    def __init__(self, desk: Any) -> None:
        prepare_to_compute()
        import ray

        self._given: Given = ray.get(ray.get(desk.given.remote())[0])
        self._begin: Callable[[int], int] = lambda number: ray.get(desk.begin.remote(number))

    def __call__(self, batch: dict[str, Any]) -> dict[str, list[Any]]:
        """The reports of shards, given by their numbers, and beside each what ends the batch, if anything does."""
        answers = [{"number": number, **self._answer(number)} for number in batch["item"].tolist()]
        return {name: [answer[name] for answer in answers] for name in answers[0]}

    def _answer(self, number: int) -> dict[str, Any]:
        shard, error = self._given.shards[number], MhaError("")
        if self._begin(number) > ATTEMPTS:
            report = given_up(shard)
        else:
            try:
                report = classify_shard(shard, self._given.job)
            except MhaError as found:
                report, error = ShardReport(shard.name), found
        return {"report": asdict(report), "error": error.message, "hint": error.hint, "exit_code": error.exit_code}


def classify_on_cluster(shards: Sequence[Shard], job: Job, address: str, workers: int | None) -> Iterator[ShardReport]:
    """Reports of all shards, each as soon as it is there.

    Ray's driver is a process of its own: Ray ends it where the cluster ends, and writes to its streams.

    Args:
        shards: shards to classify; those that are named first are begun first.
        job: what is the same for all of them.
        address: address of the cluster to join.
        workers: actors, each on one core; None takes all cores that there are.
    """
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    with theirs:
        driver = context.Process(target=_drive, args=(theirs, shards, job, address, workers), daemon=True)
        driver.start()
    try:
        while (message := ours.recv()) is not None:
            if isinstance(message, MhaError):
                raise message
            yield message
    except EOFError:
        raise MhaError("the Ray cluster has ended", "run the same again: what is done stays", EXIT_FAILURE) from None
    finally:
        driver.terminate()
        driver.join(SHUTDOWN_SECONDS)
        driver.kill()
        ours.close()


def _drive(connection: Connection, shards: Sequence[Shard], job: Job, address: str, workers: int | None) -> None:
    """Be Ray's driver: send reports, and then None or the error that has ended it."""
    os.setpgrp()  # signals that a terminal sends are the parent's to answer
    threading.Thread(target=end_with, args=(connection,), daemon=True).start()
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1) if os.environ.get("MHA_DEBUG") == "1" else (0, 1, 2):
        os.dup2(nowhere, descriptor)
    sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__  # what stands in for them beside a progress line writes to the terminal
    try:
        for report in _reports(shards, job, address, workers):
            connection.send(report)
        connection.send(None)
    except MhaError as error:
        connection.send(error)


def _reports(shards: Sequence[Shard], job: Job, address: str, workers: int | None) -> Iterator[ShardReport]:
    with _cluster(address) as ray:
        left = dict(enumerate(shards))
        here = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        desk = ray.remote(Desk).options(num_cpus=0, scheduling_strategy=here).remote([ray.put(Given(shards, job))])
        number = min(len(shards), workers or int(ray.cluster_resources().get("CPU", 1)))
        pool = ray.data.ActorPoolStrategy(size=number, max_tasks_in_flight_per_actor=1)
        data = ray.data.from_items([*left], override_num_blocks=len(shards))
        for row in data.map_batches(ClassifyShards, batch_size=1, fn_constructor_args=[desk], compute=pool, num_cpus=1).iter_rows():
            if row["error"]:
                raise MhaError(row["error"], row["hint"], row["exit_code"])
            if left.pop(row["number"], None):
                yield ShardReport(**row["report"])
        for shard in left.values():
            yield ShardReport(shard.name, fault=f"{shard.name}: Ray has given it up; run the same again")


@contextmanager
def _cluster(address: str) -> Iterator[Any]:
    """Ray, connected."""
    os.environ.update(SILENCE)
    _refuse_silent(address)
    need("--address", "ray", "ray")
    import ray
    import ray.data
    import ray.util.scheduling_strategies

    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = context.print_on_execution_start = False
    context.max_errored_blocks = -1  # a shard that Ray gives up is missing, and told
    try:
        ray.init(address, logging_level=logging.ERROR, log_to_driver=False)
    except (ConnectionError, OSError, RuntimeError, ValueError) as error:
        reason = printable(str(error).partition("\n")[0], 300)
        raise MhaError(
            f"--address {printable(address)}: {reason}", "give the address that `ray start --head` shows", EXIT_FAILURE
        ) from None
    try:
        signal.signal(signal.SIGTERM, _end)
        yield ray
    finally:
        ray.shutdown()


def _refuse_silent(address: str) -> None:
    """Refuse a host and port where nobody listens: Ray itself would try for many minutes."""
    host, _, port = address.rpartition(":")
    if host and port.isdecimal() and "/" not in host:
        try:
            socket.create_connection((host, int(port)), CONNECT_SECONDS).close()
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or error
            raise MhaError(f"--address {printable(address)}: {reason}", "give the address that `ray start --head` shows") from None


def _end(number: int, _frame: object) -> None:
    raise SystemExit(128 + number)
