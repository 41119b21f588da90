"""How much each attention head matters, and a model without those that matter least.

Axes: B batch, H heads.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np
import numpy.typing as npt
import tensorflow as tf

from mha_cli.checkpoint.file import Checkpoint, write_checkpoint
from mha_cli.config.parameters import num_parameters
from mha_cli.config.settings import Config, FilesData
from mha_cli.data.batches import scoring_batches
from mha_cli.data.corpus import EncodedReviews
from mha_cli.data.preparation import LabelledReviews, prepare
from mha_cli.data.sources import DataSection
from mha_cli.errors import MhaError
from mha_cli.model.classifier import after_embedding, build_classifier, keras_config, scores_of, to_model
from mha_cli.model.scoring import compile_forward, cross_entropy, mean_loss_and_accuracy, predict_probabilities
from mha_cli.ngram_scores.composition import decompose
from mha_cli.system.watcher import SILENT, EpochRecord, Watcher
from mha_cli.system.working_memory import ForwardPass
from mha_cli.training.loop import fit
from mha_cli.training.trainer import Trainer
from mha_cli.training.validation import Validation


@dataclass(frozen=True)
class HeadScore:
    """How much one head matters.

    Args:
        block: from 0.
        head: from 0.
        accuracy_without: of the model with this head silenced, in [0, 1].
        accuracy_fall: accuracy with all heads minus that, in [-1, 1].
        importance: mean absolute gradient of a review's loss by the number that multiplies the head's output, in nats.
    """

    block: int
    head: int
    accuracy_without: float
    accuracy_fall: float
    importance: float


@dataclass(frozen=True)
class HeadReport:
    """How much the heads of a model matter.

    Args:
        data: the source, in words.
        split: of the source.
        num_reviews: reviews scored.
        accuracy: with all heads, in [0, 1].
        heads: block by block.
    """

    data: str
    split: str
    num_reviews: int
    accuracy: float
    heads: list[HeadScore]


@dataclass(frozen=True)
class PruningReport:
    """A model before and after the removal of heads.

    Args:
        removed: (block, head) of those removed.
        checkpoint: the file written.
        accuracy_before: in [0, 1], on the reviews of the head report.
        accuracy_after: likewise, after retraining if there was any.
        reviews_per_second_before: forward passes on those reviews, the two models in turns.
        reviews_per_second_after: likewise.
        num_weights_before: of the whole model.
        num_weights_after: likewise.
        retrained_epochs: 0 for none.
    """

    removed: list[tuple[int, int]]
    checkpoint: Path
    accuracy_before: float
    accuracy_after: float
    reviews_per_second_before: float
    reviews_per_second_after: float
    num_weights_before: int
    num_weights_after: int
    retrained_epochs: int


def score_heads(
    checkpoint: Checkpoint, labelled: LabelledReviews, max_reviews: int | None = None, watcher: Watcher = SILENT
) -> tuple[HeadReport, EncodedReviews]:
    """How much each head matters, by silencing it and by its gradient; also the reviews that it was measured on.

    Args:
        checkpoint: the model.
        labelled: from ``labelled_reviews``.
        max_reviews: measure on a random part of that size only.
        watcher: told how it goes.

    Source: Michel et al. 2019, "Are Sixteen Heads Really Better than One?", sections 3.2 and 4.1 (eq. 2).
    """
    reviews = labelled.reviews
    if max_reviews and max_reviews < len(reviews):
        reviews = reviews.subset(np.sort(np.random.default_rng(0).choice(len(reviews), max_reviews, replace=False)))
    model = to_model(checkpoint)
    counts = checkpoint.config.model.heads
    masks = [tf.Variable(tf.ones(count)) for count in counts]
    forward = _compile_masked_forward(model, masks)

    def accuracy() -> float:
        return mean_loss_and_accuracy(predict_probabilities(forward, reviews, checkpoint.forward_pass), reviews.labels)[1]

    with_all = accuracy()
    importance = gradient_importance(model, masks, reviews, dataclasses.replace(checkpoint.forward_pass, gradient=True))
    heads = []
    for block, count in enumerate(counts):
        for head in range(count):
            watcher.log(f"silencing head {head} of block {block}")
            masks[block].assign(tf.one_hot(head, count, on_value=0.0, off_value=1.0))
            without = accuracy()
            heads.append(HeadScore(block, head, without, with_all - without, float(importance[block][head])))
        masks[block].assign(tf.ones(count))
    return HeadReport(labelled.data, labelled.split, len(reviews), with_all, heads), reviews


def gradient_importance(
    model: keras.Model, masks: list[Any], reviews: EncodedReviews, forward_pass: ForwardPass
) -> list[npt.NDArray[np.float64]]:
    """I_h = E |∂ loss / ∂ ξ_h| for the number ξ_h that multiplies a head's output, at 1; an array (H,) a block.

    Source: Michel et al. 2019, eq. 2.
    """

    @tf.function(autograph=False, input_signature=[tf.TensorSpec([None, None], tf.int32), tf.TensorSpec([None], tf.int32)])
    def sums(token_ids: Any, labels: Any) -> Any:
        # A mask a review gives the gradient of each review's own loss in one backward pass.
        own = [tf.tile(mask[None], (tf.shape(token_ids)[0], 1)) for mask in masks]
        with tf.GradientTape() as tape:
            tape.watch(own)
            probabilities = masked_forward(model, token_ids, own)
            loss = tf.reduce_sum(cross_entropy(probabilities, tf.one_hot(labels, max(2, probabilities.shape[-1]))))
        return [tf.reduce_sum(tf.abs(gradient), axis=0) for gradient in tape.gradient(loss, own)]

    totals = [np.zeros(mask.shape[0]) for mask in masks]
    for rows in scoring_batches(reviews.lengths, forward_pass):
        for total, part in zip(totals, sums(reviews.padded(rows), reviews.labels[rows]), strict=True):
            total += part.numpy()
    return [total / len(reviews) for total in totals]


def masked_forward(model: keras.Model, token_ids: Any, head_masks: list[Any]) -> Any:
    """The model's output with a head mask for every block, each (H,) or (B, H)."""
    embedded = model.get_layer("embedding")(token_ids, training=False)
    return after_embedding(model, embedded, tf.not_equal(token_ids, 0), scores_of(model, token_ids), head_masks=head_masks)


