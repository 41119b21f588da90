from __future__ import annotations

import dataclasses
import json
import xml.etree.ElementTree
from typing import TYPE_CHECKING

import numpy as np
import pytest

from mha_cli.checkpoint import read_checkpoint, write_checkpoint
from mha_cli.runtime.inspection import view_attention
from tests.checkpoints import small_checkpoint, small_checkpoint_file
from tests.cli.command import Result, has_control_characters, refusal, run_here, run_mha, tree
from tests.cli.pages import HOSTILE, data_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Attention = Callable[..., Result]

TEXT = "The film was not DREADFUL, it’s superb"
WORDS = ["The", "film", "was", "not", "DREADFUL", ",", "it’s", "superb"]
LONG = " ".join(f"{word}{number}" for number in range(30) for word in ("the", "film"))
BEGINNINGS = {".png": b"\x89PNG\r\n\x1a\n", ".PDF": b"%PDF-", ".svg": b"<?xml"}
ODD_TEXTS = (
    HOSTILE,
    "[bold]the film[/bold] was [red]superb[/] [/nonsense]",
    "\x1b[31mthe film\x1b[0m \x1b]0;title\x07 superb",
    "$x_1$ \\frac{1}{2} 50% {film}",
    "映画 は 素晴らしい 🙂👩‍👩‍👧 ﷽",
    "a" * 500,
)


