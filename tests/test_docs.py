"""The documentation says what the code does: generated pages, links, recipes."""

import importlib.util
import json
import os
import pty
import re
import select
import shlex
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from mha_cli.config.recipes import recipe_names
from tests.cli.command import fork, read_terminal
from tests.cli.forks import NUMPY_ONLY, Forked, ForkServer, tensorflow_server
from tests.documentation import BLOCK, DOCS, PAGES, ROOT, fits, relative, words_of

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
IMAGE = re.compile(r"^!\[[^\]]*\]\(([^)]+)\)$", re.MULTILINE)
RECIPE = re.compile(r"\bconfigs/[\w-]+\.yaml\b")
RESULTS = ROOT / "benchmarks" / "results"


@pytest.fixture(scope="module")
def generate() -> ModuleType:
    return module_of(DOCS / "generate.py")


def module_of(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"docs_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# Generated pages


OLD_PROCESSOR = """
import os
os.environ["OPENBLAS_CORETYPE"] = "Prescott"
from mha_cli.system.processor import prepare_to_compute
prepare_to_compute()
"""


def on_terminal(server: ForkServer, generate: ModuleType) -> Callable[..., str]:
    """``generate.on_terminal`` whose ``mha`` comes from a server, except between other commands."""

    def run(line: str, folder: Path, **environment: str) -> str:
        if not line.startswith("mha ") or re.search("[|<>&;$]", line):
            return on_any_terminal(line, folder, **environment)
        ours, theirs = pty.openpty()
        process = Forked(server, words_of(line)[1:], folder, generate._environment(columns=80) | environment, (theirs, theirs, theirs))
        os.close(theirs)
        shown = read_terminal(ours).decode()
        os.close(ours)
        process.wait()
        return shown

    on_any_terminal = generate.on_terminal
    return run


@pytest.mark.process
def test_generated_pages_are_up_to_date(generate: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """They were written with the matrix kernels of some processor, and here examples run with those of an old one."""
    server = ForkServer(NUMPY_ONLY, OLD_PROCESSOR)
    monkeypatch.setattr(generate, "on_terminal", on_terminal(server, generate))
    outdated, unchecked = generate.outdated()
    server.end()
    assert outdated == [], "run python docs/generate.py"
    if unchecked:
        pytest.skip(f"other versions of Typer or Rich have drawn {', '.join(unchecked)}")


def test_examples_run_on_a_terminal_where_nothing_is_trained(generate: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MHA_CHECKPOINT", "mine.keras")
    assert generate.output("test -t 1 && pwd -P && ls -A && echo $COLUMNS$MHA_CHECKPOINT").splitlines()[1:] == ["configs", "80"]
    assert generate.output("mha doctor nowhere.keras") == "error: nowhere.keras: no such file; give a checkpoint that `mha train` wrote\n"


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


def test_every_figure_is_shown_above_its_command() -> None:
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
    """Text without what differs from machine to machine: the figures of a training, and the marks of how much a word decides."""
    return re.sub(r"(?<=\s)[+-]+(?=[A-Za-z])", "", re.sub(r"[+-]?\b\d[\d.,]*", "0", text))


def label_by_hand(command: str, cwd: Path) -> None:
    """Run `mha label --terminal` with a person who gives forty labels."""
    ours, theirs = pty.openpty()
    process = fork(shlex.split(command)[1:], cwd, (theirs, theirs, theirs))
    keys = b"1234" * 10 + b"q"
    while process.poll() is None:
        if select.select([ours], [], [], 0.05)[0] and b"shows the keys" in os.read(ours, 1 << 16):
            os.write(ours, keys)
            keys = b""
    assert process.wait() == 0
    assert len((cwd / "labels.csv").read_text().splitlines()) == 1 + 40


@pytest.mark.process
def test_the_tutorial_runs_from_top_to_bottom(generate: ModuleType, tmp_path: Path) -> None:
    """With half of its texts, which take less time."""
    blocks, run = BLOCK.findall((DOCS / "tutorial.md").read_text("utf-8")), on_terminal(tensorflow_server(), generate)
    environment = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    for language, block in blocks:
        shown, block = "", block.replace("4000", "2000").replace("3000", "1500")
        if language == "python":
            (tmp_path / "block.py").write_text(block)
            block = "python block.py"
        elif block.startswith("mha label"):
            label_by_hand(block, tmp_path)
            continue
        elif language == "text" and block.startswith("$ "):
            block, _, shown = block.removeprefix("$ ").partition("\n")
        elif language != "sh" or "pip install" in block:
            continue  # what .ci/run and docs/generate.py run, or is no command
        printed = run(block, tmp_path, **environment) if shown else run(f"set -e; {block}\necho and it worked", tmp_path, **environment)
        assert fits(alike(printed), alike(shown)) if shown else printed.rstrip().endswith("and it worked"), printed
    assert (tmp_path / "about-pictures.csv").read_text().startswith("text,library\n")
