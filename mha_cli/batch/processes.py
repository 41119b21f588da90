"""The shards on this machine: processes that each take one after the other."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from multiprocessing.connection import Connection, wait

from mha_cli.batch.files import LocalFiles
from mha_cli.batch.part import ATTEMPTS, Job, ShardReport, classify_shard, given_up
from mha_cli.batch.shards import Shard
from mha_cli.runtime.workers import Worker


def classify_here(shards: Sequence[Shard], job: Job, workers: int) -> Iterator[ShardReport]:
    """Reports of all shards, which begin in their order, each as soon as it is there.

    A process that ends in the middle of a shard is replaced, and the shard is begun again. The processes end with this iterator, and by
    themselves when this process is killed. If there are fewer shards than ``workers``, several processes share one.
    """
    number = max(1, min(workers, len(shards)))
    work = partial(classify_shard, job=replace(job, workers=workers // number))
    # Clients of object stores, and their threads, do not survive a fork.
    local = all(isinstance(files, LocalFiles) for files in (job.output.files, *(shard.files for shard in shards)))
    left = deque((shard, 1) for shard in shards)
    idle: list[Worker] = []
    busy: dict[Connection, tuple[Worker, Shard, int]] = {}
    try:
        while left or busy:
            while left and len(busy) < number:
                worker = idle.pop() if idle else Worker(work, "fork" if local else "spawn")
                busy[worker.connection] = worker, *left.popleft()
                with suppress(OSError):  # the process has ended, as the answer will tell
                    worker.connection.send(busy[worker.connection][1])
            ready = wait([*busy])
            for connection in [connection for connection in busy if connection in ready]:
                worker, shard, attempt = busy.pop(connection)
                try:
                    report = worker.connection.recv()
                except (EOFError, OSError):
                    worker.end()
                    if attempt < ATTEMPTS:
                        left.appendleft((shard, attempt + 1))
                    else:
                        yield given_up(shard)
                    continue
                idle.append(worker)
                if isinstance(report, Exception):
                    raise report
                yield report
    finally:
        for worker in [*idle, *(worker for worker, _, _ in busy.values())]:
            worker.end()
