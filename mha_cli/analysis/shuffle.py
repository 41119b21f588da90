"""The word-order test: score texts in order, then with the words of each shuffled.

Without positions, self-attention treats a text as a set: permuting the tokens permutes the encoder's outputs, and the maximum over
them does not change. Source: Vaswani et al. 2017, section 3.5; Lee et al. 2019, "Set Transformer", property 1.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from mha_cli.arrays import Float64s
from mha_cli.checkpoint.file import Checkpoint, read_checkpoint
from mha_cli.corpus.encoded_texts import EncodedTexts
from mha_cli.preparation.prepare import PreparedData
from mha_cli.preparation.scored_texts import LabelledTexts, labelled_texts, word_order_split
from mha_cli.runs import refuse_used, run_directory
from mha_cli.runtime.metrics import answers_among, are_right
from mha_cli.runtime.probabilities import Scorer
from mha_cli.system.callbacks import SILENT, Callbacks

ROUNDING = 1e-5  # largest change of a probability that the order of float32 additions explains


@dataclass(frozen=True)
class ShuffleResult:
    """One model, in order and shuffled."""

    name: str
    positions: Literal["learned", "sinusoidal", "rotary", "linear_biases", "none"]
    data: str
    split: str
    num_texts: int
    accuracy: float  # accuracy in order, in [0, 1]
    shuffled_accuracies: list[float]  # accuracy of each shuffle, in [0, 1]
    shuffled_mean: float
    shuffled_spread: float  # standard deviation of these (n - 1); 0 for one shuffle
    flip_share: float  # mean share of answers that a shuffle changes, in [0, 1]
    largest_change: float  # largest difference of any class probability of any text in any shuffle
    reads_order: bool  # whether the probabilities move by more than rounding
    verdict: str  # the same in words


def train_and_compare(
    data: PreparedData,
    output: Path,
    num_shuffles: int,
    split: str | None = None,
    max_texts: int | None = None,
    seed: int = 0,
    callbacks: Callbacks = SILENT,
) -> list[ShuffleResult]:
    """Train the config's model with positions, by default learned ones, and without, then shuffle-test both as ``compare`` does.

    The split to score is by default ``word_order_split``.
    """
    from mha_cli.training.run import train

    with_positions = data.config
    if with_positions.model.positions == "none":
        with_positions = with_positions.changed(model={"positions": "learned"})
    refuse_used(output)
    models = []
    for name, variant in (("with-positions", with_positions), ("without-positions", data.config.without_positions())):
        callbacks.log(f"training {name}")
        with run_directory(output / name, variant) as held:
            models.append((name, read_checkpoint(train(variant, held, callbacks, data).checkpoint)))
    split = split or word_order_split(data.config.data)
    scored = [(name, checkpoint, labelled_texts(checkpoint, data.config.data, split, callbacks)) for name, checkpoint in models]
    return compare(scored, num_shuffles, max_texts, seed, callbacks)


def compare(
    models: Sequence[tuple[str, Checkpoint, LabelledTexts]],
    num_shuffles: int,
    max_texts: int | None = None,
    seed: int = 0,
    callbacks: Callbacks = SILENT,
) -> list[ShuffleResult]:
    """Score models on texts in order, and over permutations of the words that they read.

    With ``max_texts``, a random part of that size is scored; ``seed`` draws it, and the permutations.
    """
    results = []
    for name, checkpoint, labelled in models:
        rng = np.random.default_rng(seed)
        texts, score = labelled.texts.random_part(max_texts, rng), Scorer(checkpoint.always_encoding)
        in_order = score(texts)
        thresholds, accuracies, flips, largest = checkpoint.label_thresholds, list[float](), list[float](), 0.0
        answers = answers_among(in_order, checkpoint.config.is_multi_label, thresholds)
        for number in range(1, num_shuffles + 1):
            callbacks.log(f"{name}: shuffle {number} of {num_shuffles}")
            shuffled = score(shuffle_words(texts, rng))
            accuracies.append(float(are_right(shuffled, texts.labels, thresholds).mean()))
            flips.append(1.0 - float(are_right(shuffled, answers, thresholds).mean()))
            largest = max(largest, float(np.abs(shuffled - in_order).max()))
        accuracy, mean = float(are_right(in_order, texts.labels, thresholds).mean()), float(np.mean(accuracies))
        results.append(
            ShuffleResult(
                name=name,
                positions=checkpoint.config.model.positions,
                data=labelled.data,
                split=labelled.split,
                num_texts=len(texts),
                accuracy=accuracy,
                shuffled_accuracies=accuracies,
                shuffled_mean=mean,
                shuffled_spread=float(np.std(accuracies, ddof=1)) if num_shuffles > 1 else 0.0,
                flip_share=float(np.mean(flips)),
                largest_change=largest,
                reads_order=largest > ROUNDING,
                verdict=verdict(accuracy, mean, largest, len(texts)),
            )
        )
    return results


def verdict(accuracy: float, shuffled_mean: float, largest_change: float, num_texts: int) -> str:
    """The meaning of the figures, in words."""
    if largest_change <= ROUNDING:
        most = f"the most that a shuffle moves a probability is {largest_change:.1e}"
        return f"cannot read word order: {most}, which is float rounding (up to {ROUNDING:.0e})"
    fall = 100 * (accuracy - shuffled_mean)
    standard_error = np.sqrt(max(accuracy * (1 - accuracy), 1e-12) / num_texts)  # by the binomial distribution
    if abs(fall) < 200 * standard_error:
        return f"sees word order (probabilities move by up to {largest_change:.2f}), but its accuracy hardly depends on it"
    return f"reads word order: shuffling the words {'costs' if fall > 0 else 'gains'} {abs(fall):.1f} points of accuracy"


def shuffle_words(texts: EncodedTexts, rng: np.random.Generator) -> EncodedTexts:
    """The same texts with the tokens of each in random order, after truncation: the same words, another order.

    So are the pieces that a pretrained encoder reads, between the two special ones that begin and end a text.
    """
    shuffled = _shuffled(texts, rng.random(len(texts.tokens)))
    if (pieces := texts.pieces) is None:
        return shuffled
    keys = rng.random(pieces.offsets[-1])
    keys[pieces.offsets[:-1]], keys[pieces.offsets[1:] - 1] = -1.0, 2.0
    return replace(shuffled, pieces=_shuffled(pieces, keys))


def _shuffled(texts: EncodedTexts, keys: Float64s) -> EncodedTexts:
    """The texts with the tokens of each in the order of their keys, (P,)."""
    order = np.lexsort((keys, np.repeat(np.arange(len(texts)), texts.lengths)))
    return replace(texts, tokens=texts.tokens[:][order])
