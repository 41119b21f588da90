import json
import math
from pathlib import Path

import numpy as np
import pytest

from mha_cli.analysis.evaluation import evaluate
from mha_cli.analysis.inside.head_scores import score_heads
from mha_cli.analysis.shuffle import compare
from mha_cli.config.settings import FilesData
from mha_cli.preparation.scored_texts import labelled_texts
from mha_cli.report import contents
from mha_cli.report.contents import report
from mha_cli.runtime.classifier import Classifier
from mha_cli.runtime.inspection import explain
from tests.checkpoints import WORDS, small_checkpoint

pytestmark = pytest.mark.usefixtures("untraced")


def reviews_file(path: Path, texts: list[str]) -> FilesData:
    """A file of these texts, of both classes in turn, as the data to train on and to test with."""
    labels = ("neg", "pos")
    path.write_text("".join(json.dumps({"text": text, "label": labels[row % 2]}) + "\n" for row, text in enumerate(texts)))
    return FilesData(source="files", train=str(path), test=str(path))


@pytest.fixture
def data(tmp_path: Path) -> FilesData:
    """Forty texts of a few words, of which one has none."""
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(WORDS, rng.integers(3, 9))) for _ in range(39)]
    return reviews_file(tmp_path / "mine.jsonl", [*texts, ""])


def test_the_figures_are_those_of_the_other_commands(data: FilesData) -> None:
    checkpoint = small_checkpoint()
    labelled = labelled_texts(checkpoint, data)
    found = report("run", checkpoint, labelled, labelled)
    expected = evaluate(checkpoint, labelled)
    assert {**vars(found.evaluation), "seconds": 0} == {**vars(expected), "seconds": 0}
    assert found.shuffle == compare([("run", checkpoint, labelled)], 3, 1_000)[0]
    assert found.heads == score_heads(checkpoint, labelled, 500)[0]
    counts, confidence, accuracy = found.reliability
    assert counts.sum() == 40
    assert (counts * accuracy).sum() == pytest.approx(40 * expected.accuracy)
    assert (counts * abs(confidence - accuracy)).sum() / 40 == pytest.approx(expected.calibration_error)


@pytest.mark.parametrize("split", ["test", "validation"])
def test_the_worst_mistakes_are_the_most_confident_wrong_answers(split: str, data: FilesData) -> None:
    checkpoint = small_checkpoint()
    data = data.model_copy(update={"validation_share": 0.5})
    labelled = labelled_texts(checkpoint, data, split)
    mistakes = report("run", checkpoint, labelled, labelled).mistakes
    lines = [json.loads(line) for line in Path(data.train_paths[0]).read_text().splitlines()]
    rows = range(40) if labelled.rows is None else labelled.rows.tolist()
    assert len(rows) == (40 if split == "test" else 20)
    answers = Classifier(checkpoint).predict([lines[row]["text"] for row in rows])
    wrong = [(answer, row) for answer, row in zip(answers, rows, strict=True) if answer.label != lines[row]["label"]]
    worst = sorted(wrong, key=lambda pair: -round(pair[0].probability, 4))[:10]
    assert len(mistakes) == min(10, len(wrong)) > 3
    assert [one.probability for one in mistakes] == pytest.approx([answer.probability for answer, _ in worst], abs=1e-4)
    for one in mistakes:
        file, _, line = one.place.rpartition(":")
        given = lines[int(line) - 1]
        assert file == data.train_paths[0]
        assert int(line) - 1 in rows
        assert (one.true, one.answer) in {("neg", "pos"), ("pos", "neg")}
        assert one.true == given["label"]
        assert (one.num_before, one.num_after) == (0, 0)
        if given["text"]:
            explanation = explain(checkpoint, given["text"])
            assert (one.words, one.falls) == (explanation.words, explanation.occlusion)
        else:
            assert (one.words, one.falls) == ([], None)


def test_of_a_long_text_the_part_that_decides_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contents, "SHOWN_WORDS", 4)
    data = reviews_file(tmp_path / "mine.jsonl", ["the film was a film . not superb , it's a dreadful film"] * 2)
    checkpoint = small_checkpoint()
    labelled = labelled_texts(checkpoint, data)
    (one,) = report("run", checkpoint, labelled, labelled).mistakes
    whole = explain(checkpoint, "the film was a film . not superb , it's a dreadful film")
    sums = [sum(map(abs, whole.occlusion[start : start + 4])) for start in range(10)]
    assert one.falls is not None
    assert sum(map(abs, one.falls)) == pytest.approx(max(sums))
    assert one.words == whole.words[one.num_before : one.num_before + 4]
    assert one.num_before + 4 + one.num_after == len(whole.words)


@pytest.mark.parametrize(
    ("limit", "most", "num_texts", "silenced"),
    [
        ("PASSES_FOR_HEADS", 15, 7, True),  # of two heads
        ("PRODUCTS_FOR_HEADS", 3e5, 10, False),  # a gradient takes as long as three forward passes
    ],
)
def test_what_would_take_long_is_left_out(
    limit: str, most: float, num_texts: int, silenced: bool, data: FilesData, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contents, "MOST_WORDS", 4)
    monkeypatch.setattr(contents, "FEWEST_FOR_HEADS", 7 if silenced else 100)
    monkeypatch.setattr(contents, limit, most)
    checkpoint = small_checkpoint()
    labelled = labelled_texts(checkpoint, data)
    found = report("run", checkpoint, labelled, labelled)
    assert found.heads.num_texts == num_texts
    assert [math.isnan(head.accuracy_fall) for head in found.heads.heads] == [not silenced] * 2
    assert all(head.importance > 0 for head in found.heads.heads)
    for one in found.mistakes:
        assert (one.falls is None) == (not 0 < len(one.words) <= 4)
