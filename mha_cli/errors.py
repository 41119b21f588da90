"""Errors that the user can read in one line, and the exit codes that go with them."""

import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path

EXIT_FAILURE = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130

JOINT = "\x1f"
"""What joins the parts of a text that comes from several columns, and the names of these columns. A tokenizer takes it for white space."""

MOST_NAMES = 30  # names in one line of a message


class MhaError(Exception):
    """Something went wrong that one line can explain.

    Every public function raises it for what its user can correct: files, settings and texts that do not fit. Docstrings do not repeat that.

    Args:
        message: fault, location and the value that was found.
        hint: next thing to do; printed after the message.
        exit_code: 2 for a fault that the user can correct (the default), 1 for any other.
    """

    def __init__(self, message: str, hint: str = "", exit_code: int = EXIT_USAGE) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.exit_code = exit_code

    def __str__(self) -> str:
        """The one line: message, then the way out."""
        return f"{self.message}; {self.hint}" if self.hint else self.message


def need(user: str, extra: str, *modules: str) -> None:
    """Refuse a command or an option (``user``) if modules are missing that an extra of ``mha`` installs."""
    if missing := [module.replace("_", "-") for module in modules if find_spec(module) is None]:
        raise MhaError(f"{user} needs {', '.join(missing)}", f"pip install -e '.[{extra}]' in your copy of mha's repository")


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A hint that names the closest known word, or lists them when none is close."""
    choices = sorted(known)
    return closest(word, choices) or f"choose from {listed(choices)}"


def closest(word: str, known: Iterable[str]) -> str:
    """A hint that names the closest known word; empty when none is close."""
    close = get_close_matches(word, sorted(known), n=1, cutoff=0.6)
    return f"did you mean {close[0]}?" if close else ""


def listed(names: Sequence[str], most: int = MOST_NAMES) -> str:
    """Names in one line: all of them, or the first and how many more there are. They are shown as they are; see ``printable``."""
    more = len(names) - most
    return ", ".join(names) if more <= 0 else f"{', '.join(names[:most])} and {more:,} more"


def plural(number: int, noun: str) -> str:
    """A number and what it counts: ``1 text``, ``2,000 texts``, ``3 classes``."""
    return f"{number:,} {noun}{'' if number == 1 else 'es' if noun.endswith('s') else 's'}"


def printable(text: str, limit: int = 80) -> str:
    """Text from outside, safe to show in one line: control characters escaped, cut to ``limit`` characters.

    Nothing that a file or a stream holds may move the cursor, change colours or break the line it is shown in. A plus stands between the
    parts of a text.
    """
    cut = (text if len(text) <= limit else text[: limit - 1] + "…").replace(JOINT, " + ")
    if cut.isprintable():
        return cut
    return "".join(char if char.isprintable() else char.encode("unicode_escape", "backslashreplace").decode("ascii") for char in cut)


def reason_of(error: BaseException, limit: int = 200) -> str:
    """What the system or a library says of an error, in one line of ``limit`` characters."""
    return printable(getattr(error, "strerror", None) or str(error).strip().partition("\n")[0] or type(error).__name__, limit)


def shown_path(path: Path | str) -> str:
    """A path in messages."""
    return printable(without_secrets(str(path)), 200)


def without_secrets(path: str) -> str:
    """A URI, or a message with one, without passwords and settings; any other path as it is."""
    return re.sub(r"(?<=://)[^/@]*@|\?.*", "", path) if "://" in path else path
