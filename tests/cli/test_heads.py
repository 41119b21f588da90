from __future__ import annotations

import json
import re
import xml.etree.ElementTree
from typing import TYPE_CHECKING, Any

import pytest

from mha_cli.checkpoint.file import read_checkpoint
from tests.checkpoints import small_checkpoint_file
from tests.cli.command import Result, has_control_characters, run_here, run_mha, tree
from tests.documentation import fits, text_block

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.cli.command import Run

    Heads = Callable[..., Result]

REVIEWS = ("the film was superb\tpos", "dreadful, not superb\tneg", "it's a film\tpos", "not the film\tneg")
PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture
def heads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Heads:
    """``mha heads ARGS`` in this process, which has TensorFlow already, beside a small file of reviews."""
    (tmp_path / "mine.tsv").write_text("text\tlabel\n" + "".join(f"{line}\n" for line in REVIEWS * 5))
    return lambda *args: run_here("heads", *args, cwd=tmp_path, monkeypatch=monkeypatch)


@pytest.fixture(scope="module")
def blocks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two blocks with three heads and two, of random weights."""
    return small_checkpoint_file(tmp_path_factory.mktemp("blocks") / "blocks.keras", num_blocks=2, num_heads=[3, 2], key_dim=5)


@pytest.mark.usefixtures("untraced")
def test_json_has_a_score_a_head(heads: Heads, blocks: Path) -> None:
    result = heads(blocks, "--data", "mine.tsv", "--json")
    assert result.code == 0, result.stderr
    said: dict[str, Any] = json.loads(result.stdout)
    assert said.keys() == {"data", "split", "num_texts", "accuracy", "heads", "pruning"}
    assert (said["data"], said["split"], said["num_texts"]) == ("mine.tsv", "test", 20)
    assert said["pruning"] is None
    assert [(score["block"], score["head"]) for score in said["heads"]] == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)]
    for score in said["heads"]:
        assert score.keys() == {"block", "head", "accuracy_without", "accuracy_fall", "importance"}
        assert 0 <= score["accuracy_without"] <= 1
        assert score["accuracy_fall"] == pytest.approx(said["accuracy"] - score["accuracy_without"])
        assert score["importance"] > 0
    assert "silencing head 1 of block 1" in result.stderr


@pytest.mark.usefixtures("untraced")
def test_a_table_and_a_plot(heads: Heads, blocks: Path, tmp_path: Path) -> None:
    result = heads(blocks, "--data", "mine.tsv", "--max-texts", "7", "--plot", "heads.svg")
    assert result.code == 0, result.stderr
    assert not has_control_characters(result.stdout)
    heading = re.search(r"mine\.tsv, split test, 7 texts: accuracy (\d+\.\d\d)%", result.stdout)
    assert heading is not None
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in result.lines if line.startswith("│")]
    assert [row[:2] for row in rows] == [["0", "0"], ["0", "1"], ["0", "2"], ["1", "0"], ["1", "1"]]
    for _, _, without, lost, importance in rows:
        assert float(lost) == pytest.approx(float(heading[1]) - float(without.rstrip("%")), abs=0.011)
        assert float(importance) > 0
    drawn = (tmp_path / "heads.svg").read_text()
    assert xml.etree.ElementTree.fromstring(drawn).tag.endswith("svg")
    for label in ("0.2", "1.1", "mine.tsv", "split test, 7 texts"):
        assert f"<!-- {label} -->" in drawn


@pytest.mark.usefixtures("untraced")
def test_pruned_without_retraining(heads: Heads, blocks: Path, tmp_path: Path) -> None:
    result = heads(blocks, "--data", "mine.tsv", "--prune", "3", "--output", "pruned.keras", "--plot", "heads.PNG", "--json")
    assert result.code == 0, result.stderr
    said = json.loads(result.stdout)
    pruning = said["pruning"]
    before_and_after = {f"{what}_{when}" for what in ("accuracy", "num_weights") for when in ("before", "after")}
    assert pruning.keys() == {"removed", "checkpoint", "retrained_epochs"} | before_and_after
    assert pruning["checkpoint"] == "pruned.keras"
    assert pruning["accuracy_before"] == said["accuracy"]
    assert len(pruning["removed"]) == 3
    pruned = read_checkpoint(tmp_path / "pruned.keras")
    left = [3 - sum(block == 0 for block, _ in pruning["removed"]), 2 - sum(block == 1 for block, _ in pruning["removed"])]
    assert pruned.config.model.num_heads == left
    assert min(left) == 1
    assert pruned.weights["encoder_0/attention/query_kernel"].shape == (14, left[0], 5)
    assert pruning["num_weights_after"] == sum(weight.size for weight in pruned.weights.values()) < pruning["num_weights_before"]
    assert (tmp_path / "heads.PNG").read_bytes().startswith(PNG)
    assert set(tree(tmp_path)) == {"mine.tsv", "pruned.keras", "heads.PNG"}


@pytest.mark.process
def test_a_trained_model_is_pruned_retrained_and_used(trained: Run, heads: Heads, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ("--split", "validation", "--prune", "2", "-o", "pruned.keras", "--retrain", "2")
    result = heads(trained.checkpoint, *arguments)
    assert result.code == 0, result.stderr
    assert not has_control_characters(result.stdout)
    command = "mha heads runs/sample"
    shown = text_block("inspect.md", command) + text_block(
        "inspect.md", f"{command} --prune 2 --output runs/sample/pruned.keras --retrain 2"
    )
    assert fits(result.stdout, shown)
    rows = {cells[0].strip(): cells[1:-1] for line in result.lines if len(cells := line.split("│")[1:]) == 4}
    assert rows.keys() == {"accuracy", "weights"}
    assert float(rows["accuracy"][1].strip().rstrip("%")) > 60
    assert result.lines[-1] == "written: pruned.keras"
    assert "epoch 2" in result.stderr
    assert read_checkpoint(tmp_path / "pruned.keras").config.model.heads == (2,)
    used = run_mha("predict", "-c", "pruned.keras", "the acting was superb, not dreadful", cwd=tmp_path)
    assert (used.code, used.stderr) == (0, "")
    seen = run_here("attention", "the acting was superb", "-c", "pruned.keras", "--json", cwd=tmp_path, monkeypatch=monkeypatch)
    assert len(json.loads(seen.stdout)["weights"][0]) == 2
