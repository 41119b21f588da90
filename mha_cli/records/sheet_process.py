"""A program that reads a workbook: its memory is limited, since a workbook of a few kilobytes may ask for terabytes. It imports no mha."""

import json
import resource
import sys
from contextlib import suppress
from datetime import datetime, time

MEMORY_BYTES = 1 << 30


def main(sheet: str) -> None:
    """Write, as JSON lines, the names of all sheets and the rows of one; or a string, what is wrong. Standard input is the workbook."""
    with suppress(OSError, ValueError):  # a system without such limits
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    from python_calamine import CalamineError, CalamineWorkbook

    try:
        sys.stdin.buffer.seek(0)
        workbook = CalamineWorkbook.from_filelike(sys.stdin.buffer)
        print(json.dumps(workbook.sheet_names))
        for row in workbook.get_sheet_by_name(sheet).iter_rows() if sheet in workbook.sheet_names else ():
            cells = [shown(cell) for cell in row]
            while cells and not cells[-1].strip():
                cells.pop()
            print(json.dumps(cells))
    except CalamineError as error:
        print(json.dumps(f"damaged, no workbook, or one with a password: {error}"))


def shown(value: object) -> str:
    """A cell as a person sees it: numbers with Excel's 15 digits, dates without midnight."""
    if isinstance(value, datetime):
        return value.date().isoformat() if value.time() == time() else value.isoformat(" ")
    return f"{value:.15g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    main(sys.argv[1])
