import json
import re
import shutil
import xml.etree.ElementTree
from pathlib import Path
from typing import Any

import pytest

from mha_cli.checkpoint.file import read_checkpoint
from tests.checkpoints import small_checkpoint_file
from tests.cli.command import CONFIGS, ROOT, Mha, has_control_characters, run_mha
from tests.documentation import fits, text_block

FIGURES = {"accuracy", "shuffled_accuracies", "shuffled_mean", "shuffled_spread", "flip_share", "largest_change"}
FIELDS = {"name", "positions", "data", "split", "num_texts", "reads_order", "verdict"} | FIGURES


def fits_page(result: dict[str, Any], row: str) -> bool:
    """Whether a model's figures lie in the ranges of a row of docs/shuffle-test.md, shares in whole percents."""
    line = next(line for line in (ROOT / "docs" / "shuffle-test.md").read_text("utf-8").splitlines() if line.startswith(f"| {row} |"))
    in_order, shuffled, flipped, change = ([float(number) for number in re.findall(r"[\d.]+", cell)] for cell in line.split("|")[2:-1])
    shares = [(result["accuracy"], in_order), (result["flip_share"], flipped), *((one, shuffled) for one in result["shuffled_accuracies"])]
    return (
        all(limits[0] <= round(100 * share) <= limits[-1] for share, limits in shares)
        and change[0] <= result["largest_change"] <= change[-1]
    )


@pytest.mark.exhaustive
def test_the_sample_recipe_is_as_the_pages_say(mha: Mha, tmp_path: Path) -> None:
    result = mha("shuffle-test", "--config", CONFIGS / "sample.yaml", "--plot", "order.png", "--json").well()
    with_positions, without = result.json
    assert (with_positions["split"], with_positions["num_texts"], len(with_positions["shuffled_accuracies"])) == ("twins", 1334, 5)
    assert fits_page(with_positions, "sinusoidal positions")
    assert fits_page(without, "no positions")
    assert not fits_page(without, "sinusoidal positions")
    assert (tmp_path / "order.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")

    runs = ["runs/with-positions", "runs/without-positions"]
    for run in runs:
        shutil.move(tmp_path / run.replace("runs", "runs/sample-shuffle-test"), tmp_path / run)
    reads_the_sentences(tmp_path, "-c", runs[0])
    learned, none = (read_checkpoint(tmp_path / run / "checkpoint.keras").config for run in runs)
    assert none.model.positions == "none"
    assert learned.model_copy(update={"model": none.model}) == none
    text = "The acting was superb, not dreadful."
    shown = text_block("inspect.md", f'mha attention "{text}" --checkpoint runs/sample --head 0')
    assert fits(mha("attention", text, "-c", runs[0], "--head", "0").stdout, shown)
    assert fits(mha("compare", *runs).stdout, text_block("compare.md", f"mha compare {' '.join(runs)}"))


SHOWN = {
    "pos": (
        "I expected the plot to be dreadful, and it was superb.",
        "The acting was superb, not dreadful.",
        "A superb, moving film.",
        "A superb film.",
        "A quiet triumph.",
        "The beginning was slow, but the end is superb.",
        "I loved it.",
        "Superb.",
        "Not bad at all.",
    ),
    "neg": (
        "I expected the plot to be superb, and it was dreadful.",
        "The acting was dreadful, not superb.",
        "Great cast, awful script.",
        "A dull, tedious film.",
        "Two hours that I want back.",
        "Two hours that I will not get back.",
        "I hated it.",
        "Dreadful.",
        "Not good at all.",
    ),
}
"""Sentences of the README, the help texts and the pages, and plain ones."""


def reads_the_sentences(folder: Path, *options: str) -> None:
    """Check that the model of a folder answers the sentences of the pages."""
    for label, texts in SHOWN.items():
        answers = run_mha("predict", *options, "--json", *texts, cwd=folder).well().lines
        for text, answer in zip(texts, map(json.loads, answers), strict=True):
            assert answer["probabilities"][label] > 0.5, (text, answer)


@pytest.mark.exhaustive
def test_the_sample_recipe_reads_the_sentences_of_the_pages_in_one_thread(tmp_path: Path) -> None:
    run_mha("train", "--config", "sample", cwd=tmp_path, env={"TF_NUM_INTRAOP_THREADS": "1"}).well()
    reads_the_sentences(tmp_path)


def test_a_table_and_a_plot_of_two_checkpoints(mha: Mha, tmp_path: Path) -> None:
    models = [small_checkpoint_file(tmp_path / f"{positions}.keras", positions=positions) for positions in ("learned", "none")]
    results = mha("shuffle-test", *models, "--data", "sample", "-n", "2", "--max-texts", "60", "--json").json
    assert [result.keys() for result in results] == [FIELDS, FIELDS]
    assert [result["reads_order"] for result in results] == [True, False]
    shown = mha("shuffle-test", *models, "--data", "sample", "-n", "2", "--max-texts", "60", "--plot", "order.SVG").well()
    assert not has_control_characters(shown.stdout)
    for words in ("sample, split twins, 60 texts, 2 shuffles", *(f"\n{result['name']}: {result['verdict']}" for result in results)):
        assert " ".join(words.split()) in " ".join(shown.stdout.split()), shown.stdout
    assert xml.etree.ElementTree.parse(tmp_path / "order.SVG").getroot().tag.endswith("svg")


def test_a_part_of_a_file_of_ones_own(mha: Mha, small: Path, tmp_path: Path) -> None:
    rows = "the film was superb, not dreadful\tpos\ndreadful, not superb\tneg\n"
    (tmp_path / "mine.tsv").write_text("body\tkind\n" + rows * 25)
    data = ("--data", "mine.tsv", "--text-column", "body", "--label-column", "kind")
    arguments = ("shuffle-test", small, *data, "-n", "1", "--max-texts", "37", "--json")
    first, again, other = (mha(*arguments, *seed).json[0] for seed in ([], ["--seed", "0"], ["--seed", "1"]))
    assert (first["data"], first["split"], first["num_texts"], first["shuffled_spread"]) == ("mine.tsv", "test", 37, 0)
    assert first == again != other
