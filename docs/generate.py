"""Write what follows from the code: whole pages, and below the examples of the others what they print.

``commands.md`` comes from the commands' help, ``config.md`` from the config models, ``errors.md`` from the table of bad input. In all other
pages every line of a ``console`` block that begins with ``$`` is run, and its output takes the place of what stands below it.
``figures/terminal.svg`` is a picture of such lines on a terminal with colours.

``python docs/generate.py`` writes them; with ``--check`` it writes nothing, names every page that is out of date, and then exits with 1.
Pages that other versions of Typer or Rich have drawn cannot be checked, and it names them, too.
"""

from __future__ import annotations

import inspect
import io
import json
import os
import pty
import re
import runpy
import subprocess
import sys
import types
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

import annotated_types
from pydantic import BeforeValidator, PlainSerializer
from rich.console import Console
from rich.text import Text
from typer.main import get_command

from mha_cli.cli.app import app
from mha_cli.config.settings import Config, Settings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pydantic.fields import FieldInfo

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
COLUMNS = 100
"""Of the help; examples have 80, the width of a terminal that does not tell its own."""
PROGRAM = "from mha_cli.cli.app import main; main()"
HELP_PROGRAM = """
import sys
from mha_cli.cli.app import app
for command in sys.argv[1:]:
    app([*command.split(), "--help"], prog_name="mha", standalone_mode=False)
    print(end="\\0")
"""
PICTURED = (
    'mha predict "A superb, moving film." "Great cast, awful script."',
    'mha explain "Great music, weak plot, still worth watching."',
)
CONSOLE = re.compile(r"(?<=^```console\n).*?(?=^```$)", re.MULTILINE | re.DOTALL)

COMMANDS_INTRO = """# Commands

What `mha --help` and the `--help` of every command print. Error messages go to stderr, as one line. The exit code is 0 when all went well,
2 for what you can correct (an option, a file, a setting), 1 for the rest and 130 for Ctrl-C; `MHA_DEBUG=1` adds the traceback.
"""

CONFIG_INTRO = """# Settings

Every setting of a config. A recipe is a YAML file with these sections; what it leaves out has the default.
`--set SECTION.SETTING=VALUE` changes one setting for one run (`--set model.num_heads=8`; at the top level `--set seed=1`).
An unknown setting is refused, and so is a value of another type or outside its range.
"""

ERRORS_INTRO = """# Errors

An error is one line on stderr: `error:`, what is wrong, where, the value that was found, and what to do next. Nothing is written, and
existing files stay as they are. The exit code is 2 for what you can correct, 1 for the rest and 130 for Ctrl-C. `MHA_DEBUG=1` adds the
traceback.

The tables show one case of each kind of error. In them, … matches anything, and _works_ marks input that is odd but no error. The files of
the examples:

- `good.keras` is a checkpoint, `sample.yaml` a config on the built-in sample.
- `reviews.csv` is a table of labelled texts, `mine.yaml` a config on this table.
- `finished` and `unfinished` are run directories, `tried` is one without a history.
- `mine` is a folder with other files, `file` is a file, and `loop` is a link to itself.

Every row is a case in `tests/cli/bad_input.py`, which a test runs through the command.
"""

KINDS = {bool: "`true` or `false`", int: "whole number", float: "number", str: "text", type(None): "`null`"}


def pages() -> dict[str, str]:
    """The text of every page of which something is generated, by its path in the repository."""
    whole = {"docs/commands.md": commands_page(), "docs/config.md": config_page(), "docs/errors.md": errors_page()}
    whole["docs/figures/terminal.svg"] = terminal_picture(PICTURED)
    return whole | {name: with_output(text) for name, text in hand_written().items() if CONSOLE.search(text)}


def hand_written() -> dict[str, str]:
    """The README and the pages beside this script, by path; the first line of the others says that they are generated."""
    paths = [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]
    texts = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in paths}
    return {name: text for name, text in texts.items() if not text.startswith("<!-- Written by docs/generate.py")}


def write_pages(root: Path = ROOT) -> None:
    """Write every generated page."""
    for name, text in pages().items():
        (root / name).write_text(text, encoding="utf-8")


def outdated(root: Path = ROOT) -> tuple[list[str], list[str]]:
    """Paths of the pages that ``write_pages`` would change, and of those that cannot be checked.

    These are what other versions of Typer or Rich have drawn: they word and frame the same help differently.
    """
    changed, unchecked = [], []
    for name, text in pages().items():
        path = root / name
        found = path.read_text(encoding="utf-8") if path.exists() else ""
        if found != text:
            (unchecked if _drawn_by_others(found) else changed).append(name)
    return changed, unchecked


