"""The documentation says what the code does: generated pages, links, recipes."""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import re
import sys
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from mha_cli.config.recipes import recipe_names
from tests.documentation import BLOCK, DOCS, PAGES, ROOT, fits, relative

if TYPE_CHECKING:
    from types import ModuleType

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
IMAGE = re.compile(r"^!\[[^\]]*\]\(([^)]+)\)$", re.MULTILINE)
RECIPE = re.compile(r"\bconfigs/[\w-]+\.yaml\b")
RESULTS = ROOT / "benchmarks" / "results"


@pytest.fixture(scope="module")
def generate() -> ModuleType:
    """docs/generate.py as a module."""
    return module_of(DOCS / "generate.py")


def module_of(path: Path) -> ModuleType:
    """A script as a module."""
    spec = importlib.util.spec_from_file_location(f"docs_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# Generated pages


@pytest.mark.process
def test_generated_pages_are_up_to_date(generate: ModuleType) -> None:
    outdated, unchecked = generate.outdated()
    assert outdated == [], "run python docs/generate.py"
    if unchecked:
        pytest.skip(f"other versions of Typer or Rich have drawn {', '.join(unchecked)}")


def test_outdated_pages_are_named(generate: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = "<!-- Written by docs/generate.py with Typer {} and Rich 1.0; do not edit. -->\n"
    monkeypatch.setattr(generate, "_drawn_by", lambda: first.format("1.0"))
    monkeypatch.setattr(generate, "pages", lambda: {"commands.md": first.format("1.0") + "new", "config.md": "new"})
    assert generate.outdated(tmp_path) == (["commands.md", "config.md"], [])  # not there
    generate.write_pages(tmp_path)
    assert generate.outdated(tmp_path) == ([], [])
    (tmp_path / "commands.md").write_text(first.format("2.0") + "old")
    (tmp_path / "config.md").write_text("old")
    assert generate.outdated(tmp_path) == (["config.md"], ["commands.md"])


def test_output_takes_the_place_of_what_stands_below_a_command(generate: ModuleType) -> None:
    page = "Before.\n\n```console\n$ printf 'a  \\nb\\n'\nold\n$ printf ''\nold\n```\n\n```sh\nexit 1\n```\n\n```text\n$ exit 1\nold\n```\n"
    written = page.replace("\nold\n$ printf ''\nold\n", "\na\nb\n$ printf ''\n")
    assert generate.with_output(page) == written
    assert generate.with_output(written) == written


def test_examples_run_on_a_terminal_where_nothing_is_trained(generate: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MHA_CHECKPOINT", "mine.keras")
    assert generate.output("test -t 1 && pwd -P && ls -A && echo $COLUMNS$MHA_CHECKPOINT").splitlines()[1:] == ["configs", "80"]
    assert generate.output("mha doctor nowhere.keras") == "error: nowhere.keras: no such file; give a checkpoint that `mha train` wrote\n"


@pytest.mark.process
@pytest.mark.skipif(platform.machine() != "x86_64", reason="Prescott is one of these processors")
def test_examples_say_the_same_with_other_matrix_kernels(generate: ModuleType) -> None:
    shown = [block for page in generate.hand_written().values() for block in generate.CONSOLE.findall(page)]
    lines = [line[2:] for block in shown for line in block.splitlines() if line.startswith("$ ")]
    assert lines
    assert "".join(f"$ {line}\n" + generate.output(f"export OPENBLAS_CORETYPE=Prescott; {line}") for line in lines) == "".join(shown)
    for line in generate.PICTURED:
        assert generate.output(f"export OPENBLAS_CORETYPE=Prescott; {line}") == generate.output(line)


# Hand-written pages


@pytest.mark.process
def test_figures_print_what_the_page_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figures = module_of(DOCS / "figures.py")
    monkeypatch.setattr(figures, "FIGURES", tmp_path)
    rng = np.random.default_rng(0)
    numbers = re.findall(r"\d\.\d{3}|\d{4}", figures.draw_projections(rng) + figures.draw_scale(rng))
    assert len(numbers) == 7
    page = (DOCS / "attention-layer.md").read_text("utf-8")
    assert [number for number in numbers if number not in page] == []
    assert {path.name for path in tmp_path.iterdir()} == {"projections.png", "scale.png"}


def test_the_command_of_every_figure_is_named_below_it_and_every_figure_is_shown() -> None:
    shown = set()
    for page in PAGES:
        text = page.read_text("utf-8")
        for figure in IMAGE.finditer(text):
            path = (page.parent / figure[1]).resolve()
            assert path.is_file(), f"{relative(page)} shows {figure[1]}"
            shown.add(path)
            if path.suffix == ".svg":  # drawn by hand, or a picture of commands
                continue
            below = re.split(r"^#|^!", text[figure.end() :], maxsplit=1, flags=re.MULTILINE)[0]
            named = re.findall(r"`(?:python (?:benchmarks|docs)/\S+\.py\b.*?)`|^mha .* --(?:png|plot) \S+$", below, re.MULTILINE)
            assert named, f"{relative(page)}: no command below {figure[1]}"
    assert shown >= {*(DOCS / "figures").iterdir(), *RESULTS.rglob("*.png")}


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CHANGELOG.md"], ids=relative)
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


def test_figures_of_the_alternatives_are_those_measured() -> None:
    page = (DOCS / "alternatives.md").read_text("utf-8")
    runs = defaultdict[str, list[tuple[float, ...]]](list)
    for record in json.loads((RESULTS / "accuracy.json").read_text("utf-8")):
        figures = record["figures"]
        runs[record["settings"]["system"]].append((100 * figures["accuracy"], figures["wall_seconds"], figures["peak_megabytes"]))
    for system in runs.keys() - {"mha imdb"}:
        accuracy, seconds, megabytes = np.mean(runs[system], axis=0)
        assert f"| {system} | {accuracy:.1f} % | {seconds:.0f} | {megabytes:,.0f} |\n" in page
    of_sets = defaultdict[str, dict[str, dict[str, list[tuple[float, ...]]]]](lambda: defaultdict(lambda: defaultdict(list)))
    for record in json.loads((RESULTS / "texts.json").read_text("utf-8")):
        system, figures = record["settings"]["system"], record["figures"]
        kind = system if system == "mha text" else "fastText" if "fastText" in system else "the best linear model"
        of_sets[kind][record["settings"]["set"]][system].append((100 * figures["accuracy"], figures["wall_seconds"]))
    for kind, sets in of_sets.items():
        accuracy, seconds = np.mean(
            [max(np.mean(of_system, axis=0).tolist() for of_system in systems.values()) for systems in sets.values()], axis=0
        )
        assert f"| {kind} | {accuracy:.1f} % | {seconds:.0f} |\n" in page


def test_every_recipe_is_mentioned_and_every_mentioned_recipe_exists() -> None:
    assert sorted(re.findall(r"^\| `([\w-]+)` \|", (DOCS / "recipes.md").read_text("utf-8"), re.MULTILINE)) == recipe_names()
    mentioned = {name for page in PAGES for name in RECIPE.findall(page.read_text("utf-8"))}
    assert mentioned <= {f"configs/{name}.yaml" for name in recipe_names()}


def alike(text: str) -> str:
    """Text without the figures of a training, which differ from machine to machine."""
    return re.sub(r"[+-]?\b\d[\d.,]*", "0", text)


@pytest.mark.process
def test_the_tutorial_runs_from_top_to_bottom(generate: ModuleType, tmp_path: Path) -> None:
    blocks = BLOCK.findall((DOCS / "tutorial.md").read_text("utf-8"))
    environment = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    for language, block in blocks:
        shown = ""
        if language == "python":
            (tmp_path / "block.py").write_text(block)
            block = "python block.py"
        elif language == "text" and block.startswith("$ "):
            line, _, shown = block.removeprefix("$ ").partition("\n")
            block = line
        elif language != "sh" or "pip install" in block:
            continue  # what .ci/run and docs/generate.py run, or is no command
        printed = generate.on_terminal(f"set -e; {block}\necho and it worked", tmp_path, **environment)
        assert printed.rstrip().endswith("and it worked"), printed
        assert not shown or fits(alike(printed.removesuffix("and it worked\r\n")), alike(shown)), printed
    assert (tmp_path / "about-pictures.csv").read_text().startswith("text,library\n")
