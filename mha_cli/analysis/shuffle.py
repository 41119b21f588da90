"""Does a model read word order? Shuffle the words of every text and see what it says then.

Without positions, self-attention treats a text as a set: permuting the tokens permutes the encoder's outputs, and the maximum over
them does not change. Source: Vaswani et al. 2017, section 3.5; Lee et al. 2019, "Set Transformer", property 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from mha_cli.checkpoint.file import Checkpoint, read_checkpoint
from mha_cli.checkpoint.runs import refuse_used, run_directory
from mha_cli.data.corpus import EncodedTexts
from mha_cli.data.preparation import LabelledTexts, PreparedData, labelled_texts, word_order_split
from mha_cli.runtime.probabilities import Scorer
from mha_cli.system.callbacks import SILENT, Callbacks

ROUNDING = 1e-5
"""Largest change of a probability that is put down to the order of float32 additions."""


@dataclass(frozen=True)
class ShuffleResult:
    """One model, in order and shuffled.

    Args:
        name: name of the model: its run directory, or its file.
        positions: encoding of the positions.
        data: source in words.
        split: split of the source.
        num_texts: texts scored.
        accuracy: accuracy in order, in [0, 1].
        shuffled_accuracies: accuracies, one a shuffle, in [0, 1].
        shuffled_mean: mean of these.
        shuffled_spread: standard deviation of these (n - 1); 0 for one shuffle.
        flip_share: share of predictions that a shuffle changes, in [0, 1], mean over the shuffles.
        largest_change: largest difference of any class probability of any text in any shuffle.
        reads_order: True where the probabilities move by more than rounding.
        verdict: the same in words.
    """

    name: str
    positions: Literal["learned", "sinusoidal", "none"]
    data: str
    split: str
    num_texts: int
    accuracy: float
    shuffled_accuracies: list[float]
    shuffled_mean: float
    shuffled_spread: float
    flip_share: float
    largest_change: float
    reads_order: bool
    verdict: str


def train_and_compare(
    data: PreparedData,
    output: Path,
    num_shuffles: int,
    split: str | None = None,
    max_texts: int | None = None,
    seed: int = 0,
    callbacks: Callbacks = SILENT,
) -> list[ShuffleResult]:
    """Train the config's model with and without positions, then shuffle-test both.

    Args:
        data: training data of both, with the settings of the runs; where these have no positions, learned ones are taken for the model
            with positions.
        output: folder of the two run directories.
        num_shuffles: permutations of every text.
        split: split of the source to score; None for ``word_order_split``.
        max_texts: size of the random part to score; None for all.
        seed: seed of the shuffles; the training's stands in the config.
    """
    from mha_cli.training.run import train

    config, with_positions = data.config, data.config.model
    if with_positions.positions == "none":
        with_positions = with_positions.model_copy(update={"positions": "learned"})
    refuse_used(output)
    models = []
    for name, model in (("with-positions", with_positions), ("without-positions", config.model.without_positions())):
        callbacks.log(f"training {name}")
        variant = config.model_copy(update={"model": model})
        with run_directory(output / name, variant) as held:
            models.append((name, read_checkpoint(train(variant, held, callbacks, data).checkpoint)))
    split = split or word_order_split(config.data)
    scored = [(name, checkpoint, labelled_texts(checkpoint, config.data, split, callbacks)) for name, checkpoint in models]
    return compare(scored, num_shuffles, max_texts, seed, callbacks)


def compare(
    models: Sequence[tuple[str, Checkpoint, LabelledTexts]],
    num_shuffles: int,
    max_texts: int | None = None,
    seed: int = 0,
    callbacks: Callbacks = SILENT,
) -> list[ShuffleResult]:
    """Shuffle-test models, each on the texts as it reads them.

    Args:
        models: name, checkpoint and labelled texts of each.
        num_shuffles: permutations of every text.
        max_texts: size of the random part to score; None for all.
        seed: seed of the permutations and of the part.
    """
    results = []
    for name, checkpoint, labelled in models:
        rng = np.random.default_rng(seed)
        texts = labelled.texts.random_part(max_texts, rng)
        results.append(shuffle_test(name, checkpoint, replace(labelled, texts=texts), num_shuffles, rng, callbacks))
    return results


def shuffle_test(
    name: str, checkpoint: Checkpoint, labelled: LabelledTexts, num_shuffles: int, rng: np.random.Generator, callbacks: Callbacks
) -> ShuffleResult:
    """Score one model on texts in order and over ``num_shuffles`` permutations of the words that it reads."""
    texts, score = labelled.texts, Scorer(checkpoint)
    in_order = score(texts)
    classes = in_order.argmax(axis=1)
    accuracies, flips, largest = [], [], 0.0
    for number in range(1, num_shuffles + 1):
        callbacks.log(f"{name}: shuffle {number} of {num_shuffles}")
        shuffled = score(shuffle_words(texts, rng))
        accuracies.append(float((shuffled.argmax(axis=1) == texts.labels).mean()))
        flips.append(float((shuffled.argmax(axis=1) != classes).mean()))
        largest = max(largest, float(np.abs(shuffled - in_order).max()))
    result = ShuffleResult(
        name=name,
        positions=checkpoint.config.model.positions,
        data=labelled.data,
        split=labelled.split,
        num_texts=len(texts),
        accuracy=float((classes == texts.labels).mean()),
        shuffled_accuracies=accuracies,
        shuffled_mean=float(np.mean(accuracies)),
        shuffled_spread=float(np.std(accuracies, ddof=1)) if num_shuffles > 1 else 0.0,
        flip_share=float(np.mean(flips)),
        largest_change=largest,
        reads_order=largest > ROUNDING,
        verdict="",
    )
    return replace(result, verdict=verdict(result))


def verdict(result: ShuffleResult) -> str:
    """What the figures mean, in words."""
    if not result.reads_order:
        return (
            f"cannot read word order: the most that a shuffle moves a probability is {result.largest_change:.1e}, "
            f"which is float rounding (up to {ROUNDING:.0e})"
        )
    fall = 100 * (result.accuracy - result.shuffled_mean)
    standard_error = np.sqrt(max(result.accuracy * (1 - result.accuracy), 1e-12) / result.num_texts)  # by the binomial distribution
    if abs(fall) < 200 * standard_error:
        return f"sees word order (probabilities move by up to {result.largest_change:.2f}), but its accuracy hardly depends on it"
    return f"reads word order: shuffling the words {'costs' if fall > 0 else 'gains'} {abs(fall):.1f} points of accuracy"


def shuffle_words(texts: EncodedTexts, rng: np.random.Generator) -> EncodedTexts:
    """The same texts with the tokens of each in random order, after truncation: the same words, another order."""
    text_of_token = np.repeat(np.arange(len(texts)), texts.lengths)
    order = np.lexsort((rng.random(len(texts.tokens)), text_of_token))
    return replace(texts, tokens=texts.tokens[:][order])