# Examples


def with_output(page: str) -> str:
    """A page with what the commands of its console blocks print now."""

    def run(block: re.Match[str]) -> str:
        commands = [line for line in block[0].splitlines() if line.startswith("$ ")]
        return "".join(f"{line}\n{output(line[2:])}" for line in commands)

    return CONSOLE.sub(run, page)


def output(line: str, **environment: str) -> str:
    """What a line of shell prints on a terminal, beside the recipes and where nothing is trained: the model that comes with mha answers.

    Left out is the line that tells where that model lies, and white space at the ends of lines. There are no colours by default.
    """
    with TemporaryDirectory() as folder:
        Path(folder, "configs").symlink_to(ROOT / "configs")
        shown = on_terminal(line, Path(folder), **environment)
    return "".join(f"{row.rstrip()}\n" for row in shown.splitlines() if not row.startswith("using "))


def on_terminal(line: str, folder: Path, **environment: str) -> str:
    """What lines of shell print on a terminal in a folder."""
    ours, theirs = pty.openpty()
    script = f'mha() {{ "{sys.executable}" -c "{PROGRAM}" "$@"; }}; {line}'
    environment = _environment(columns=80) | {"PYTHONPATH": str(ROOT)} | environment
    process = subprocess.Popen(["sh", "-c", script], env=environment, cwd=folder, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    with open(ours, "rb", buffering=0) as terminal:
        shown = b"".join(iter(lambda: _read(terminal), b"")).decode()
    process.wait()
    return shown


def terminal_picture(lines: Sequence[str]) -> str:
    """Lines of shell on a terminal, and what they print, as an SVG that loads no font from elsewhere."""
    columns = 86  # what the longest line needs
    console = Console(record=True, width=columns, file=io.StringIO())
    for line in lines:
        console.print(Text.assemble(("$ ", "bold green"), line))
        console.print(Text.from_ansi(output(line, NO_COLOR="", TERM="xterm-256color", COLUMNS=str(columns))))
    drawn = console.export_svg(title="mha", unique_id="terminal")
    return _drawn_by() + re.sub(r"\s*@font-face {.*?}", "", drawn, flags=re.DOTALL)


def _read(terminal: Any) -> bytes:
    try:
        return terminal.read(65536)
    except OSError:  # how Linux says that nobody holds the other end
        return b""


def _environment(columns: int) -> dict[str, str]:
    """None of the caller's own settings for colours, width and language."""
    return {"COLUMNS": str(columns), "NO_COLOR": "1", "TERM": "dumb", "PYTHONUTF8": "1", "PATH": os.environ.get("PATH", "")}


# Commands


def commands_page() -> str:
    """``--help`` of every command, in the order in which ``mha --help`` names them."""
    parts = [_drawn_by(), COMMANDS_INTRO]
    commands = ["", *command_names()]
    for command, text in zip(commands, help_texts(commands), strict=True):
        title = f"mha {command}".strip()
        parts.append(f"## {title}\n\n```text\n{text}\n```\n")
    return "\n".join(parts)


def command_names() -> list[str]:
    """Names of all commands."""
    group: Any = get_command(app)
    return list(group.commands)


def help_texts(commands: Sequence[str]) -> list[str]:
    """The help of commands as a plain terminal shows it; the empty one is ``mha`` itself."""
    arguments = [sys.executable, "-c", HELP_PROGRAM, *commands]
    environment = _environment(COLUMNS)
    shown = subprocess.run(arguments, env=environment, cwd=ROOT, capture_output=True, check=True, encoding="utf-8").stdout
    return ["\n".join(line.rstrip() for line in text.strip("\n").splitlines()).strip("\n") for text in shown.split("\0")[:-1]]


def _drawn_by() -> str:
    return f"<!-- Written by docs/generate.py with {_versions()}; do not edit. -->\n"


def _versions() -> str:
    return f"Typer {version('typer')} and Rich {version('rich')}"


def _drawn_by_others(page: str) -> bool:
    return page.startswith("<!-- Written by docs/generate.py with ") and not page.startswith(_drawn_by())


# Settings


def config_page() -> str:
    """A table for the top level and for every section of the config; one for each source of the data."""
    fields = Config.model_fields
    sections = {name: _models(field.annotation) for name, field in fields.items()}
    parts = ["<!-- Written by docs/generate.py; do not edit. -->\n", CONFIG_INTRO]
    parts.append(_section("Top level", Config, {name: field for name, field in fields.items() if not sections[name]}))
    for name, models in sections.items():
        for model in models:
            source = model.model_fields.get("source")
            title = f"`{name}`" + (f", source {_kind(source.annotation)}" if source is not None else "")
            parts.append(_section(title, model, model.model_fields))
    return "\n".join(parts)


def _section(title: str, model: type[Settings], fields: Mapping[str, FieldInfo]) -> str:
    lines = [f"## {title}\n", f"{inspect.getdoc(model)}\n", "| setting | type | range | default | meaning |", "|---|---|---|---|---|"]
    for name in sorted(fields, key=lambda name: name != "source"):
        field = fields[name]
        row = (f"`{name}`", _kind(field.annotation), _range(field), _default(field), field.description or "")
        lines.append("| " + " | ".join(cell.replace("|", r"\|") for cell in row) + " |")
    return "\n".join(lines) + "\n"


def _models(annotation: Any) -> list[type[Settings]]:
    """The config models that a field may hold; none for a plain setting."""
    return [part for part in get_args(annotation) or (annotation,) if isinstance(part, type) and issubclass(part, Settings)]


def _kind(annotation: Any) -> str:
    if get_origin(annotation) is Literal:
        return ", ".join(f"`{choice}`" for choice in get_args(annotation))
    if get_origin(annotation) in {types.UnionType, Union}:
        return " or ".join(_kind(part) for part in get_args(annotation))
    if get_origin(annotation) is list:
        return f"list of {_kind(get_args(annotation)[0])}"
    if get_origin(annotation) is dict:
        return f"mapping of {' to '.join(map(_kind, get_args(annotation)))}"
    if get_origin(annotation) is Annotated:
        kind, *rules = get_args(annotation)
        return " ".join([_kind(kind), *(_range(rule) for rule in rules if hasattr(rule, "metadata"))])
    return KINDS[annotation]


def _range(field: FieldInfo) -> str:
    limits = []
    for rule in field.metadata:
        match rule:
            case annotated_types.Gt():
                limits.append(f"> {_number(rule.gt)}")
            case annotated_types.Ge():
                limits.append(f"≥ {_number(rule.ge)}")
            case annotated_types.Lt():
                limits.append(f"< {_number(rule.lt)}")
            case annotated_types.Le():
                limits.append(f"≤ {_number(rule.le)}")
            case annotated_types.MinLen() if rule.min_length == 1:
                limits.append("not empty")
            case annotated_types.MaxLen():
                limits.append(f"≤ {rule.max_length} {'entries' if get_origin(field.annotation) is list else 'characters'}")
            case BeforeValidator() | PlainSerializer():  # it takes other types, and the meaning says which
                pass
            case _:
                raise ValueError(f"no words for the rule {rule!r}")
    return ", ".join(limits)


def _number(value: Any) -> str:
    return f"{value:,}"


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    return f"`{field.default if isinstance(field.default, str) else json.dumps(field.default)}`"


# Errors


def errors_page() -> str:
    """A table for every section of the table of bad input."""
    sections = runpy.run_path(str(ROOT / "tests" / "cli" / "bad_input.py"))["SECTIONS"]
    parts = ["<!-- Written by docs/generate.py; do not edit. -->\n", ERRORS_INTRO]
    for title, cases in sections.items():
        lines = [f"## {title}\n", "| what is given | exit code | what mha says |", "|---|---|---|"]
        for case in cases:
            said = "_works_" if case.message == "works" else _verbatim(case.message)
            row = (case.given or _verbatim(f"mha {case.args}"), str(case.code), said)
            lines.append("| " + " | ".join(_harmless(cell) for cell in row) + " |")
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def _verbatim(text: str) -> str:
    """Text as code in Markdown; backticks inside need more of them around it."""
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def _harmless(cell: str) -> str:
    return cell.replace("|", r"\|")


def main(arguments: list[str]) -> int:
    """Write the pages, or with ``--check`` name those that are out of date; returns the exit code."""
    if arguments not in ([], ["--check"]):
        print("usage: python docs/generate.py [--check]", file=sys.stderr)
        return 2
    if not arguments:
        write_pages()
        return 0
    names, unchecked = outdated()
    if unchecked:
        print(f"not checked: {', '.join(unchecked)}: not drawn with {_versions()}, which are installed here", file=sys.stderr)
    for name in names:
        print(f"{name} is out of date; run python docs/generate.py", file=sys.stderr)
    return 1 if names else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
