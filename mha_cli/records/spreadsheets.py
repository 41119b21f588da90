"""Workbooks, .xlsx and .ods: the rows of one sheet, read by ``sheet_process``, and a sheet of answers."""

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain, count, islice
from typing import IO, Any

from mha_cli.errors import MhaError, need, printable
from mha_cli.records import sheet_process
from mha_cli.records.lines import MAX_LINE_BYTES
from mha_cli.records.parquet import row_too_long, whole_file
from mha_cli.records.reader import Reading
from mha_cli.records.record import Columns, shown_columns
from mha_cli.records.rows import Row
from mha_cli.records.tables import csv_row, header_among

LOOK_AHEAD = 100  # rows in which the header is looked for
_SHEET = re.compile(r"(.+\.(?:xlsx|ods))#(.+)", re.IGNORECASE | re.DOTALL)


def file_and_sheet(path: str) -> tuple[str, str]:
    """The file and the sheet that a path such as ``tickets.xlsx#May`` names; no sheet is empty."""
    match = _SHEET.fullmatch(path)
    return (match[1], match[2]) if match else (path, "")


def sheet_rows(pieces: Iterable[bytes], reading: Reading) -> Iterator[Row]:
    """The rows of a sheet from its header on, all as wide as that; the sheet is the one named, or the first with the columns.

    A row's ``lines`` is the row as CSV, its ``line`` the number of the row in the sheet.
    """
    name, columns = reading.name, reading.columns
    first: Row | None = None  # of all sheets
    with whole_file(pieces) as file:
        names = sheet_names(file, reading)
        for sheet in [reading.sheet] if reading.sheet else names:
            lines = islice(_output(file, sheet, name), 1, None)
            rows = (Row(cells, [csv_row(cells)], number) for number, cells in enumerate(lines, 1))
            ahead = list(islice(rows, LOOK_AHEAD))
            if (top := _header_at(ahead, columns)) is None:
                first = first or next((row for row in ahead if row.values), None)
                continue
            if len(names) > 1 and not reading.sheet:
                reading.warnings.note(f'{name}: the sheet "{printable(sheet)}" of {shown_columns(names)}; FILE#SHEET reads another')
            if skipped := sum(bool(row.values) for row in ahead[:top]):
                reading.warnings.note_titles(name, ahead[top].line, skipped)
            width = len(ahead[top].values)
            for row in chain(ahead[top:], rows):
                cells = (row.values + [""] * width)[:width]
                yield row._replace(values=cells if any(map(str.strip, cells)) else [])
            return
    if first:  # which is no header
        columns.find([cell.strip() for cell in first.values], f"{name}:{first.line}")


def sheet_names(file: IO[bytes], reading: Reading) -> list[str]:
    """The names of a workbook's sheets."""
    need(f"{reading.name}: a workbook", "sheets", "python_calamine")
    names: list[str] = next(_output(file, "", reading.name))
    if reading.sheet and reading.sheet not in names:
        raise MhaError(f'{reading.name}: no sheet "{printable(reading.sheet)}" among {shown_columns(names)}', "name one of them")
    return names


def _header_at(rows: Sequence[Row], columns: Columns) -> int | None:
    """The row that names the columns, or if all are numbers, the first one with as many filled cells as half of the rows."""
    if columns.has_header:
        header = header_among(zip(rows), columns, wider=False)
        return header and rows.index(header)
    filled = [sum(map(bool, map(str.strip, row.values))) for row in rows]
    usual = sorted(filter(None, filled))
    least = usual[(len(usual) - 1) // 2] if usual else 1
    for at, row in enumerate(rows):
        with suppress(MhaError):
            if filled[at] >= least:
                columns.find([cell.strip() for cell in row.values], "")
                return at
    return None


def _output(file: IO[bytes], sheet: str, name: str) -> Iterator[Any]:
    """What ``sheet_process`` writes of a workbook: the names of its sheets, and the cells of each row of one."""
    import subprocess  # slow

    program = [sys.executable, "-P", sheet_process.__file__, sheet]
    with subprocess.Popen(program, stdin=file, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        try:
            for number, line in enumerate(process.stdout or ()):
                if len(line) > MAX_LINE_BYTES:
                    raise row_too_long(name, number)
                if isinstance(value := json.loads(line), str):
                    raise MhaError(f"{name}: {printable(value, 200)}", "save it again, or as CSV in UTF-8")
                yield value
            if process.wait():
                memory = f"{sheet_process.MEMORY_BYTES >> 30} GiB of memory"
                raise MhaError(f"{name}: its cells take more than {memory}", "save the sheet as CSV in UTF-8")
        finally:
            process.kill()


@contextmanager
def sheet_writer(file: IO[bytes], names: Sequence[str]) -> Iterator[Callable[[Iterable[Sequence[str | float | None]]], None]]:
    """A function that writes rows to a new workbook below these names; strings stay strings, whatever they begin with."""
    from xlsxwriter import Workbook

    numbers = count()
    with Workbook(file, {"constant_memory": True}) as workbook:
        sheet = workbook.add_worksheet()

        def write(rows: Iterable[Sequence[str | float | None]]) -> None:
            for row, number in zip(rows, numbers, strict=False):
                for at, cell in enumerate(row):
                    put = sheet.write_number if isinstance(cell, float) else sheet.write_string
                    if put(number, at, "" if cell is None else cell):
                        fault = f"--output: row {number + 1:,} of the sheet, a cell of {len(str(cell)):,} characters"
                        raise MhaError(fault, "a workbook holds 1,048,576 rows and 32,767 characters per cell; write .csv")

        write([names])
        yield write
