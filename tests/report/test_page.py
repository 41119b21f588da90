"""The page as it is written; tests/cli/test_report.py opens it in a browser."""

import dataclasses
import math
import re
from typing import Any

import numpy as np
import pytest

from mha_cli.analysis.evaluation import ClassScore, Confusion
from mha_cli.analysis.inside.head_scores import HeadReport
from mha_cli.analysis.level_scores import LevelScores
from mha_cli.config.settings import Config, SampleData
from mha_cli.preparation.scored_texts import labelled_texts
from mha_cli.report.contents import Mistake, Report, report

pytest.importorskip("jinja2")

from pathlib import Path

from matplotlib.figure import Figure

from mha_cli.report.page import inline_svg, shade_depth, write_page
from mha_cli.system.callbacks import EpochRecord
from tests.checkpoints import small_checkpoint
from tests.cli.command import step_by_step
from tests.pages.pages import HOSTILE, Parsed

HISTORY = [EpochRecord(1, 0.7, 0.5, 0.6, 0.75, 1.0, 100.0, True), EpochRecord(2, 0.5, 0.7, 0.65, 0.7, 1.0, 100.0, False)]
ALONE = {"meta", "br", "path", "use", "rect", "line"}  # elements without an end


@pytest.fixture(scope="module")
def made() -> Report:
    """A report of random weights on the sample, with a history."""
    checkpoint, data = small_checkpoint(), SampleData(num_texts=200)
    checkpoint = dataclasses.replace(checkpoint, config=checkpoint.config.changed(classes={"neg": ["A film to avoid.", "Not good."]}))
    labelled = labelled_texts(checkpoint, data)
    with step_by_step():
        found = report("run", checkpoint, labelled, labelled, HISTORY)
    first, *others = found.heads.heads
    return dataclasses.replace(
        found, heads=dataclasses.replace(found.heads, heads=[dataclasses.replace(first, accuracy_fall=0.01), *others])
    )


def page_of(made: Report, folder: Path, **made_with: str) -> str:
    write_page(made, {"mha": "0.1.0", **made_with}, ["mha report again"], folder / "report.html")
    return (folder / "report.html").read_text("utf-8")


def with_falls(made: Report, *falls: float) -> HeadReport:
    """Its heads, with other falls of the accuracy."""
    heads = [dataclasses.replace(head, accuracy_fall=fall) for head, fall in zip(made.heads.heads, falls, strict=True)]
    return dataclasses.replace(made.heads, heads=heads)


def text_of(source: str) -> str:
    return " ".join(Parsed(source).text.split())


@pytest.fixture(scope="module")
def plain(made: Report, tmp_path_factory: pytest.TempPathFactory) -> str:
    return page_of(made, tmp_path_factory.mktemp("page"), tensorflow="2.21.0")


def test_it_needs_nothing_but_itself(plain: str) -> None:
    page = Parsed(plain)
    assert "default-src 'none'; style-src 'unsafe-inline'\"" in plain
    assert not {"script", "link", "img", "image", "iframe", "object", "form", "metadata"} & set(page.tags)
    assert not re.search(r"https?:|@import|url\((?!#)|<!--", plain)
    assert len(page.ids) == len(set(page.ids)) > 50
    assert {reference.removeprefix("#") for reference in page.references} <= set(page.ids)
    assert all(reference.startswith("#") for reference in page.references)
    assert set(re.findall(r"url\(#([^)]+)\)", plain)) <= set(page.ids)
    assert page.tags.count("svg") == plain.count('<svg viewBox="') == plain.count('role="img" aria-labelledby=') == 4 + 8
    for wanted in ("prefers-color-scheme: dark", ":focus-visible", 'name="viewport"', "@media print"):
        assert wanted in plain