def _compile_masked_forward(model: keras.Model, masks: list[Any]) -> Callable[[Any], Any]:
    return tf.function(
        lambda token_ids: masked_forward(model, token_ids, masks),
        autograph=False,
        input_signature=[tf.TensorSpec([None, None], tf.int32)],
    )


def least_important(report: HeadReport, count: int) -> list[tuple[int, int]]:
    """The ``count`` heads without which the model loses least accuracy, then of least gradient importance; every block keeps one at least.

    The gradient alone misleads where the model is sure of its answers: its loss then hardly moves with any head, though the answers may.

    Raises:
        MhaError: there are not that many to remove.
    """
    left = {block: sum(score.block == block for score in report.heads) for block in {score.block for score in report.heads}}
    most = len(report.heads) - len(left)
    if count > most:
        raise MhaError(
            f"--prune {count}: the model has {len(report.heads)} heads in {len(left)} block{'s' * (len(left) != 1)}",
            f"at most {most} can be removed, since every block keeps one",
        )
    chosen: list[tuple[int, int]] = []
    for score in sorted(report.heads, key=lambda score: (score.accuracy_fall, score.importance)):
        if len(chosen) < count and left[score.block] > 1:
            chosen.append((score.block, score.head))
            left[score.block] -= 1
    return sorted(chosen)


def without_heads(checkpoint: Checkpoint, heads: list[tuple[int, int]]) -> Checkpoint:
    """The same model with heads cut out of its weight matrices.

    What a removed head added to every word is lost but for the output bias, so the logits are those of the model with these heads silenced.

    Args:
        checkpoint: the model.
        heads: (block, head) of those to remove; every block keeps one at least.
    """
    settings = checkpoint.config.model
    removed = {block: [head for other, head in heads if other == block] for block in range(settings.num_blocks)}
    counts = [count - len(removed[block]) for block, count in enumerate(settings.heads)]
    # The width per head can no longer be told from embed_dim / num_heads.
    update = {"num_heads": counts, "key_dim": settings.head_key_dim, "value_dim": settings.head_value_dim}
    config = checkpoint.config.model_copy(update={"model": settings.model_copy(update=update)})
    weights = dict(checkpoint.weights)
    for block, own in removed.items():
        for name in ("query", "key", "value", "output", "score"):
            for kind in ("kernel", "bias"):
                path = f"encoder_{block}/attention/{name}_{kind}"
                axis = _head_axis(name, kind)
                if path in weights and axis is not None:
                    weights[path] = np.delete(weights[path], own, axis=axis)
    model = build_classifier(config, len(checkpoint.vocabulary), len(checkpoint.class_names))
    return dataclasses.replace(checkpoint, config=config, weights=weights, metrics={}, keras_config=keras_config(model))


