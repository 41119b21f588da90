"""Output of a command: answers to stdout or into a whole file, pictures, and checks of paths before any work."""

from __future__ import annotations

import gzip
import os
import re
import signal
import stat
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import IO, TYPE_CHECKING, Literal, TypeAlias, cast

from mha_cli.errors import EXIT_FAILURE, MhaError, need, plural, reason_of, shown_path
from mha_cli.records.readers import EXTENSIONS, Format, extension_of
from mha_cli.sources.raw_files import byte_order_mark_of
from mha_cli.system.whole_files import Stream, atomic_write

if TYPE_CHECKING:
    from matplotlib.figure import Figure

AnswerFormat: TypeAlias = Literal["tsv", "terminal", "records", "csv", "jsonl", "parquet", "spreadsheet"]
PICTURES = (".png", ".svg", ".pdf")
_NO_GLYPH = re.compile(r"Glyph (\d+) .*missing from font", re.DOTALL)
_WRITTEN_AS: dict[Format, Format] = {"parquet": "jsonl", "spreadsheet": "csv"}  # formats of records from files that are no lines
NOT_WRITTEN = {".xls", ".ods", ".zip", ".bz2", ".xz", ".zst"}


def answer_format(output: Path | None, as_json: bool, records: Sequence[Format] = (), option: str = "") -> AnswerFormat:
    """The format of answers: ``records`` unchanged, if their formats are given; else the name of the output file decides.

    Without an output file it is JSON lines if asked for, lines to be read on a terminal, or lines with tabs.
    """
    if output is None:
        return "records" if records else "jsonl" if as_json else "terminal" if sys.stdout.isatty() else "tsv"
    written = {_WRITTEN_AS.get(record_format, record_format) for record_format in records}
    extension, name = extension_of(output.name), f"{option or '--output'} {shown_path(output)}"
    by_name = EXTENSIONS.get(extension)
    if extension in NOT_WRITTEN or (by_name in _WRITTEN_AS and output.suffix.lower() == ".gz") or (by_name == "fasttext" and not written):
        hint = "name a .csv, .tsv, .jsonl, .parquet or .xlsx file; .gz may follow the first three"
        raise MhaError(f"{name}: mha writes no such files", hint)
    if by_name is not None and (others := written - {by_name}):
        hint = "name a file of that format" + ("" if option else ", or add --field")
        raise MhaError(f"{name}: {option or '--only'} writes records as they came, here in the format {min(others)}", hint)
    if by_name == "spreadsheet":
        need(name, "sheets", "xlsxwriter")
    if as_json and by_name not in (None, "jsonl"):
        raise MhaError(f"--json contradicts {name}", "leave --json out, or name a .jsonl file")
    return "records" if records else cast(AnswerFormat, by_name or ("jsonl" if as_json else "tsv"))


@contextmanager
def opened_output(path: Path | None, inputs: Sequence[str] = ()) -> Iterator[IO[bytes]]:
    """A file to write to, gzipped if its name ends in ``.gz``, or stdout without a path. CSV begins with the mark of the inputs.

    If the reader of a pipe has left, the process ends as every Unix tool does, by SIGPIPE and without a message.
    """
    try:
        if path is None:
            yield Stream(sys.stdout.fileno(), "w", closefd=False)
        else:
            is_packed = path.suffix.lower() == ".gz"
            with atomic_write(path) as file, gzip.GzipFile("", "wb", fileobj=file, mtime=0) if is_packed else nullcontext(file) as opened:
                opened.write(byte_order_mark_of(inputs) if extension_of(path.name) == ".csv" else b"")
                yield cast(IO[bytes], opened)
    except BrokenPipeError:
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGPIPE)


def refuse_output(option: str, path: Path | None, *, new: bool = False) -> None:
    """Refuse a path that no file can be written to, before any work is done; a ``new`` file may not exist yet."""
    if path is None:
        return
    name = f"{option} {shown_path(path)}"
    try:
        status = os.lstat(path) if new else os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        if not os.path.isdir(path.parent):
            raise MhaError(f"{name}: its folder does not exist", "make it first") from None
        return
    except OSError as error:
        raise MhaError(f"{name}: {reason_of(error)}", "choose another name") from None
    if new:
        raise MhaError(f"{name}: exists", "choose another name, or remove it")
    if stat.S_ISDIR(status.st_mode):
        raise MhaError(f"{name}: is a folder", "give the name of a file")


def refuse_picture(path: Path | None, option: str = "--plot") -> None:
    """Refuse a file name whose extension is none of ``PICTURES``; otherwise as ``refuse_output``."""
    if path is not None and path.suffix.lower() not in PICTURES:
        raise MhaError(f"{option} {shown_path(path)}: unknown kind of picture", f"end the name in {', '.join(PICTURES)}")
    refuse_output(option, path)


def save_picture(figure: Figure, path: Path) -> set[str]:
    """Write a picture; return the characters that are boxes in it, because the font has no glyph for them."""
    try:
        with atomic_write(path) as file, warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            figure.savefig(file, format=path.suffix.lower().removeprefix("."), dpi=150)
    except ValueError as error:
        raise MhaError(f"{shown_path(path)}: cannot be drawn: {error}", exit_code=EXIT_FAILURE) from None
    return {chr(int(match[1])) for warning in caught if (match := _NO_GLYPH.match(str(warning.message)))}


@contextmanager
def counter(shown: bool) -> Iterator[Callable[[int], None]]:
    """A function that counts further texts, if ``shown``, in a line on a terminal that appears after half a second and stays."""
    shown = shown and sys.stderr.isatty() and os.environ.get("TERM") not in {"dumb", "unknown"}
    count, start, drawn = 0, time.monotonic(), 0.0

    def draw(end: str) -> None:
        nonlocal drawn
        drawn = time.monotonic() - start
        line = f"{plural(count, 'text')} in {drawn:,.1f} s, {count / drawn:,.0f} texts/s"
        print(f"\r\x1b[K{line}", end=end, file=sys.stderr, flush=True)

    def add(number: int) -> None:
        nonlocal count
        count += number
        if shown and time.monotonic() - start >= (drawn + 0.2 if drawn else 0.5):
            draw("")

    try:
        yield add
    finally:
        if drawn:
            draw("\n")
