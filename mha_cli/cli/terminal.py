"""The surroundings of a command: streams that are closed or take few characters, and sizes that no terminal has."""

from __future__ import annotations

import codecs
import io
import os
import re
import sys
from collections.abc import MutableMapping

STAND_INS = str.maketrans({"░": ".", "▒": "+", "▓": "#", "█": "@", "–": "-", "×": "x", "±": "+-", "…": "..."})
"""Characters for our own ones that the encoding lacks; others are escaped."""

SIZES = ("COLUMNS", "LINES", "TERMINAL_WIDTH")
"""Environment variables that Rich and Typer take for sizes of the terminal."""


def prepare_streams() -> None:
    """Make stdout and stderr take any text, whatever their encoding; what goes to a closed one is lost, as in /dev/null."""
    codecs.register_error("mha.stand_in", _stand_in)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # Python alone would fail, or print to the other one
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 (it stays open to the end)
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="mha.stand_in")


def forget_odd_sizes(environment: MutableMapping[str, str] = os.environ) -> None:
    """Leave out sizes that Rich would take at their word, and fail or fill the memory."""
    for name in SIZES:
        if not re.fullmatch("[1-9][0-9]{0,3}", environment.get(name, "80")):
            del environment[name]


def _stand_in(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    text = error.object[error.start : error.end].translate(STAND_INS)
    return text.encode("ascii", "backslashreplace").decode("ascii"), error.end