def test_it_says_what_was_found(made: Report, plain: str) -> None:
    text, scored = text_of(plain), made.evaluation
    assert scored.roc_auc is not None
    for figure in (scored.accuracy, *scored.accuracy_interval, made.shuffle.shuffled_mean, made.shuffle.flip_share):
        assert f"{figure:.2%}" in text
    for figure in (scored.macro_f1, scored.loss, scored.calibration_error, scored.roc_auc, *(one.probability for one in made.mistakes)):
        assert f"{figure:.4f}" in text
    for wanted in (
        "Epoch 1 of 2 was kept: validation accuracy 75.00%, validation loss 0.6000.",
        f"The model {made.shuffle.verdict}.",
        "embed_dim: 14",
        "tensorflow2.21.0",
        "negA film to avoid.",
        "mha report again",
        "The most that silencing a head costs is 1.00 points of accuracy on 50 texts (head 0 of block 0).",
    ):
        assert wanted in text
    assert sum(f"{count}" in text for row in scored.confusion for count in row) == 4


def test_the_same_shade_is_the_same_change_of_the_log_odds_in_every_text() -> None:
    assert shade_depth(0.9 - 0.75, 0.9) == pytest.approx(np.log(9 / 3) / 3)  # odds of 9 and of 3
    assert shade_depth(0.75 - 0.9, 0.75) == shade_depth(0.9 - 0.75, 0.9)
    assert shade_depth(0.0, 1.0) == 0.0
    assert shade_depth(1.0, 1.0) == 1.0


def test_what_is_missing_is_told(made: Report, tmp_path: Path) -> None:
    """A curve, explanations, a history, heads that matter; and a caveat stands above the figures."""
    unexplained = Mistake("a.csv:1", "neg", "pos", False, 0.9, ["فاز", "الفريق"], None, 0, 1_234)
    wordless = Mistake("a.csv:2", "neg", "pos", False, 0.9, [], None, 0, 0)
    scored, heads = dataclasses.replace(made.evaluation, roc_auc=None), with_falls(made, 0.0, -0.01)
    less = dataclasses.replace(
        made, evaluation=scored, history=[], mistakes=[unexplained, wordless], heads=heads, caveat="<i>: these figures say too much"
    )
    source = page_of(less, tmp_path)
    assert source.count("<svg") == 3
    text = text_of(source)
    for wanted in ("no history of the training", "Too long to explain here", "no words", "ROC AUC–"):
        assert wanted in text
    assert "Silencing any one head costs no accuracy on 50 texts." in text
    assert source.index("<strong>&lt;i&gt;: these figures say too much.</strong>") < source.index('<h2 id="summary">')
    shown, _ = re.findall(r'<div class="words" dir="auto">(.*?)</div>', source, re.DOTALL)  # in the direction of its script
    assert re.findall(r"<span (.*?)>(.*?)</span>", shown) == [
        ('class="word"', "فاز"),
        ('class="word"', "الفريق"),
        ('class="note" dir="ltr"', "(1,234 words)"),
    ]


def test_classes_in_levels_are_folded_by_branch(made: Report, tmp_path: Path) -> None:
    names, data = ("a > c", "a > b", "d"), {"source": "files", "train": "a.csv", "label_levels": ">"}
    scored = dataclasses.replace(
        made.evaluation,
        classes=[ClassScore(name, 0.5, 0.5, 0.5, 7) for name in names],
        confusion=[[2, 3, 5], [1, 4, 0], [1, 0, 7]],
        levels=LevelScores([0.75, 0.5625], 0.5, 0.7, 0.7, 0.7123, 0.7, 4, 6),
    )
    config = Config.model_validate(made.checkpoint.config.model_dump() | {"data": data})
    checkpoint = dataclasses.replace(made.checkpoint, class_names=names, config=config)
    source = page_of(dataclasses.replace(made, evaluation=scored, checkpoint=checkpoint), tmp_path)
    summaries = [" ".join(found.split()) for found in re.findall(r"<summary>(.*?)</summary>", source)]
    branches = ["a: F1 76.92%, precision 90.91%, recall 66.67%, 15 texts", "d: F1 70.00%, precision 58.33%, recall 87.50%, 8 texts"]
    assert summaries[:2] == branches
    assert source.index("a &gt; b</th>", source.index(branches[0])) < source.index("a &gt; c</th>", source.index(branches[0]))
    for wanted in ("accuracy of each level75.00% · 56.25%", "hierarchical F10.7123"):
        assert wanted in text_of(source)


