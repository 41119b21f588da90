from __future__ import annotations

import json
import re
import statistics
import xml.etree.ElementTree
from typing import TYPE_CHECKING, Any

import pytest

from mha_cli.checkpoint.file import read_checkpoint
from tests.cli.command import CONFIGS, ROOT, has_control_characters, tree
from tests.documentation import fits, text_block

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.command import Mha, Run

FIGURES = {"accuracy", "shuffled_accuracies", "shuffled_mean", "shuffled_spread", "flip_share", "largest_change"}
FIELDS = {"name", "positions", "data", "split", "num_texts", "reads_order", "verdict"} | FIGURES


@pytest.fixture
def both(compared: Run) -> list[Path]:
    """The checkpoints with and without positions."""
    return [compared.cwd / "both" / name / "checkpoint.keras" for name in ("with-positions", "without-positions")]


@pytest.fixture
def results(compared: Run) -> list[dict[str, Any]]:
    assert compared.result.code == 0, compared.result.stderr
    parsed: list[dict[str, Any]] = json.loads(compared.result.stdout)
    return parsed


def fits_page(result: dict[str, Any], row: str) -> bool:
    """Whether a model's figures lie in the ranges of a row of docs/shuffle-test.md, shares in whole percents."""
    line = next(line for line in (ROOT / "docs" / "shuffle-test.md").read_text("utf-8").splitlines() if line.startswith(f"| {row} |"))
    in_order, shuffled, flipped, change = ([float(number) for number in re.findall(r"[\d.]+", cell)] for cell in line.split("|")[2:-1])
    shares = [(result["accuracy"], in_order), (result["flip_share"], flipped), *((one, shuffled) for one in result["shuffled_accuracies"])]
    return (
        all(limits[0] <= round(100 * share) <= limits[-1] for share, limits in shares)
        and change[0] <= result["largest_change"] <= change[-1]
    )


@pytest.mark.process
def test_two_runs_that_differ_in_positions_only(both: list[Path], compared: Run, results: list[dict[str, Any]]) -> None:
    learned, none = (read_checkpoint(path).config for path in both)
    assert (learned.model.positions, none.model.positions) == ("learned", "none")
    assert learned.model_copy(update={"model": none.model}) == none
    assert [result["name"] for result in results] == ["with-positions", "without-positions"]
    for result in results:
        assert result.keys() == FIELDS
        assert (result["data"], result["split"]) == ("sample", "twins")
        assert len(result["shuffled_accuracies"]) == 3
        assert result["shuffled_mean"] == pytest.approx(statistics.mean(result["shuffled_accuracies"]))
        assert result["shuffled_spread"] == pytest.approx(statistics.stdev(result["shuffled_accuracies"]))
    assert (compared.cwd / "order.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    assert not [name for name in tree(compared.cwd) if name.endswith(".tmp")]


@pytest.mark.process
def test_with_positions_it_reads_order(results: list[dict[str, Any]]) -> None:
    result = results[0]
    assert result["positions"] == "learned"
    assert result["reads_order"] is True
    assert result["accuracy"] > 0.6
    assert result["accuracy"] > result["shuffled_mean"] + 0.05
    assert result["flip_share"] > 0.1
    assert result["largest_change"] > 0.1
    points = 100 * (result["accuracy"] - result["shuffled_mean"])
    assert result["verdict"] == f"reads word order: shuffling the words costs {points:.1f} points of accuracy"


@pytest.mark.process
def test_without_positions_it_cannot(results: list[dict[str, Any]]) -> None:
    result = results[1]
    assert result["positions"] == "none"
    assert result["reads_order"] is False
    assert result["largest_change"] <= 1e-5
    assert result["accuracy"] == pytest.approx(0.5, abs=0.03)  # both of a pair of twins get the same answer
    assert result["shuffled_mean"] == pytest.approx(result["accuracy"], abs=0.03)
    assert result["verdict"].startswith("cannot read word order: the most that a shuffle moves a probability is ")
    assert fits_page(result, "no positions")
    assert not fits_page(result, "sinusoidal positions")


@pytest.mark.exhaustive
def test_the_sample_recipe_is_as_the_pages_say(mha: Mha) -> None:
    result = mha("shuffle-test", "--config", CONFIGS / "sample.yaml", "--json")
    assert result.code == 0, result.stderr
    with_positions, without = json.loads(result.stdout)
    assert with_positions["num_texts"] == 1000
    assert len(with_positions["shuffled_accuracies"]) == 5
    assert fits_page(with_positions, "sinusoidal positions")
    assert fits_page(without, "no positions")
    text, run = "The acting was superb, not dreadful.", "runs/sample-shuffle-test/with-positions"
    shown = text_block("inspect.md", f'mha attention "{text}" --checkpoint runs/sample --head 0')
    assert fits(mha("attention", text, "-c", run, "--head", "0").stdout, shown)


@pytest.mark.process
def test_checkpoints_give_the_same_figures_again(mha: Mha, both: list[Path], results: list[dict[str, Any]], tmp_path: Path) -> None:
    result = mha("shuffle-test", *both, "--shuffles", "3", "--json")
    assert (result.code, result.stderr) == (0, "")
    for now, before in zip(json.loads(result.stdout), results, strict=True):
        assert now["accuracy"] == before["accuracy"]
        assert now["shuffled_accuracies"] == pytest.approx(before["shuffled_accuracies"], abs=0.01)
        assert now["reads_order"] == before["reads_order"]

    result = mha("shuffle-test", *both, "-n", "2", "--max-texts", "60", "--plot", "order.SVG")
    assert (result.code, result.stderr) == (0, "")
    assert not has_control_characters(result.stdout)
    for words in ("sample, split twins, ", "2 shuffles", "\nwithout-positions: cannot read word order: ", "\nwith-positions: "):
        assert words in result.stdout
    assert xml.etree.ElementTree.parse(tmp_path / "order.SVG").getroot().tag.endswith("svg")


def test_a_part_of_a_file_of_ones_own(mha: Mha, small: Path, tmp_path: Path) -> None:
    rows = "the film was superb, not dreadful\tpos\ndreadful, not superb\tneg\n"
    (tmp_path / "mine.tsv").write_text("body\tkind\n" + rows * 25)
    data = ("--data", "mine.tsv", "--text-column", "body", "--label-column", "kind")
    arguments = ("shuffle-test", small, *data, "-n", "1", "--max-texts", "37", "--json")
    first, again, other = (json.loads(mha(*arguments, *seed).stdout)[0] for seed in ([], ["--seed", "0"], ["--seed", "1"]))
    assert (first["data"], first["split"], first["num_texts"], first["shuffled_spread"]) == ("mine.tsv", "test", 37, 0)
    assert first == again != other