@pytest.fixture
def attention(small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Attention:
    """``mha attention ARGS -c SMALL``."""
    return lambda *args: run_here("attention", *args, "-c", small, cwd=tmp_path, monkeypatch=monkeypatch)


@pytest.fixture
def blocks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of two blocks with three heads and one, that reads up to 200 words."""
    checkpoint = small_checkpoint(num_blocks=2, num_heads=[3, 1], key_dim=5, positions="sinusoidal")
    text = checkpoint.config.text.model_copy(update={"sequence_length": 200})
    path = tmp_path_factory.mktemp("blocks") / "blocks.keras"
    write_checkpoint(path, dataclasses.replace(checkpoint, config=checkpoint.config.model_copy(update={"text": text})))
    return path


# In the terminal


def test_a_short_review_is_a_heat_map(attention: Attention, small: Path) -> None:
    result = attention(TEXT, "--head", "1")
    assert (result.code, result.stderr) == (0, "")
    weights = view_attention(read_checkpoint(small), TEXT).of(0, 1)
    heading, numbers, *rows = result.lines
    assert heading.endswith("; block 0, head 1: rows look, columns are looked at")
    assert numbers.split() == [str(column) for column in range(len(WORDS))]
    assert len(rows) == len(WORDS)
    for row, (line, word) in enumerate(zip(rows, WORDS, strict=True)):
        shades = ["  ░░▒▒▓▓██"[2 * min(4, int(5 * weight / weights.max())) :][:2] for weight in weights[row]]
        assert line.rstrip() == f"{row:>3} {word:<8} {' '.join(shades)}".rstrip()
    assert numbers.index("3") == rows[0].index(WORDS[0]) + 8 + 3 * 3 + 2  # a number stands above the end of its column


def test_the_mean_of_the_heads_by_default(attention: Attention) -> None:
    assert "; block 0, mean over the heads: rows look" in attention(TEXT).lines[0]


def test_links_and_a_summary_of_a_long_review(blocks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = run_here("attention", LONG, "-c", blocks, "--block", "1", "--head", "0", cwd=tmp_path, monkeypatch=monkeypatch)
    assert (result.code, result.stderr) == (0, "")
    view = view_attention(read_checkpoint(blocks), LONG)
    weights = view.of(1, 0).copy()
    looked_at = weights.mean(axis=0)
    np.fill_diagonal(weights, 0)
    assert result.lines[0].endswith("; block 1, head 0")
    links, summary = result.stdout.split("Most looked at, by all words")
    assert "Strongest links" in links
    for place in np.argsort(weights, axis=None)[::-1][:12]:
        row, column = np.unravel_index(place, weights.shape)
        cells = [f"{view.words[row]} ({row})", f"{view.words[column]} ({column})", f"{weights[row, column]:.3f}"]
        assert any(all(cell in line for cell in cells) for line in links.splitlines()), cells
    for place in np.argsort(looked_at)[::-1][:12]:
        cells = [f"{view.words[place]} ({place})", f"{looked_at[place]:.1%}"]
        assert any(all(cell in line for cell in cells) for line in summary.splitlines()), cells


@pytest.mark.parametrize("text", ODD_TEXTS, ids=range(len(ODD_TEXTS)))
def test_odd_texts_are_shown_harmlessly(text: str, attention: Attention, tmp_path: Path) -> None:
    result = attention(text, "--png", "odd.png", "--html", "odd.html")
    assert (result.code, result.stderr) == (0, "")
    assert not has_control_characters(result.stdout)
    assert (tmp_path / "odd.png").read_bytes().startswith(BEGINNINGS[".png"])
    data_of(tmp_path / "odd.html")


def test_wide_letters_keep_their_columns(attention: Attention) -> None:
    rows = attention("素晴らしい the 🙂").lines[2:]
    assert rows[0].startswith("  0 素晴らしい ")
    assert rows[1].startswith("  1 the        ")
    assert rows[2].startswith("  2 🙂         ")


def test_markup_in_a_word_is_no_markup(attention: Attention) -> None:
    rows = attention("[red]the[/red]").lines[2:]
    assert [row.split()[1] for row in rows] == ["[", "red", "]", "the", "[", "/", "red", "]"]


# For programs


def test_json_has_the_weights_of_every_block_and_head(blocks: Path, tmp_path: Path) -> None:
    """Through a process of its own, with the checkpoint from the environment and a byte that is no UTF-8."""
    result = run_mha("attention", b"The film\xff was", "--json", cwd=tmp_path, env={"MHA_CHECKPOINT": str(blocks)})
    assert (result.code, result.stderr) == (0, f"using {blocks} ($MHA_CHECKPOINT)\n")
    said = json.loads(result.stdout)
    view = view_attention(read_checkpoint(blocks), "The film\ufffd was")
    assert said.keys() == {"words", "label", "probability", "weights"}
    assert said["words"] == ["The", "film", "\ufffd", "was"]
    assert (said["label"], said["probability"]) == (view.prediction.label, pytest.approx(view.prediction.probability))
    assert [len(heads) for heads in said["weights"]] == [3, 1]
    for found, expected in zip(said["weights"], view.weights, strict=True):
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)


# Pages and pictures


def test_the_page_is_complete_in_itself(blocks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = run_here("attention", TEXT, "-c", blocks, "--html", "page.html", cwd=tmp_path, monkeypatch=monkeypatch)
    assert (result.code, result.stderr) == (0, "")
    data, view = data_of(tmp_path / "page.html"), view_attention(read_checkpoint(blocks), TEXT)
    assert data.keys() == {"words", "prediction", "weights"}
    assert data["words"] == WORDS
    assert data["prediction"] == f"{view.prediction.label} {view.prediction.probability:.4f}"
    for found, expected in zip(data["weights"], view.weights, strict=True):
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4)


def test_a_hostile_review_is_only_data(attention: Attention, tmp_path: Path) -> None:
    assert attention(HOSTILE, "--html", "page.html").code == 0
    words = data_of(tmp_path / "page.html")["words"]
    assert words == ["<", "/", "script", ">", "<", "b", ">", "&", "the", "<", "!", "-", "-"]


def test_hostile_class_names_are_only_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("</script><b>", "[red]\x1b[31m&")
    checkpoint = small_checkpoint_file(tmp_path / "a.keras", class_names=names)
    result = run_here("attention", TEXT, "-c", checkpoint, "--html", "page.html", cwd=tmp_path, monkeypatch=monkeypatch)
    assert (result.code, result.stderr) == (0, "")
    assert not has_control_characters(result.stdout)
    assert data_of(tmp_path / "page.html")["prediction"].startswith(names)


@pytest.mark.parametrize("ending", BEGINNINGS)
@pytest.mark.parametrize("choice", [[], ["--head", "1"]], ids=["all", "one"])
def test_a_picture(ending: str, choice: list[str], attention: Attention, tmp_path: Path) -> None:
    result = attention(TEXT, "--png", f"heads{ending}", *choice)
    assert (result.code, result.stderr) == (0, "")
    assert (tmp_path / f"heads{ending}").read_bytes().startswith(BEGINNINGS[ending])
    assert list(tree(tmp_path)) == [f"heads{ending}"]


def test_the_picture_names_the_words_of_every_head(blocks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_here("attention", TEXT, "-c", blocks, "--png", "heads.svg", cwd=tmp_path, monkeypatch=monkeypatch)
    drawn = (tmp_path / "heads.svg").read_text()
    assert xml.etree.ElementTree.fromstring(drawn).tag.endswith("svg")
    for label in ("block 0, head 0", "block 0, head 2", "DREADFUL", "it’s", "word that looks", "attention weight"):
        assert f"<!-- {label} -->" in drawn


def test_the_picture_of_a_long_review_has_a_size_that_opens(blocks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = run_here("attention", "the film " * 100, "-c", blocks, "--png", "long.png", cwd=tmp_path, monkeypatch=monkeypatch)
    assert (result.code, result.stderr) == (0, "")
    header = (tmp_path / "long.png").read_bytes()[16:24]
    width, height = (int.from_bytes(part) for part in (header[:4], header[4:]))
    assert 1500 < width < 4000
    assert 500 < height < 2000


# What is refused


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([""], "the text has no words; give a text with at least one word"),
        (["<br /> _"], "the text has no words; give a text with at least one word"),
        ([TEXT, "--block", "1"], "there is no block 1; the model has blocks 0 to 0"),
        ([TEXT, "--head", "2"], "there is no head 2 in block 0; it has heads 0 to 1"),
        ([TEXT, "--png", "heads.gif"], "--png heads.gif: unknown kind of picture; end the name in .png, .svg, .pdf"),
        ([TEXT, "--png", "nowhere/heads.png"], "--png nowhere/heads.png: its folder does not exist; make it first"),
        ([TEXT, "--png", "folder.png"], "--png folder.png: is a folder; give the name of a file"),
        (
            [TEXT, "--html", "nowhere/page.html"],
            "nowhere/page.html: cannot be written: No such file or directory; choose a folder that exists and can be written to",
        ),
    ],
)
def test_refused_with_nothing_written(arguments: list[str], message: str, attention: Attention, tmp_path: Path) -> None:
    (tmp_path / "folder.png").mkdir()
    elsewhere = [] if {"--png", "--html"} & set(arguments) else ["--png", "a.png", "--html", "a.html"]
    assert refusal(attention(*arguments, *elsewhere)) == message
    assert list(tree(tmp_path)) == ["folder.png"]


@pytest.mark.parametrize(
    ("arguments", "named"), [([TEXT, "--head", "-1"], "'--head'"), ([TEXT, "--block", "x"], "'--block'"), ([], "Missing argument")]
)
def test_refused_by_the_parser(arguments: list[str], named: str, attention: Attention) -> None:
    assert named in refusal(attention(*arguments))