def test_many_classes_and_heads_that_were_not_silenced(made: Report, tmp_path: Path) -> None:
    names = tuple(f"class {number:02}" for number in range(50))
    scored = dataclasses.replace(
        made.evaluation,
        classes=[ClassScore(name, 0.5, 0.5, 0.5, 7) for name in names],
        confusion=[[1] * 50] * 50,
        confusions=[Confusion(names[3], names[41], 8_765, 0.125)],
        top_3_accuracy=0.875,
    )
    checkpoint = dataclasses.replace(made.checkpoint, class_names=names)
    many = dataclasses.replace(made, evaluation=scored, checkpoint=checkpoint, mistakes=[], heads=with_falls(made, math.nan, math.nan))
    source = page_of(many, tmp_path)
    assert source.count("<tr>") == 2 + 1 + 50
    assert source.count("<svg") == 4 + 7
    assert "<strong>" not in source
    text = text_of(source)
    for wanted in ("class 03class 418,76512.50%", "among the top 387.50%", "None: every answer is right."):
        assert wanted in text
    assert "an estimate from one gradient (Michel et al. 2019, eq. 2), on 50 texts. The most important is head" in text
    assert "ilencing a" not in text


def test_nothing_from_outside_becomes_markup(made: Report, plain: str, tmp_path: Path) -> None:
    names = (HOSTILE, "<img src=x onerror=alert(1)>")
    scored = dataclasses.replace(
        made.evaluation,
        data=HOSTILE,
        split=HOSTILE,
        classes=[dataclasses.replace(one, name=name) for one, name in zip(made.evaluation.classes, names, strict=True)],
    )
    changes: dict[str, Any] = {"place": HOSTILE, "true": names[0], "answer": names[1]}
    mistakes = [dataclasses.replace(one, **changes, words=[HOSTILE] * len(one.words)) for one in made.mistakes]
    shuffle = dataclasses.replace(made.shuffle, name=HOSTILE, data=HOSTILE, split=HOSTILE)
    heads = dataclasses.replace(made.heads, data=HOSTILE, split=HOSTILE)
    config = made.checkpoint.config.model_copy(update={"data": SampleData(), "classes": {HOSTILE: HOSTILE}})
    checkpoint = dataclasses.replace(made.checkpoint, class_names=names, config=config)
    hostile = Report(HOSTILE, checkpoint, HISTORY, scored, made.reliability, mistakes, shuffle, heads)
    page = Parsed(page_of(hostile, tmp_path, tensorflow=HOSTILE))
    assert page.tags == Parsed(plain).tags
    assert len(page.ids) == len(Parsed(plain).ids) == len(set(page.ids))
    assert "\x1b" not in page.text and "\u202e" not in page.text
    assert page.text.count("</script><b>") > 20


def test_a_figure_has_names_of_its_own_and_the_colour_of_the_text() -> None:
    def draw() -> Figure:
        from mha_cli.plots.figures import new_figure

        figure, (axes,) = new_figure(2, 1)
        axes.plot([0, 1], "o-")
        axes.set_xlabel("<b>--!> 映画 &")
        return figure

    one, other = (Parsed(str(inline_svg(name, draw))) for name in ("one", "other"))
    assert not set(one.ids) & set(other.ids)
    assert all(reference.removeprefix("#") in one.ids for reference in one.references if "caption" not in reference)
    assert "<b>--!> 映画 &" in one.text
    svg = inline_svg("one", draw)
    assert "currentColor" in svg and "#000" not in svg and "#0072b2" in svg
    assert "b" not in one.tags
    assert svg == inline_svg("one", draw)
    assert "DejaVu" not in svg
