from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import file_peers
import harness
import numpy as np
import paired
import plots
import pytest
import tables
import text_peers
import texts

from tests.benchmarks.test_readme_table import record
from tests.tables import write_table

KINDS = {"where": "place", "who": "person", "when": "date"}
LEARNT = [(f"{word} is the {noun}", kind) for word, kind in KINDS.items() for noun in ("station", "king", "feast", "end")]
ASKED = [("when is the bus", "date"), ("who is the man", "person"), ("where is the bank", "place"), ("who", "date")]


@pytest.mark.parametrize("name", ["svm-words", "svm-characters", "svm-both", "nbsvm"])
def test_a_peer_learns_three_classes_from_a_file(name: str, tmp_path: Path) -> None:
    train, test = write_table(tmp_path / "train.csv", LEARNT), write_table(tmp_path / "test.csv", ASKED)
    figures = file_peers.score(name, train, test, seed=0)
    assert paired.unpacked(figures["right"], 4).tolist() == [True, True, True, False]
    assert figures["accuracy"] == 0.75
    assert figures["macro_f1"] == pytest.approx((1 + 2 / 3 + 2 / 3) / 3)


def test_each_of_many_classes_has_log_count_ratios_against_the_rest() -> None:
    peer = text_peers.NbSvm(seed=0)
    peer.fit(["a", "a b", "b", "c"], np.array([0, 0, 1, 2]))
    assert peer.vectorizer.get_feature_names_out().tolist() == ["a", "a b", "b", "c"]
    inside, outside = np.array([3, 2, 2, 1]), np.array([1, 1, 2, 2])
    np.testing.assert_allclose(peer.log_ratios[0], np.log(inside / 8) - np.log(outside / 6))
    assert len(peer.models) == 3


def test_a_fifth_of_every_class_is_held_out_and_none_is_lost(tmp_path: Path) -> None:
    rows = [(f'text "{number}", {label}', label) for label, size in {"often": 23, "seldom": 5, "once": 1}.items() for number in range(size)]
    path = write_table(tmp_path / "set_train.csv", rows)
    learnt, scored = (list(zip(*file_peers.read_csv(part), strict=True)) for part in texts.hold_out(path, tmp_path))
    assert Counter(label for _, label in scored) == {"often": 4, "seldom": 1}
    assert sorted(learnt + scored) == sorted(rows)
    assert scored == list(zip(*file_peers.read_csv(texts.hold_out(path, tmp_path)[1]), strict=True))


def test_a_draw_has_so_many_texts_of_every_class_and_another_seed_others(tmp_path: Path) -> None:
    rows = [(f"text {number}, {label}", label) for label, size in {"often": 23, "seldom": 5}.items() for number in range(size)]
    path = write_table(tmp_path / "set_train.csv", rows)
    first, same, other = (file_peers.read_csv(texts.draw(path, 8, seed, tmp_path)) for seed in (0, 0, 1))
    assert Counter(first[1]) == {"often": 8, "seldom": 5}
    assert set(zip(*first, strict=True)) <= set(rows)
    assert first == same != other


@pytest.mark.exhaustive
@pytest.mark.extras
def test_features_are_those_of_each_text_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("transformers", exc_type=ImportError)
    from encoder_peers import Encoder

    from tests.pretrained.tiny import tiny_folder

    monkeypatch.setenv("MHA_MINILM", str(tiny_folder(tmp_path / "encoder", "bert")))
    encoder, lines = Encoder(), [text for text, _ in ASKED]
    features = encoder.features(lines)
    for line, expected in zip(lines, features, strict=True):
        np.testing.assert_allclose(encoder.features([line])[0], expected, atol=1e-5)


def made(name: str, system: str, seed: int | None, right: Sequence[int], seconds: float) -> dict[str, Any]:
    shares = {"accuracy": np.mean(right), "macro_f1": np.mean(right) / 2, "right": paired.packed(np.array(right, bool))}
    figures = {**shares, "wall_seconds": seconds, "classes": 2, "train_texts": 1000, "test_texts": len(right)}
    return record({"set": name, "part": "test", "system": system, "seed": seed}, figures)


@pytest.fixture
def records() -> list[harness.Record]:
    return [
        made("a", "mha text", 0, [1] * 80 + [0] * 20, 50.0),
        made("a", "mha text", 1, [1] * 82 + [0] * 18, 70.0),
        made("a", "LinearSVC, words", None, [1] * 60 + [0] * 40, 1.5),
        made("a", "LinearSVC, characters", None, [1] * 50 + [0] * 50, 1.0),
        made("a", "fastText, 5 epochs", 0, [1] * 70 + [0] * 30, 2.5),
        made("b", "mha text", 0, [0, 1] * 50, 20.0),
        made("b", "mha imdb", 0, [1] * 100, 20.0),
        made("b", "LinearSVC, words", None, [1, 0] * 50, 11.5),
        made("c", "LinearSVC, words", None, [1], 1.0),
    ]


def test_a_row_compares_with_the_best_peer_and_the_last_with_their_mean(records: list[harness.Record]) -> None:
    table = tables.texts(records)
    assert table.title.startswith("Test accuracy of one recipe, unchanged, on 2 sets of texts, ")
    first, second, last = table.rows
    assert first[:5] == ("a", "2", "1,000 + 100", "81.00 ± 1.41 %", "70.00 %, fastText, 5 epochs")
    assert first[5].startswith("+11.00 (+5.") and first[5].endswith(") *")
    assert first[6:] == ("40.5, 35.0", "60, 2.5")
    assert second[3:5] == ("50.00 %", "50.00 %, LinearSVC, words")
    assert second[5].startswith("+0.00 (-") and not second[5].endswith("*")
    assert (*last[:5], *last[6:]) == ("mean", "–", "–", "65.50 %", "60.00 %", "32.8, 30.0", "40, 7.0")
    assert last[5].startswith("+5.50 (-")
    assert tables.texts(records, "mha imdb").rows[0][3] == "100.00 %"


def test_a_row_has_the_mean_of_the_draws_of_every_column() -> None:
    runs = [("peer", "a", "50", 0, 0.5), ("peer", "a", "8", 0, 0.25), ("peer", "a", "8", 1, 0.75), ("mha text", "a", "8", 0, 0.9)]
    table = tables.few_labels(
        [
            made(name, system, seed, [1], 1.0)
            | {"settings": {"set": name, "part": f"{size} per class", "system": system, "seed": seed}, "figures": {"accuracy": share}}
            for system, name, size, seed, share in runs
        ]
    )
    assert table.headings == ("system", "draws", "a, 8 per class", "a, 50 per class", "mean")
    assert table.rows == [("peer", "1", "50.00 ± 35.36 %", "50.00 %", "50.00 %"), ("mha text", "1", "90.00 %", "–", "–")]


def test_a_picture_has_the_best_peer_of_each_family(records: list[harness.Record], tmp_path: Path) -> None:
    results = paired.compared_sets(records, "mha text")
    assert [results[0].best_peer(family) for family in plots.FAMILIES] == ["LinearSVC, words", "", "fastText, 5 epochs"]
    plots.draw_texts(results, "mha text", tmp_path / "texts.png")
    assert (tmp_path / "texts.png").stat().st_size > 1000
