"""The shards on a Ray cluster: one task per shard; the classifier comes from Ray's object store, once per machine."""

import logging
import multiprocessing
import os
import signal
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any

from mha_cli.batch.part import Job, ShardReport, classify_shard, classify_shards
from mha_cli.batch.shards import Shard
from mha_cli.errors import EXIT_FAILURE, MhaError, need, printable, reason_of
from mha_cli.runtime.workers import detach
from mha_cli.system.processor import prepare_to_compute

SILENCE = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
"""Environment variables with which Ray sends nothing to its makers, and says less."""
SHUTDOWN_SECONDS = 20
CONNECT_SECONDS = 10
START_HINT = "give the address that `ray start --head` shows"


def classify_on_cluster(shards: Sequence[Shard], job: Job, address: str, workers: int | None) -> Iterator[ShardReport]:
    """Reports of all shards; see ``classify_shards``.

    Ray's driver is a process of its own: Ray ends it where the cluster ends, and writes to its streams. ``workers`` are tasks at a time,
    each on one core; None takes all cores that there are.
    """
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    with theirs:
        driver = context.Process(target=_drive, args=(theirs, shards, job, address, workers), daemon=True)
        driver.start()
    try:
        while (message := ours.recv()) is not None:
            if isinstance(message, Exception):
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
    """Be Ray's driver: send reports, and then None or the exception that has ended it."""
    detach(connection, (0, 1) if os.environ.get("MHA_DEBUG") == "1" else (0, 1, 2))
    try:
        for report in _reports(shards, job, address, workers):
            connection.send(report)
        connection.send(None)
    except Exception as error:
        connection.send(error)


def _reports(shards: Sequence[Shard], job: Job, address: str, workers: int | None) -> Iterator[ShardReport]:
    with _cluster(address) as ray:
        # Ray would begin a task again for ever if memory is short, so the attempts are counted here.
        task, shared_job = ray.remote(num_cpus=1, max_retries=0)(_classify), ray.put(job)

        def wait(running: list[Any]) -> tuple[Any, ShardReport | None]:
            (ended,), _ = ray.wait(running)
            try:
                return ended, ray.get(ended)
            except ray.exceptions.RayTaskError as error:
                raise error.cause from None
            except ray.exceptions.RayError:  # the task is lost with its process or its machine
                return ended, None

        at_once = workers or int(ray.cluster_resources().get("CPU", 1))
        yield from classify_shards(shards, at_once, lambda shard: task.remote(shard, shared_job), wait)


def _classify(shard: Shard, job: Job) -> ShardReport:
    """The task; Ray computes matrix products in one thread by itself."""
    prepare_to_compute()
    return classify_shard(shard, job)


@contextmanager
def _cluster(address: str) -> Iterator[Any]:
    """Ray, connected. A host and port where nobody listens are refused: Ray itself would try for many minutes."""
    os.environ.update(SILENCE)
    need("--address", "ray", "ray")
    host, _, port = address.rpartition(":")
    try:
        if host and port.isdecimal() and "/" not in host:
            socket.create_connection((host, int(port)), CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise MhaError(f"--address {printable(address)}: {reason_of(error)}", START_HINT) from None
    import ray
    import ray.exceptions

    try:
        ray.init(address, logging_level=logging.ERROR, log_to_driver=False)
    except (ConnectionError, OSError, RuntimeError, ValueError) as error:
        raise MhaError(f"--address {printable(address)}: {reason_of(error)}", START_HINT, EXIT_FAILURE) from None
    try:
        signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
        yield ray
    finally:
        ray.shutdown()
