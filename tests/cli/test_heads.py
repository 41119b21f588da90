import re
import xml.etree.ElementTree
from pathlib import Path
from typing import Any

import pytest

from mha_cli.checkpoint.file import read_checkpoint
from tests.checkpoints import small_checkpoint_file
from tests.cli.command import TINY, Mha, has_control_characters, run_mha, tree
from tests.documentation import fits, text_block
from tests.training.numpy_trainer import in_numpy

ROWS = ("the film was superb\tpos", "dreadful, not superb\tneg", "it's a film\tpos", "not the film\tneg")


@pytest.fixture
def blocks(tmp_path: Path) -> str:
    """Two blocks with three heads and two, of random weights, beside a small file of texts."""
    (tmp_path / "mine.tsv").write_text("text\tlabel\n" + "".join(f"{line}\n" for line in ROWS * 5))
    return small_checkpoint_file(tmp_path / "blocks.keras", num_blocks=2, num_heads=[3, 2], key_dim=5).name


@pytest.mark.usefixtures("untraced")
def test_a_table_and_a_plot(mha: Mha, blocks: str, tmp_path: Path) -> None:
    result = mha("heads", blocks, "--data", "mine.tsv", "--max-texts", "7", "--plot", "heads.svg").well()
    assert not has_control_characters(result.stdout)
    heading = re.search(r"mine\.tsv, split test, 7 texts: accuracy (\d+\.\d\d)%", result.stdout)
    assert heading is not None
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in result.lines if line.startswith("│")]
    assert [row[:2] for row in rows] == [["0", "0"], ["0", "1"], ["0", "2"], ["1", "0"], ["1", "1"]]
    for _, _, without, lost, importance, looks_at in rows:
        assert float(lost) == pytest.approx(float(heading[1]) - float(without.rstrip("%")), abs=0.011)
        assert float(importance) > 0
        assert re.fullmatch(r"(first|previous|itself|next|last|others) \d+%", looks_at)
    drawn = (tmp_path / "heads.svg").read_text()
    assert xml.etree.ElementTree.fromstring(drawn).tag.endswith("svg")
    for label in (
        "weight on previous, %",
        "weight on others, %",
        "accuracy lost without it, points",
        "mine.tsv, split test, 7 texts",
        "head",
        "block",
    ):
        assert f"<!-- {label} -->" in drawn


@pytest.mark.usefixtures("untraced")
def test_pruned_without_retraining(mha: Mha, blocks: str, tmp_path: Path) -> None:
    result = mha("heads", blocks, "--data", "mine.tsv", "--prune", "3", "--output", "pruned.keras", "--json").well()
    assert "silencing head 1 of block 1" in result.stderr
    said = result.json
    assert said.keys() == {"data", "split", "num_texts", "accuracy", "heads", "pruning"}
    assert [(score["block"], score["head"]) for score in said["heads"]] == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)]
    assert {frozenset(score) for score in said["heads"]} == {
        frozenset({"block", "head", "accuracy_without", "accuracy_fall", "importance", "looks_at"})
    }
    pruning = said["pruning"]
    before_and_after = {f"{what}_{when}" for what in ("accuracy", "num_weights") for when in ("before", "after")}
    assert pruning.keys() == {"removed", "checkpoint", "retrained_epochs"} | before_and_after
    assert (pruning["checkpoint"], pruning["accuracy_before"], pruning["retrained_epochs"]) == ("pruned.keras", said["accuracy"], 0)
    pruned = read_checkpoint(tmp_path / "pruned.keras")
    left = [3 - sum(block == 0 for block, _ in pruning["removed"]), 2 - sum(block == 1 for block, _ in pruning["removed"])]
    assert pruned.config.model.num_heads == left
    assert (sum(left), min(left)) == (2, 1)
    assert pruning["num_weights_after"] == sum(weight.size for weight in pruned.weights.values()) < pruning["num_weights_before"]
    scored = mha("evaluate", "pruned.keras", "--data", "mine.tsv", "--json").json
    assert pruning["accuracy_after"] == pytest.approx(scored["accuracy"])
    assert set(tree(tmp_path)) == {"mine.tsv", "blocks.keras", "pruned.keras"}


@pytest.mark.parametrize("part", [{"num_key_value_heads": 1}, {"positions": "linear_biases"}])
def test_heads_that_depend_on_their_number_are_not_pruned(mha: Mha, blocks: str, tmp_path: Path, part: dict[str, Any]) -> None:
    small_checkpoint_file(tmp_path / "part.keras", **part)
    result = mha("heads", "part.keras", "--data", "mine.tsv", "--prune", "1", "-o", "pruned.keras")
    assert (result.code, (tmp_path / "pruned.keras").exists()) == (2, False)
    assert result.stderr.endswith(
        "error: --prune 1: a head's keys, or its slope, depend on the number of heads; "
        "only models with num_key_value_heads=null and without linear_biases can be pruned\n"
    )


@pytest.mark.process
@pytest.mark.usefixtures("untraced")
def test_a_model_of_ones_own_is_pruned_retrained_and_used(mha: Mha, tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        in_numpy(patch.setattr)
        assert mha("train", "--config", TINY, "--set", "data.num_texts=200", "--set", "training.epochs=1").code == 0
    result = mha("heads", "runs/tiny", "--split", "validation", "--prune", "2", "-o", "pruned.keras", "--retrain", "2").well()
    assert not has_control_characters(result.stdout)
    lines = ("mha heads runs/sample", "mha heads runs/sample --prune 2 --output runs/sample/pruned.keras --retrain 2")
    assert fits(result.stdout, "".join(text_block("inspect.md", line) for line in lines))
    rows = {cells[0].strip(): cells[1:-1] for line in result.lines if len(cells := line.split("│")[1:]) == 4}
    assert rows.keys() == {"accuracy", "weights"}
    assert result.lines[-1] == "written: pruned.keras"
    assert "epoch 2" in result.stderr
    assert read_checkpoint(tmp_path / "pruned.keras").config.model.heads == (2,)
    run_mha("predict", "-c", "pruned.keras", "the acting was superb, not dreadful", cwd=tmp_path).silent()
    seen = mha("attention", "the acting was superb", "-c", "pruned.keras", "--json")
    assert len(seen.json["weights"][0]) == 2
