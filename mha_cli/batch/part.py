"""From a shard to its part: a row per text, then the manifest, which marks the part as done."""

import hashlib
import json
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO, Any, Literal, TypeAlias, get_args

from mha_cli.batch.files import Folder
from mha_cli.batch.shards import Shard
from mha_cli.errors import EXIT_FAILURE, MhaError, reason_of
from mha_cli.records.lines import CHUNK_BYTES
from mha_cli.records.objects import json_line, plain_json
from mha_cli.records.parquet import parquet_writer
from mha_cli.records.reader import USUAL, Dialect, Reading, StreamWarnings
from mha_cli.records.readers import read_records
from mha_cli.records.record import Columns, Record
from mha_cli.records.spreadsheets import file_and_sheet
from mha_cli.runtime.classifier import Classifier, Prediction
from mha_cli.runtime.stream import Answering, Predicted
from mha_cli.system.remote_files import Status
from mha_cli.version import __version__

PartFormat: TypeAlias = Literal["jsonl", "parquet"]

UNREADABLE = "unreadable"  # flag of a row that could not be read
SHOWN_FAULTS = 10  # faults of rows in a manifest
MANIFEST_BYTES = 1 << 20  # more than a manifest has
NO_MANIFEST = (ValueError, LookupError, TypeError, FileNotFoundError, IsADirectoryError, RecursionError)
"""Errors of reading a manifest, or its part, that is missing, not ours, or of another version."""
GROUP_PROBABILITIES = 1 << 15  # probabilities in a row group of Parquet


class Unreadable(Record):
    """A record that could not be read."""


class ShardFault(MhaError):
    """A shard cannot be classified; others may be."""


@dataclass(frozen=True)
class Job:
    """What is the same for all shards."""

    classifier: Classifier
    model_sha256: str  # hash of the checkpoint's file
    output: Folder
    part_format: PartFormat = "jsonl"
    text_column: str | None = None  # column or key of the text; None takes that of the training data
    workers: int = 1  # processes that compute one shard; 1 is this one alone
    dialect: Dialect = USUAL

    @property
    def columns(self) -> Columns:
        """The column of the text."""
        return Columns(self.text_column or self.classifier.checkpoint.text_column)


@dataclass(frozen=True)
class ShardReport:
    """The result of a shard: a part, ``earlier`` if it was there already, or a ``fault``."""

    name: str
    rows: int = 0
    unreadable: int = 0
    earlier: bool = False
    fault: str = ""
    warnings: list[str] = field(default_factory=list)


def classify_shard(shard: Shard, job: Job) -> ShardReport:
    """Write the part of a shard, unless it is there already, done with the same model from the same bytes.

    If the shard cannot be read, an earlier part stays, unless it is of other bytes than the shard has now. The function may be called again
    after it was killed, and by several processes at once: names and bytes are the same each time.
    """
    try:
        status = _status(shard)
        return _earlier_report(shard, status, job) or _write_part(shard, status, job)
    except ShardFault as fault:
        return ShardReport(shard.name, fault=str(fault))
    except OSError as error:  # those of the shard are faults of it
        raise MhaError(f"{job.output.name}: {reason_of(error)}", "run it again: what is done stays", EXIT_FAILURE) from None


def manifest_name(shard: Shard) -> str:
    """The name of a part's manifest; it begins so that readers of a whole folder leave it out."""
    return f"_{shard.stem}.manifest.json"


def _write_part(shard: Shard, status: Status, job: Job) -> ShardReport:
    digest, faults = hashlib.sha256(), list[str]()
    rows = unreadable = 0

    def stand_in(fault: MhaError, line: int) -> Record:
        nonlocal unreadable
        unreadable += 1
        if unreadable <= SHOWN_FAULTS:
            faults.append(fault.message)
        return Unreadable("", b"", line=line)

    warnings = StreamWarnings(shard.guessed)
    reading = Reading(shard.name, job.columns, job.dialect, warnings, file_and_sheet(shard.path)[1], on_fault=stand_in)
    records = read_records(shard.record_format, _chunks(shard, digest), reading)
    files, part_name = job.output.files, f"{shard.stem}.{job.part_format}"
    as_lists = job.part_format == "jsonl" and job.classifier.checkpoint.config.is_multi_label
    with files.written(job.output / part_name) as file:
        with _row_writer(file, job.part_format, job.classifier.classes) as write_rows:

            def write(batch: list[Predicted]) -> None:
                nonlocal rows
                write_rows([{"file": shard.name, "row": number, **_cells(*pair, as_lists)} for number, pair in enumerate(batch, rows + 1)])
                rows += len(batch)

            try:
                Answering(job.classifier, job.workers).run(records, write)
            except MhaError as error:
                raise ShardFault(str(error)) from None
            if rows and rows == unreadable:
                raise ShardFault(f"{faults[0]}; nor can any other record be read")
            if _status(shard) != status:
                _remove(shard, job)  # an earlier part is of other texts now
                raise ShardFault(f"{shard.name}: has changed while it was read; run the same again")
        size, part_digest = _digest_of(file)
        _remove(shard, job, keep=job.part_format)
    manifest = {
        "version": __version__,
        "input": {"name": shard.name, **_settings(shard, job), **status._asdict(), "sha256": digest.hexdigest()},
        "model": {"sha256": job.model_sha256},
        "part": {"name": part_name, "size": size, "sha256": part_digest},
        "rows": rows,
        "unreadable": unreadable,
        "faults": faults,
        "warnings": warnings.lines,
    }
    with files.written(job.output / manifest_name(shard)) as file:
        file.write(plain_json(manifest, indent=1).encode() + b"\n")
    return ShardReport(shard.name, rows, unreadable, warnings=warnings.lines)


