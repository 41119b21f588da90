import dataclasses
import html
import math
import re
import xml.etree.ElementTree
from pathlib import Path

import numpy as np
import pytest

from mha_cli.checkpoint.file import Checkpoint, read_checkpoint, write_checkpoint
from mha_cli.runtime.inspection import view_attention
from tests.checkpoints import small_checkpoint, with_text
from tests.cli.command import Mha, has_control_characters, run_mha
from tests.pages.pages import HOSTILE, data_of

TEXT = "The film was not DREADFUL, it’s superb"
WORDS = ["The", "film", "was", "not", "DREADFUL", ",", "it’s", "superb"]
LONG = " ".join(f"{word}{number}" for number in range(30) for word in ("the", "film"))
ODD_TEXTS = (
    "[bold]the[/bold] [/x] \x1b[31m film \x1b]0;title\x07 $x_1$ \\frac{1}{2} %",
    "映画 は 素晴らしい 🙂👩‍👩‍👧 ﷽",
    "a" * 500,
    HOSTILE,
)


@pytest.fixture
def attention(small: Path, mha: Mha) -> Mha:
    """``mha attention ARGS -c SMALL``."""
    return lambda *args: mha("attention", *args, "-c", small)


@pytest.fixture(scope="module")
def blocks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of two blocks with three heads and one, that reads up to 200 words."""
    checkpoint = with_text(small_checkpoint(num_blocks=2, num_heads=[3, 1], key_dim=5, positions="sinusoidal"), sequence_length=200)
    checkpoint.weights["encoder_1/attention/query_kernel"][:] *= 4
    path = tmp_path_factory.mktemp("blocks") / "blocks.keras"
    write_checkpoint(path, checkpoint)
    return path


def entropy_of(weights: np.ndarray) -> float:
    """In nats, the mean over the rows."""
    return -sum(float(weight) * math.log(weight) for row in weights for weight in row if weight > 0) / len(weights)


def even_heads(*heads: int, num_heads: int = 2) -> Checkpoint:
    """A model of which these heads look at all words equally."""
    checkpoint = small_checkpoint(num_heads=num_heads)
    for head in heads:
        for name in ("query_kernel", "query_bias"):
            checkpoint.weights[f"encoder_0/attention/{name}"][..., head, :] = 0
    return checkpoint


def test_a_short_review_is_a_heat_map(attention: Mha, small: Path) -> None:
    result = attention(TEXT, "--head", "1").silent()
    weights = view_attention(read_checkpoint(small), TEXT).of(0, 1)
    heading, legend, numbers, *rows = result.lines
    assert heading.endswith(f"; block 0, head 1: entropy {entropy_of(weights):.3f} of at most {math.log(8):.3f} nats")
    assert legend == f"rows look, columns are looked at; the darkest shade is a weight of {weights.max():.3f}"
    assert numbers.split() == [str(column) for column in range(len(WORDS))]
    assert len(rows) == len(WORDS)
    for row, (line, word) in enumerate(zip(rows, WORDS, strict=True)):
        shades = ["  ░░▒▒▓▓██"[2 * min(4, int(5 * weight / weights.max())) :][:2] for weight in weights[row]]
        assert line.rstrip() == f"{row:>3} {word:<8} {' '.join(shades)}".rstrip()
    assert numbers.index("3") == rows[0].index(WORDS[0]) + 8 + 3 * 3 + 2  # a number stands above the end of its column


def test_attention_close_to_uniform_is_said(mha: Mha, tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "even.keras", even_heads(0, 1))
    result = mha("attention", TEXT, "-c", "even.keras").silent()
    heading, said, way_out = result.lines
    assert heading.endswith(f": entropy {math.log(8):.3f} of at most {math.log(8):.3f} nats")
    assert said == (
        "attention is close to uniform: every word looks at all 8 about equally, with weights from 0.125 to 0.125 (equal shares: 0.125)"
    )
    assert way_out == "`mha explain` shows which words decide; --json, --html and --png have all weights"


def test_a_head_that_is_not_uniform_by_itself_is_named(mha: Mha, tmp_path: Path) -> None:
    checkpoint = even_heads(*range(6), num_heads=7)
    write_checkpoint(tmp_path / "even.keras", checkpoint)
    weights = view_attention(checkpoint, TEXT).weights[0]
    assert math.exp(entropy_of(weights[6])) < 0.95 * 8 <= math.exp(entropy_of(weights.mean(axis=0)))
    result = mha("attention", TEXT, "-c", "even.keras")
    assert result.lines[2] == f"not uniform by themselves: --head 6 ({entropy_of(weights[6]):.3f})"


def test_links_and_a_summary_of_a_long_review(blocks: Path, mha: Mha) -> None:
    result = mha("attention", LONG, "-c", blocks, "--block", "1", "--head", "0").silent()
    view = view_attention(read_checkpoint(blocks), LONG)
    weights = view.of(1, 0).copy()
    looked_at = weights.mean(axis=0)
    np.fill_diagonal(weights, 0)
    assert result.lines[0].endswith(f"; block 1, head 0: entropy {entropy_of(view.of(1, 0)):.3f} of at most {math.log(60):.3f} nats")
    links, summary = result.stdout.split("Most looked at, by all words")
    assert "Strongest links" in links
    for place in np.argsort(weights, axis=None)[::-1][:12]:
        row, column = np.unravel_index(place, weights.shape)
        cells = [f"{view.words[row]}* ({row})", f"{view.words[column]}* ({column})", f"{weights[row, column]:.3f}"]
        assert any(all(cell in line for cell in cells) for line in links.splitlines()), cells
    for place in np.argsort(looked_at)[::-1][:12]:
        cells = [f"{view.words[place]}* ({place})", f"{looked_at[place]:.1%}"]
        assert any(all(cell in line for cell in cells) for line in summary.splitlines()), cells


@pytest.mark.parametrize("text", ODD_TEXTS, ids=range(len(ODD_TEXTS)))
def test_odd_texts_are_shown_harmlessly(text: str, attention: Mha, tmp_path: Path) -> None:
    result = attention(text, "--png", "odd.png", "--html", "odd.html")
    assert result.code == 0
    told = r"odd\.png: 11 of the 11 words have letters that .*\n" if text.startswith("映画") else ""
    assert re.fullmatch(told, result.stderr), result.stderr
    assert not has_control_characters(result.stdout)
    assert (tmp_path / "odd.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    data_of(tmp_path / "odd.html")


def test_wide_letters_keep_their_columns(attention: Mha) -> None:
    rows = attention("멋지다 the 🙂").lines[3:]
    assert rows[0].startswith("  0 멋지다* ")
    assert rows[1].startswith("  1 the     ")
    assert rows[2].startswith("  2 🙂*     ")


def test_json_and_the_page_have_the_weights_of_every_block_and_head(blocks: Path, tmp_path: Path) -> None:
    """Through a process of its own, with the checkpoint from the environment and a byte that is no UTF-8."""
    env = {"MHA_CHECKPOINT": str(blocks)}
    result = run_mha("attention", b"The film\xff was", "--json", "--html", "page.html", cwd=tmp_path, env=env)
    assert (result.code, result.stderr) == (0, f"using {blocks} ($MHA_CHECKPOINT)\n")
    said, data = result.json, data_of(tmp_path / "page.html")
    view = view_attention(read_checkpoint(blocks), "The film\ufffd was")
    assert said.keys() == {"words", "unknown", "label", "probability", "entropy", "max_entropy", "near_uniform", "weights"}
    assert (said["label"], said["probability"]) == (view.prediction.label, pytest.approx(view.prediction.probability))
    assert (data["label"], data["probability"]) == (said["label"], view.prediction.probability)
    for found, tolerance in ((said, 1e-6), (data, 1e-4)):
        assert found["words"] == ["The", "film", "\ufffd", "was"]
        assert found["unknown"] == [False, False, True, False]
        assert found["entropy"] == [pytest.approx([entropy_of(head) for head in block]) for block in view.weights]
        assert found["max_entropy"] == pytest.approx(math.log(4))
        assert found["near_uniform"] == [[math.exp(entropy) >= 0.95 * 4 for entropy in block] for block in found["entropy"]]
        assert [len(heads) for heads in found["weights"]] == [3, 1]
        for weights, expected in zip(found["weights"], view.weights, strict=True):
            np.testing.assert_allclose(weights, expected, rtol=0, atol=tolerance)


def test_the_page_tells_of_the_model_what_its_file_says(mha: Mha, tmp_path: Path) -> None:
    """Whatever that is: a stranger's names and figures are cut, escaped, or not believed."""
    names = ("bad", "\x1b[31m" + "x" * 100, *map(str, range(30)))
    checkpoint = small_checkpoint(names)
    (tmp_path / "some" / "runs").mkdir(parents=True)
    path = tmp_path / "some" / "runs" / "a.keras"
    for accuracy, shown in (
        (0.75, "75.00%, according to the checkpoint"),
        (1e300, "not in the checkpoint"),
        (None, "not in the checkpoint"),
    ):
        metrics = {} if accuracy is None else {"validation_accuracy": accuracy}
        write_checkpoint(path, dataclasses.replace(checkpoint, metrics=metrics))
        mha("attention", "the film", "-c", path, "--html", "page.html")
        model = data_of(tmp_path / "page.html")["model"]
        assert model["model"] == "runs/a.keras"
        assert model["validation accuracy"] == shown
        assert model["classes"] == f"bad, \\x1b[31m{'x' * 34}…, {', '.join(map(str, range(18)))} and 12 more"
        assert model["weights"] == f"{sum(weight.size for weight in checkpoint.weights.values()):,}"


