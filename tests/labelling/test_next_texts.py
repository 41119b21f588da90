"""Which texts are chosen to be labelled next."""

import numpy as np
import pytest

from mha_cli.labelling.next_texts import CANDIDATES, NextTexts, features_of, margin, representatives
from mha_cli.records.record import Record
from mha_cli.runtime.classifier import Classifier
from tests.checkpoints import WORDS, small_checkpoint


def test_each_row_brings_the_others_most() -> None:
    """As a loop over all rows finds them; by then, rows that are chosen bring nothing."""
    rng = np.random.default_rng(0)
    features, weights = rng.uniform(-0.3, 1.0, (13, 7)), rng.uniform(0.1, 1.0, 13)
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    expected: list[int] = []
    for _ in range(5):
        worth = {
            row: sum(
                weight * max(0.0, *(one @ features[r] for r in [*expected, row])) for one, weight in zip(features, weights, strict=True)
            )
            for row in range(13)
            if row not in expected
        }
        expected.append(max(worth, key=worth.__getitem__))
    assert representatives((features @ features.T).astype(np.float32), weights.astype(np.float32), 5) == expected
    assert sorted(representatives(np.ones((5, 5), np.float32), np.ones(5, np.float32), 11)) == [0, 1, 2, 3, 4]


def test_rare_words_count_for_more() -> None:
    first, second, third = features_of([["the", "lamp"], ["the", "the", "film"], ["the"]])
    the, lamp = np.log(4 / 3), np.log(4)
    norm = np.hypot(the, lamp)
    assert sorted(first[first > 0]) == pytest.approx([the / norm, lamp / norm])
    assert (first @ second, first @ third, third.sum()) == pytest.approx(((the / norm) ** 2, the / norm, 1.0))


def test_the_margin_of_one_label_and_of_several() -> None:
    probabilities = np.array([0.25, 0.5, 0.125, 0.125], np.float32)
    assert margin(probabilities) == 0.25
    assert margin(probabilities, np.array([0.5, 0.875, 0.5, 0.25], np.float32)) == 0.125


def test_a_stream_takes_the_memory_of_its_candidates_alone() -> None:
    classifier, number = Classifier(small_checkpoint()), 3
    rng, kept, texts = np.random.default_rng(0), NextTexts(classifier, number, set()), list[str]()
    for _ in range(20):
        batch = [f"{' '.join(rng.choice(WORDS, 5))} {rng.integers(1 << 40)}" for _ in range(50)]
        texts += batch
        kept.add([(Record(text, b""), answer) for text, answer in zip(batch, classifier.predict(batch), strict=True)])
        assert len(kept._candidates) <= CANDIDATES * number
    margins = {one.text: abs(one.probabilities["neg"] - one.probabilities["pos"]) for one in classifier.predict(texts)}
    chosen = [margins[record.text] for record in kept.chosen()]
    assert len(set(chosen)) == number
    assert max(chosen) <= sorted(margins.values())[CANDIDATES * number - 1]
