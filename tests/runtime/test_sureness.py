import numpy as np
import pytest
import scipy.stats

from mha_cli.checkpoint.held_out import HeldOut, rounded
from mha_cli.runtime.classifier import Prediction
from mha_cli.runtime.sureness import BINS, FALSE_ALARMS, LEAST_TEXTS, Sureness

CLASSES = ("neg", "odd", "pos")


def drawn(number: int, seed: int, shares: tuple[float, ...] = (0.5, 0.2, 0.3), lower: float = 0.0) -> np.ndarray:
    """Probabilities (N, C) of a model that is surer of some classes than of others, and of each less sure by ``lower``."""
    rng = np.random.default_rng(seed)
    classes = rng.choice(3, number, p=shares)
    largest = np.maximum(0.36, rng.beta(np.array([9, 2, 4])[classes], 2) * 0.6 + 0.4 - lower)
    probabilities = np.repeat((1 - largest)[:, None] / 2, 3, axis=1)
    probabilities[np.arange(number), classes] = largest
    return probabilities.astype(np.float32)


def sureness(held_out: np.ndarray, new: np.ndarray) -> Sureness:
    made = Sureness(HeldOut.of(held_out, held_out.argmax(axis=1)), CLASSES)
    for start in range(0, len(new), 5_003):
        rows = new[start : start + 5_003].tolist()
        made.add([Prediction("", CLASSES[row.index(max(row))], max(row), dict(zip(CLASSES, row, strict=True)), 0, 0, 0, 0) for row in rows])
    return made


def test_of_one_class_the_test_is_smirnovs() -> None:
    held_out, new = drawn(307, 0, (1, 0, 0)), drawn(211, 1, (1, 0, 0), lower=0.02)
    bins = [np.floor(rounded(part.max(axis=1)) * BINS) for part in (held_out, new)]
    theirs = scipy.stats.ks_2samp(bins[1], bins[0], alternative="greater")
    p_value, words = sureness(held_out, new).test()
    assert p_value == pytest.approx(np.exp(-2 * theirs.statistic**2 * 307 * 211 / (307 + 211)))
    below = float(words.split("below ")[1].split(",")[0])
    old_share, new_share = (float((part < round(below * BINS)).mean()) for part in bins)
    assert new_share - old_share == pytest.approx(theirs.statistic)
    assert words == f"{new_share:.0%} of the probabilities are below {below:.2f}, of held-out texts {old_share:.0%}"


def test_other_shares_of_the_classes_are_no_change() -> None:
    """Though most of the new answers are of the class of which the model is least sure."""
    held_out, new = drawn(997, 0), drawn(3_001, 1, (0.1, 0.8, 0.1))
    apart = scipy.stats.ks_2samp(new.max(axis=1), held_out.max(axis=1), alternative="greater", method="asymp")
    assert apart.pvalue < 1e-6
    assert sureness(held_out, new).test()[0] > 0.5
    assert sureness(held_out, drawn(3_001, 1, (0.1, 0.8, 0.1), lower=0.2)).warning


def test_many_texts_do_not_make_a_small_change_large() -> None:
    held_out, new = drawn(307, 0), drawn(50_021, 1, lower=0.01)
    apart = scipy.stats.ks_2samp(new.max(axis=1), drawn(50_021, 2).max(axis=1), alternative="greater", method="asymp")
    assert apart.pvalue < 1e-12
    assert not sureness(held_out, new).warning


def test_false_alarms_are_few() -> None:
    alarms = sum(bool(sureness(drawn(211, seed), drawn(1_009, 1_000 + seed)).warning) for seed in range(40))
    assert alarms <= 40 * FALSE_ALARMS


def test_the_warning_waits_for_many_texts_and_for_lower_probabilities() -> None:
    held_out, new = drawn(307, 0), drawn(LEAST_TEXTS, 1, lower=0.15)
    told = "the model is less sure of these texts than of the old ones: "
    assert sureness(held_out, new).warning.startswith(told)
    assert not sureness(held_out, new[1:]).warning
    assert not sureness(new, drawn(LEAST_TEXTS, 1)).warning


def test_a_class_without_held_out_answers_is_left_out() -> None:
    held_out = drawn(307, 0, (1, 0, 0))
    assert sureness(held_out, drawn(1_009, 1, (0, 1, 0), lower=0.3)).test() == (1.0, "")
    assert sureness(held_out, drawn(1_009, 1, (0.5, 0.5, 0))).test()[0] > FALSE_ALARMS
