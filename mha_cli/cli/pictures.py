"""Figures as files: PNG, SVG, PDF."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from mha_cli.cli.output import refuse_output
from mha_cli.errors import EXIT_FAILURE, MhaError, shown_path
from mha_cli.system.whole_files import atomic_write

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = (".png", ".svg", ".pdf")
_NO_GLYPH = re.compile(r"Glyph (\d+) .*missing from font", re.DOTALL)


def refuse_picture(path: Path, option: str = "--plot") -> None:
    """Refuse a file name whose extension is none of ``FORMATS``; otherwise as ``refuse_output``."""
    if path.suffix.lower() not in FORMATS:
        raise MhaError(f"{option} {shown_path(path)}: unknown kind of picture", f"end the name in {', '.join(FORMATS)}")
    refuse_output(option, path)


def save_picture(figure: Figure, path: Path) -> set[str]:
    """Write a picture; return the characters that are boxes in it, because the font has no glyph for them."""
    try:
        with atomic_write(path) as file, warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            figure.savefig(file, format=path.suffix.lower().removeprefix("."), dpi=150)
    except ValueError as error:
        raise MhaError(f"{shown_path(path)}: cannot be drawn: {error}", exit_code=EXIT_FAILURE) from None
    return {chr(int(found[1])) for warning in caught if (found := _NO_GLYPH.match(str(warning.message)))}
