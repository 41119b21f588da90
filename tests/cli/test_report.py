"""`mha report`, and its page in a browser."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("jinja2")

from pathlib import Path

from tests.browser import open_page
from tests.checkpoints import WORDS, small_checkpoint, write_run
from tests.cli.command import Mha, refusal, tree
from tests.pages.pages import HOSTILE

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.usefixtures("untraced")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run directory ``runs/mine``, of random weights and hostile data, with a history."""
    names = (HOSTILE, "<b onmouseover=alert(1)>bold</b><script>alert(1)</script>")
    texts = [" ".join(WORDS[(row + step) % len(WORDS)] for step in range(row % 5)) + f" {names[row % 2]}" for row in range(24)]
    lines = [json.dumps({"text": text, "label": names[row % 3 % 2]}) for row, text in enumerate(texts)]
    (tmp_path / "mine.jsonl").write_text("".join(f"{line}\n" for line in lines))
    data = {"source": "files", "train": "mine.jsonl", "test": "mine.jsonl"}
    folder = write_run(tmp_path / "runs" / "mine", small_checkpoint(names), data=data)
    epoch = {"epoch": 1, "train_loss": 0.5, "train_accuracy": 0.75, "validation_loss": 0.25, "validation_accuracy": 0.5}
    (folder / "history.jsonl").write_text(json.dumps({**epoch, "seconds": 2.0, "texts_per_second": 9.0, "best": True}) + "\n")
    return folder


def test_the_page_lies_in_the_run_directory(mha: Mha, run: Path, tmp_path: Path) -> None:
    before = tree(tmp_path)
    result = mha("report", "runs/mine")
    assert (result.code, result.stdout) == (0, "written: runs/mine/report.html\n")
    learnt, unknown = result.stderr.splitlines()
    told = "the model was trained on a file of that name; if these are the same texts, the figures are optimistic"
    assert learnt == f"mine.jsonl, split test: {told}"
    assert re.fullmatch("mine.jsonl, split test: .* of the words are not in the model's vocabulary.*", unknown)
    page = (run / "report.html").read_text("utf-8")
    assert {name: content for name, content in tree(tmp_path).items() if name != "runs/mine/report.html"} == before
    assert f"{mha('evaluate', 'runs/mine', '--json').json['accuracy']:.2%}" in page
    assert f"<strong>{learnt}.</strong>" in page
    assert "mha train --config config.yaml --output again\nmha report again\n" in page


def test_a_checkpoint_alone_is_reported_with_what_it_has(mha: Mha, run: Path, tmp_path: Path) -> None:
    (run / "checkpoint.keras").rename(tmp_path / "alone.keras")
    result = mha("report", "alone.keras", "--data", "mine.jsonl", "--split", "validation", "--label-column", "label", "-o", "other.html")
    assert (result.code, result.stdout) == (0, "written: other.html\n")
    page = (tmp_path / "other.html").read_text("utf-8")
    assert "There is no history of the training" in page
    assert "mha report alone.keras --split validation --data mine.jsonl --label-column label\n" in page
    assert "mha train" not in page


def test_a_page_that_nobody_has_named_is_not_written_elsewhere(mha: Mha, run: Path, tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("of somebody")
    (run / "report.html").symlink_to(tmp_path / "precious")
    message = "runs/mine/report.html: is a link, or no file; remove it, or name the page with --output"
    assert refusal(mha("report", "runs/mine")) == message
    assert (tmp_path / "precious").read_text() == "of somebody"


@pytest.fixture
def url(mha: Mha, run: Path) -> str:
    assert mha("report", "runs/mine").code == 0
    return (run / "report.html").as_uri()


@pytest.mark.browser
@pytest.mark.parametrize(("width", "dark"), [(360, True), (1200, False)])
def test_it_loads_nothing_and_fits_every_screen(width: int, dark: bool, url: str, browser: Browser) -> None:
    with open_page(browser, url, width=width, dark=dark) as (page, told):
        page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        ink, paper = (page.evaluate(f"getComputedStyle(document.body).{name}") for name in ("color", "backgroundColor"))
        assert (brightness(ink) > brightness(paper)) == dark
        assert page.evaluate("getComputedStyle(document.querySelector('svg text')).fill") == ink
        assert page.locator("svg").count() == 4  # none of heads, of which none costs anything here
        for figure in page.locator("svg").all():
            box: Any = figure.bounding_box()
            assert box["width"] > 200 and box["height"] > 150
        # Nothing from outside becomes an element.
        assert page.locator("script, [onmouseover], main b b, main img").count() == 0
        assert page.get_by_text("<b onmouseover=alert(1)>bold</b>").count() > 0
        assert page.title() == "Report on mine"
        assert told == []


@pytest.mark.browser
def test_the_keyboard_reaches_what_scrolls_and_what_opens(url: str, browser: Browser) -> None:
    config = "The config of the run, config.yaml"
    with open_page(browser, url, width=360) as (page, told):
        reached = list[str]()
        name = "(document.activeElement.getAttribute('aria-label') ?? document.activeElement.textContent).trim()"
        while "Commands" not in reached and len(reached) < 100:
            page.keyboard.press("Tab")
            reached.append(page.evaluate(name))
            if reached[-1] in {"Every class", config}:
                page.keyboard.press("Enter")
        assert reached[0] == "Skip to the figures"
        assert {"Worst mistakes", "Confusion matrix", "Every class", config, "config.yaml", "Commands"} <= {*reached}
        assert page.locator("details[open]").count() == 2
        assert page.locator("pre").first.is_visible()
        for box in page.locator(".scroll").all():
            assert box.evaluate("(one) => one.scrollWidth <= one.clientWidth || one.tabIndex === 0")
        assert told == []


def brightness(colour: str) -> float:
    """Of a colour as a browser gives it."""
    return sum(map(int, re.findall(r"\d+", colour)[:3]))
