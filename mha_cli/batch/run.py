"""A batch from its inputs to its summary, and the processes that each take one shard after the other."""

import hashlib
import json
import time
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from multiprocessing import connection
from pathlib import Path

from mha_cli.batch.files import Folder, LocalFiles
from mha_cli.batch.part import Job, PartFormat, ShardReport, classify_shard
from mha_cli.batch.shards import Shard, every_nth, find_shards
from mha_cli.checkpoint.file import Checkpoint
from mha_cli.records.reader import USUAL, Dialect
from mha_cli.records.readers import Format
from mha_cli.runtime.classifier import Classifier
from mha_cli.runtime.inputs import refuse_column_of_plain_lines
from mha_cli.runtime.workers import Worker
from mha_cli.system.processor import available_cores

ATTEMPTS = 3  # starts of a shard whose process ends in the middle


@dataclass(frozen=True)
class BatchSummary:
    """The progress of a batch, or its result, as ``--json`` shows it.

    ``rows`` and ``unreadable`` count all parts, ``texts`` and ``warnings`` (by file) only those written now. ``failed`` has the faults
    by file, ``seconds`` the time since the files were found.
    """

    output: str
    model_sha256: str
    files: int
    written: int = 0
    earlier: int = 0
    failed: dict[str, str] = field(default_factory=dict)
    rows: int = 0
    unreadable: int = 0
    texts: int = 0
    warnings: dict[str, list[str]] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def done(self) -> int:
        """Files that nothing is left to do for."""
        return self.written + self.earlier + len(self.failed)

    @property
    def rate(self) -> float:
        """Texts per second; 0 before the first."""
        return self.texts / self.seconds if self.seconds else 0.0


def classify_archive(
    inputs: Sequence[str],
    output: str,
    checkpoint: Checkpoint,
    checkpoint_path: Path,
    *,
    workers: int | None = None,
    shard: str | None = None,
    record_format: Format | None = None,
    text_column: str | None = None,
    dialect: Dialect = USUAL,
    part_format: PartFormat = "jsonl",
) -> Generator[BatchSummary, None, None]:
    """Write a part and a manifest for every file; gives the progress at first and after each of them.

    Args:
        workers: processes that compute; None takes all cores, or one with ``shard``.
        shard: ``i/n`` to do every n-th file from the i-th on.
        record_format: format of the inputs; None takes each one's from its extension.
    """
    folder = Folder(output)
    shards: Sequence[Shard] = find_shards(inputs, record_format, folder)
    refuse_column_of_plain_lines(text_column, [each.record_format for each in shards])
    with checkpoint_path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    job = Job(Classifier(checkpoint), digest, folder, part_format, text_column, dialect=dialect)
    if shard is not None:
        shards, workers = every_nth(shards, shard), workers or 1
    shards = sorted(shards, key=lambda each: -each.size)
    folder.make()
    with folder.held(json.dumps([digest, part_format, record_format, text_column, *dialect])):
        summary, start = BatchSummary(folder.name, digest, len(shards)), time.monotonic()
        yield summary
        for report in classify_here(shards, job, workers or available_cores()):
            summary = replace(_with(summary, report), seconds=time.monotonic() - start)
            yield summary


def classify_here(shards: Sequence[Shard], job: Job, workers: int) -> Iterator[ShardReport]:
    """Reports of all shards, each as soon as it is there.

    The processes end with this iterator, and by themselves when this process is killed. If there are fewer shards than ``workers``,
    several processes share one. A shard whose process ends in the middle is begun up to ``ATTEMPTS`` times.
    """
    number = max(1, min(workers, len(shards)))
    work = partial(classify_shard, job=replace(job, workers=workers // number))
    # Clients of object stores, and their threads, do not survive a fork.
    local = all(isinstance(files, LocalFiles) for files in (job.output.files, *(shard.files for shard in shards)))
    left, running = deque((shard, 1) for shard in shards), dict[Worker, tuple[Shard, int]]()
    started, idle = list[Worker](), list[Worker]()
    try:
        while left or running:
            while left and len(running) < number:
                if not idle:
                    idle.append(Worker(work, "fork" if local else "spawn"))
                    started.append(idle[0])
                running[idle[-1]] = left.popleft()
                with suppress(OSError):  # the process has ended, as the answer will tell
                    idle[-1].connection.send(running[idle[-1]][0])
                idle.pop()
            ready = connection.wait([worker.connection for worker in running])
            ended = next(worker for worker in running if worker.connection in ready)
            shard, attempt = running.pop(ended)
            try:
                report = ended.connection.recv()
            except (EOFError, OSError):
                ended.end()
                if attempt < ATTEMPTS:
                    left.appendleft((shard, attempt + 1))
                    continue
                fault = f"{shard.name}: the process that read it has ended {ATTEMPTS} times; look at its memory"
                report = ShardReport(shard.name, fault=fault)
            else:
                idle.append(ended)
            if isinstance(report, Exception):
                raise report
            yield report
    finally:
        for worker in started:
            worker.end()


def _with(summary: BatchSummary, report: ShardReport) -> BatchSummary:
    if report.fault:
        return replace(summary, failed=summary.failed | {report.name: report.fault})
    counted = replace(summary, rows=summary.rows + report.rows, unreadable=summary.unreadable + report.unreadable)
    if report.earlier:
        return replace(counted, earlier=summary.earlier + 1)
    warnings = summary.warnings | ({report.name: report.warnings} if report.warnings else {})
    return replace(counted, written=summary.written + 1, texts=summary.texts + report.rows, warnings=warnings)
