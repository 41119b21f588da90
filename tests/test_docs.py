"""The documentation says what the code does: generated pages, links, example commands, recipes."""

from __future__ import annotations

import importlib.util
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import typer
from typer.main import get_command

from mha_cli.cli.app import app
from mha_cli.config import load_config
from mha_cli.recipes import find_config, recipe_names

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted(DOCS.glob("*.md"))]
GROUP: Any = get_command(app)

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
RECIPE = re.compile(r"\bconfigs/[\w-]+\.yaml\b")


@pytest.fixture(scope="module")
def generate() -> ModuleType:
    """docs/generate.py as a module."""
    spec = importlib.util.spec_from_file_location("docs_generate", DOCS / "generate.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


# Generated pages


def test_generated_pages_are_up_to_date(generate: ModuleType) -> None:
    assert generate.outdated() == [], "run python docs/generate.py"


def test_outdated_pages_are_named(generate: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = "<!-- Written by docs/generate.py with Typer {} and Rich 1.0; do not edit. -->\n"
    monkeypatch.setattr(generate, "_drawn_by", lambda: first.format("1.0"))
    monkeypatch.setattr(generate, "pages", lambda: {"commands.md": first.format("1.0") + "new", "config.md": "new"})
    assert generate.outdated(tmp_path) == ["commands.md", "config.md"]  # not there
    generate.write_pages(tmp_path)
    assert generate.outdated(tmp_path) == []
    (tmp_path / "commands.md").write_text(first.format("1.0") + "old")
    (tmp_path / "config.md").write_text("old")
    assert generate.outdated(tmp_path) == ["commands.md", "config.md"]
    (tmp_path / "commands.md").write_text(first.format("2.0") + "old")
    assert generate.outdated(tmp_path) == ["config.md"]


def test_check_names_the_outdated_page(
    generate: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(generate, "outdated", lambda: ["config.md"])
    assert generate.main(["--check"]) == 1
    assert capsys.readouterr().err == "docs/config.md is out of date; run python docs/generate.py\n"
    monkeypatch.setattr(generate, "outdated", list)
    assert generate.main(["--check"]) == 0
    assert generate.main(["--chekc"]) == 2


@pytest.mark.parametrize("command", ["", *GROUP.commands])
def test_every_command_and_option_is_documented(command: str) -> None:
    title = f"mha {command}".strip()
    found = re.search(rf"^## {title}\n\n```text\n(.*?)^```$", (DOCS / "commands.md").read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert found, f"docs/commands.md has no section {title}"
    words = set(re.findall(r"[\w-]+", found[1]))
    parameters = (GROUP.commands[command] if command else GROUP).params
    for parameter in parameters:
        names = parameter.opts if parameter.param_type_name == "option" else [parameter.name]
        assert set(names) <= words, f"{title}: {names}"
    if not command:
        assert set(GROUP.commands) <= words


# Hand-written pages


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text("utf-8")):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        linked = (page.parent / name).resolve() if name else page
        assert linked.exists(), f"{relative(page)} links to {target}"
        if anchor:
            assert anchor in anchors(linked), f"{relative(page)} links to {target}"


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings."""
    headings = re.findall(r"^#+ (.*)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_recipe_is_mentioned_and_every_mentioned_recipe_exists() -> None:
    assert sorted(re.findall(r"^\| `([\w-]+)` \|", (DOCS / "recipes.md").read_text("utf-8"), re.MULTILINE)) == recipe_names()
    mentioned = {name for page in PAGES for name in RECIPE.findall(page.read_text("utf-8"))}
    assert mentioned <= {f"configs/{name}.yaml" for name in recipe_names()}


# Example commands


def examples() -> Iterator[Any]:
    """Every line with an ``mha`` command: in the epilogs of the commands' help, and in the code blocks of the pages."""
    for name, command in {"mha": GROUP, **GROUP.commands}.items():
        for line in (command.epilog or "").splitlines():
            if "mha " in line:
                yield pytest.param(line, id=f"{name}: {line}")
    for page in PAGES:
        if page.name == "commands.md":  # its examples are the epilogs
            continue
        for block in FENCE.findall(page.read_text("utf-8")):
            for line in block.splitlines():
                if re.search(r"\bmha [a-z-]", line):
                    yield pytest.param(line, id=f"{relative(page)}: {line}")


def mha_commands(line: str) -> Iterator[list[str]]:
    """The arguments of every ``mha`` command in a line of shell."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words: list[str] = []
    for word in [*lexer, ";"]:
        if not re.fullmatch(r"[();<>|&]+", word):
            words.append(word)
            continue
        names = [Path(word).name for word in words]
        if "mha" in names:
            yield words[names.index("mha") + 1 :]
        words = []


def test_mha_commands_are_found_in_a_line_of_shell() -> None:
    line = "$ zcat 'a b.gz' | .venv/bin/mha predict --json - > out && mha train -c x.yaml  # mha nothing"
    assert list(mha_commands(line)) == [["predict", "--json", "-"], ["train", "-c", "x.yaml"]]


@pytest.mark.parametrize("line", list(examples()))
def test_examples_fit_the_commands(line: str) -> None:
    for name, *arguments in mha_commands(line):
        if name.startswith("-"):
            assert name in {option for parameter in GROUP.params for option in parameter.opts} | {"-h", "--help"}
            continue
        assert name in GROUP.commands, f"mha has no command {name}"
        try:
            given = GROUP.commands[name].make_context(name, list(arguments)).params
        except typer.Exit:  # --help
            continue
        if given.get("config") is not None:
            config = ROOT / find_config(given["config"])
            if config.is_file():
                load_config(config, given["overrides"] or [])