def _earlier_report(shard: Shard, status: Status, job: Job) -> ShardReport | None:
    """The report of an earlier part, if its manifest fits its bytes, and this job would write the same part.

    An earlier part of other bytes than the shard has now is removed.
    """
    part_name, settings = f"{shard.stem}.{job.part_format}", _settings(shard, job)
    try:
        with job.output.files.open(job.output / manifest_name(shard)) as file:
            manifest = json.loads(file.read(MANIFEST_BYTES))
        given, part, rows, unreadable = manifest["input"], manifest["part"], manifest["rows"], manifest["unreadable"]
        if not _has_bytes_of(shard, status, given):
            _remove(shard, job)
            return None
        same = manifest["model"] == {"sha256": job.model_sha256} and {name: given[name] for name in settings} == settings
        if not same or part["name"] != part_name:
            return None
        with job.output.files.open(job.output / part_name) as file:
            is_ours = part["sha256"] == hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]
        return ShardReport(shard.name, rows, unreadable, earlier=True) if is_ours and 0 <= unreadable <= rows else None
    except NO_MANIFEST:
        return None


def _has_bytes_of(shard: Shard, status: Status, given: dict[str, Any]) -> bool:
    """Whether a shard has the bytes that a manifest's input had; they are read only if the time has changed."""
    if given["size"] != status.size or given["modified_ns"] == status.modified_ns:
        return bool(given["size"] == status.size)
    digest = hashlib.sha256()
    deque(_chunks(shard, digest), maxlen=0)
    return bool(given["sha256"] == digest.hexdigest())


def _settings(shard: Shard, job: Job) -> dict[str, object]:
    return {"format": shard.record_format, "text_column": job.columns.text, **job.dialect._asdict()}


def _status(shard: Shard) -> Status:
    with _faults_of(shard):
        status = shard.files.status(shard.path)
    if status is None:
        raise ShardFault(f"{shard.name}: no such file")
    return status


def _chunks(shard: Shard, digest: Any) -> Iterator[bytes]:
    with _faults_of(shard), shard.files.open(shard.path) as file:
        while chunk := file.read(CHUNK_BYTES):
            digest.update(chunk)
            yield chunk


@contextmanager
def _faults_of(shard: Shard) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:
        raise ShardFault(f"{shard.name}: cannot be read: {reason_of(error)}") from None


def _remove(shard: Shard, job: Job, keep: PartFormat | None = None) -> None:
    """Remove the manifest of a shard, and its part in each format but one."""
    part_formats = [part_format for part_format in get_args(PartFormat) if part_format != keep]
    for name in (manifest_name(shard), *(f"{shard.stem}.{part_format}" for part_format in part_formats)):
        job.output.files.remove(job.output / name)


def _digest_of(file: IO[bytes]) -> tuple[int, str]:
    file.flush()
    with open(file.fileno(), "rb", closefd=False) as written:
        written.seek(0)
        digest = hashlib.file_digest(written, "sha256").hexdigest()
        return written.tell(), digest


def _cells(record: Record, prediction: Prediction, as_lists: bool) -> dict[str, object]:
    """The cells of a text in its row; ``as_lists``, several labels are a list under ``labels``."""
    label = "labels" if as_lists else "label"
    if isinstance(record, Unreadable):
        return {label: None, "probabilities": None, "flags": UNREADABLE}
    probabilities = {class_name: round(value, 6) for class_name, value in prediction.probabilities.items()}
    return {label: prediction.labels if as_lists else prediction.answer, "probabilities": probabilities, "flags": prediction.flags}


@contextmanager
def _row_writer(file: IO[bytes], part_format: PartFormat, class_names: Sequence[str]) -> Iterator[Callable[[list[Any]], object]]:
    """A function that writes rows; in Parquet, each class is a field of ``probabilities``."""
    if part_format == "jsonl":
        yield lambda rows: file.write(b"".join(map(json_line, rows)))
        return
    probabilities = dict.fromkeys(class_names, "float32")
    columns: dict[str, Any] = {"file": "string", "row": "int64", "label": "string", "probabilities": probabilities, "flags": "string"}
    with parquet_writer(file, columns, GROUP_PROBABILITIES // len(class_names)) as write:
        yield write
