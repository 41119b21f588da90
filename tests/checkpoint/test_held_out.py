import numpy as np

from mha_cli.checkpoint.held_out import MOST_TEXTS, HeldOut, rounded


def test_a_random_part_of_many_texts_is_kept() -> None:
    labels = np.arange(3 * MOST_TEXTS, dtype=np.int32) % 3
    probabilities = np.eye(3, dtype=np.float32)[labels]
    kept = HeldOut.of(probabilities, labels)
    assert len(kept.labels) == MOST_TEXTS
    assert (kept.probabilities.argmax(axis=1) == kept.labels).all()
    assert np.bincount(kept.labels).min() > MOST_TEXTS / 3 - 150


def test_new_probabilities_are_rounded_like_the_kept_ones() -> None:
    probabilities = np.random.default_rng(0).dirichlet((0.1, 0.1), 7).astype(np.float32)
    assert np.array_equal(HeldOut.of(probabilities, np.zeros(7, np.int32)).probabilities, rounded(probabilities))