def _head_axis(name: str, kind: str) -> int | None:
    """Which axis of an attention weight counts the heads."""
    if kind == "bias":
        return None if name == "output" else 0
    return 0 if name in ("output", "score") else 1


def prune(
    checkpoint: Checkpoint,
    report: HeadReport,
    reviews: EncodedReviews,
    count: int,
    output: Path,
    retrain_epochs: int = 0,
    data: DataSection | None = None,
    watcher: Watcher = SILENT,
) -> PruningReport:
    """Remove the least important heads, measure before and after, and write the smaller checkpoint.

    Args:
        checkpoint: the model.
        report: from ``score_heads``.
        reviews: what ``report`` was measured on.
        count: heads to remove.
        output: file to write.
        retrain_epochs: passes over the training data after the removal; 0 for none.
        data: see ``retrain``; None takes what the checkpoint names.
        watcher: told how it goes.

    Raises:
        MhaError: there are not that many heads, or the file cannot be written.
    """
    removed = least_important(report, count)
    smaller = without_heads(checkpoint, removed)
    if retrain_epochs:
        smaller = retrain(smaller, retrain_epochs, data or checkpoint.config.data, watcher)
    num_classes = len(checkpoint.class_names)
    forwards = [compile_forward(to_model(model)) for model in (checkpoint, smaller)]
    accuracies, seconds = [0.0, 0.0], [np.inf, np.inf]
    for _ in range(3):  # in turns, the best of each: what disturbs one then disturbs the other too
        for index, forward in enumerate(forwards):
            started = time.perf_counter()
            probabilities = predict_probabilities(forward, reviews, checkpoint.forward_pass)
            seconds[index] = min(seconds[index], time.perf_counter() - started)
            accuracies[index] = mean_loss_and_accuracy(probabilities, reviews.labels)[1]
    write_checkpoint(output, smaller)
    return PruningReport(
        removed=removed,
        checkpoint=output,
        accuracy_before=accuracies[0],
        accuracy_after=accuracies[1],
        reviews_per_second_before=len(reviews) / seconds[0],
        reviews_per_second_after=len(reviews) / seconds[1],
        num_weights_before=num_parameters(checkpoint.config, len(checkpoint.vocabulary), num_classes),
        num_weights_after=num_parameters(smaller.config, len(smaller.vocabulary), num_classes),
        retrained_epochs=retrain_epochs,
    )


def retrain(checkpoint: Checkpoint, epochs: int, data: DataSection, watcher: Watcher = SILENT) -> Checkpoint:
    """Train a checkpoint's weights further on its own training data, at a tenth of the learning rate.

    The best epoch on the validation part is kept; the weights stay as they are if every epoch makes them worse.

    Args:
        checkpoint: the model.
        epochs: passes over the training data.
        data: where these are found; what the checkpoint itself names need not be trusted.
        watcher: told how it goes.

    Raises:
        MhaError: the training data are no longer those that the checkpoint was trained on.
    """
    training = checkpoint.config.training
    if isinstance(data, FilesData):
        data = data.model_copy(update={"test": None})  # --data names one file for all splits, which says nothing of repeated texts
    shorter = training.model_copy(update={"epochs": epochs, "learning_rate": training.learning_rate / 10})
    config: Config = checkpoint.config.model_copy(update={"data": data, "training": shorter})
    prepared = prepare(config, watcher)
    if prepared.vocabulary.tokens != checkpoint.vocabulary.tokens or prepared.class_names != checkpoint.class_names:
        raise MhaError(
            "--retrain: the training data are no longer those of the checkpoint", "bring them back, or train anew with fewer heads"
        )
    weights, scores = decompose(checkpoint.weights)
    trainer, validation = Trainer(config, prepared), Validation(config, prepared, scores)
    trainer.set_weights(weights)
    loss, accuracy = validation.score(trainer)
    kept = [checkpoint]

    def keep(better: Checkpoint) -> None:
        kept.append(dataclasses.replace(checkpoint, weights=better.weights, metrics=better.metrics))

    start = EpochRecord(0, math.nan, math.nan, loss, accuracy, 0.0, 0.0, best=True)
    for record in fit(trainer, validation, keep, watcher.on_step, best=start):
        watcher.on_epoch(record)
    return kept[-1]