def test_what_the_picture_says(blocks: Path, mha: Mha, tmp_path: Path) -> None:
    text = "The Zyzzyva it’s superb"
    mha("attention", text, "-c", blocks, "--png", "heads.svg")
    drawn = (tmp_path / "heads.svg").read_text()
    assert xml.etree.ElementTree.fromstring(drawn).tag.endswith("svg")
    entropies = [entropy_of(head) for head in view_attention(read_checkpoint(blocks), text).weights[0]]
    for label in (
        *("block 0, head 0", "block 0, head 2", "it’s", "word that looks", "attention weight", "Zyzzyva*"),
        "* not in the model&#x27;s vocabulary: it reads all such words as one",
        *(f"entropy {entropy:.3f} of at most {math.log(4):.3f} nats" for entropy in entropies),
    ):
        assert f"<!-- {html.unescape(label)} -->" in drawn, label


def test_letters_without_a_glyph_are_told_of_in_one_line(small: Path, tmp_path: Path) -> None:
    """In a process of its own, where Matplotlib finds no folder for its caches either; it has something to say about all that."""
    result = run_mha(
        "attention", "映画 was ภาพยนตร์ the film 🙂", "-c", small, "--png", "a.png", cwd=tmp_path, env={"MPLCONFIGDIR": "/proc/nowhere"}
    )
    assert result.code == 0
    told = re.fullmatch(r"a\.png: (\d+) of the \d+ words have letters .* lacks, drawn as boxes; --html shows all letters\n", result.stderr)
    assert told, result.stderr
    assert int(told[1]) >= 1
