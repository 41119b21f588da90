"""The pages of the documentation, and the command lines that they, the commands' help, and hints show."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typer.main import get_command

from mha_cli.cli.app import app

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "benchmarks" / "README.md", *sorted(DOCS.glob("*.md"))]
GROUP: Any = get_command(app)

BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# A command and what it is given; `mha train` alone is a name.
_INLINE = re.compile(r"`((?:mha (?:-|[\w-]+\s)|python )[^`]+)`")
_COMMENT = re.compile(r"\s+# .*")


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def shown_lines() -> dict[str, str]:
    """Every line of shell that is shown somewhere, with one of the places that show it."""
    found: dict[str, str] = {}
    for name, command in {"mha": GROUP, **GROUP.commands}.items():
        for line in whole_lines(command.epilog or ""):
            if "mha " in line:
                found.setdefault(line.removeprefix("Start with: "), f"the help of {name}")
    for page in PAGES:
        if page.name == "commands.md":  # its examples are those of the help
            continue
        text = page.read_text("utf-8")
        if page.name == "tutorial.md":  # its blocks build on each other; tests/test_docs.py runs them in order
            text = BLOCK.sub("", text)
        for line in lines_of(text):
            found.setdefault(line, relative(page))
    for path in sorted((ROOT / "mha_cli").rglob("*.py")):
        for line in _INLINE.findall(path.read_text("utf-8")):
            if "{" not in line:  # what an f-string puts together
                found.setdefault(line, relative(path))
    return found


def whole_lines(text: str) -> list[str]:
    """Lines of shell; one that ends in a backslash goes on in the next."""
    return re.sub(r"\\\n\s*", "", text).splitlines()


def lines_of(page: str) -> Iterator[str]:
    """The lines of shell in a page: in its blocks, and between backticks in its text."""
    for language, block in BLOCK.findall(page):
        for line in whole_lines(block):
            if line.startswith("$ ") or (language == "sh" and line.strip()):
                yield _COMMENT.sub("", line.removeprefix("$ "))
    for line in _INLINE.findall(BLOCK.sub("", page)):
        yield " ".join(line.split())


def text_block(page: str, command: str) -> str:
    """What a page shows below a command whose output differs from machine to machine; … stands for what differs."""
    text = (DOCS / page).read_text("utf-8")
    return next(
        block.partition("\n")[2] for language, block in BLOCK.findall(text) if language == "text" and block.startswith(f"$ {command}\n")
    )


def fits(output: str, shown: str) -> bool:
    """Whether output is what is shown, whatever it has for … and however wide its columns are."""
    output, shown = (" ".join(re.sub("[━─]+", "━", text).split()) for text in (output, shown))
    return re.fullmatch(".+?".join(map(re.escape, shown.split("…"))), output) is not None


def words_of(line: str) -> list[str]:
    """The words of a line of shell, operators such as | among them, without its comment."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    return list(lexer)


def mha_commands(line: str) -> Iterator[list[str]]:
    """The arguments of every ``mha`` command in a line of shell."""
    words: list[str] = []
    for word in [*words_of(line), ";"]:
        if not re.fullmatch(r"[();<>|&]+", word):
            words.append(word)
            continue
        names = [Path(word).name for word in words]
        if "mha" in names:
            yield words[names.index("mha") + 1 :]
        words = []
