"""The examples that pages, the commands' help and hints show: lines of shell and blocks of Python."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from typer.main import get_command

from mha_cli.cli.app import app
from mha_cli.cli.command import COMMANDS, load_command

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "benchmarks" / "README.md", *sorted(DOCS.glob("*.md"))]
GROUP: Any = get_command(app)
GROUP.commands = {name: load_command(name) for name in COMMANDS}

BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# A command with arguments, at the start or after a pipe; `mha train` alone is a name.
_INLINE = re.compile(r"`((?:[^`\n]*\| )?(?:mha (?:-|[\w-]+\s)|python )[^`]+)`")
_COMMENT = re.compile(r"\s+# .*")


class Example(NamedTuple):
    """Something to run that a page shows."""

    place: str  # page and line, or the help or source file that shows it
    language: str  # ``sh`` or ``python``
    code: str  # one line of shell, a shell block with a here-document, or a block of Python
    shown: str = ""  # the output that the page shows in a block of its own below Python


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def examples() -> dict[str, list[Example]]:
    """The examples of every page, help text and source file with hints, in their order."""
    found = {}
    for path in PAGES:
        if path.name not in ("commands.md", "errors.md"):  # help texts, and commands that fail
            found[relative(path)] = list(examples_of(path))
    for name, command in {"mha": GROUP, **GROUP.commands}.items():
        lines = [line.removeprefix("Start with: ") for line in whole_lines(command.epilog or "") if "mha " in line]
        found[f"the help of {name}"] = [Example(f"the help of {name}", "sh", line) for line in lines]
    for path in sorted((ROOT / "mha_cli").rglob("*.py")):
        hints = [line for line in _INLINE.findall(path.read_text("utf-8")) if "{" not in line]  # no f-strings
        found[relative(path)] = [Example(relative(path), "sh", line) for line in hints]
    return {name: shown for name, shown in found.items() if shown}


def examples_of(path: Path) -> Iterator[Example]:
    """The examples in the blocks of a page and between backticks in its text."""
    page, end, place = path.read_text("utf-8"), 0, ""
    for match in (*BLOCK.finditer(page), None):
        start = match.start() if match else len(page)
        for line in _INLINE.finditer(page, end, start):
            yield Example(f"{relative(path)}:{page.count(chr(10), 0, line.start()) + 1}", "sh", " ".join(line[1].split()))
        if match is None:
            return
        end, (language, block) = match.end(), match.groups()
        place = f"{relative(path)}:{page.count(chr(10), 0, start) + 1}"
        if path.name == "tutorial.md":  # tests/test_docs.py runs its blocks, with real trainings
            continue
        if language == "python":
            output = re.match(r"\n\n```text\n([^$].*?)^```$", page[end:], re.MULTILINE | re.DOTALL)
            yield Example(place, language, block, output[1] if output else "")
        for line in [block] if "<<" in block else whole_lines(block):
            if line.startswith("$ ") or (language == "sh" and line.strip() and not line.startswith("#")):
                yield Example(place, "sh", _COMMENT.sub("", line.removeprefix("$ ")))


def whole_lines(text: str) -> list[str]:
    """Lines of shell; one that ends in a backslash goes on in the next."""
    return re.sub(r"\\\n\s*", "", text).splitlines()


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
