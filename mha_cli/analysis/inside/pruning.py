"""Remove the heads that matter least from a model's weight matrices, measure the accuracy, and retrain on request."""

import dataclasses
import math
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mha_cli.analysis.inside.head_scores import HeadReport
from mha_cli.checkpoint.file import Checkpoint, write_checkpoint
from mha_cli.config.settings import FilesData
from mha_cli.corpus.encoded_texts import EncodedTexts
from mha_cli.errors import MhaError
from mha_cli.linear.composition import decompose
from mha_cli.linear.fit import fit_linear_model
from mha_cli.model.classifier import build_classifier, keras_config, start_from
from mha_cli.preparation.prepare import prepare
from mha_cli.runtime.engine import Engine
from mha_cli.runtime.metrics import are_right
from mha_cli.runtime.probabilities import Scorer
from mha_cli.sources.opening import DataSection
from mha_cli.system.callbacks import SILENT, Callbacks, EpochRecord
from mha_cli.training.progress import Progress
from mha_cli.training.run import fit
from mha_cli.training.trainer import Trainer
from mha_cli.training.validation import Validation

HEAD_AXES = dict.fromkeys(("query_kernel", "key_kernel", "value_kernel"), 1)
HEAD_AXES |= dict.fromkeys(("query_bias", "key_bias", "value_bias", "output_kernel"), 0)
"""The axis of the heads in each weight of an attention layer; the output bias has none."""


@dataclass(frozen=True)
class PruningReport:
    """A model before and after the removal of heads."""

    removed: list[tuple[int, int]]  # removed heads, as pairs (block, head)
    checkpoint: Path  # file written
    accuracy_before: float  # accuracy on the texts of the head report, in [0, 1]
    accuracy_after: float  # likewise, with any retraining
    num_weights_before: int  # numbers in all weights of the model
    num_weights_after: int
    retrained_epochs: int  # passes over the training data after the removal; 0 for none


def least_important(report: HeadReport, count: int) -> list[tuple[int, int]]:
    """The ``count`` heads with the smallest fall of accuracy, then the smallest gradient importance; every block keeps at least one.

    The gradient alone misleads if the model is confident: the loss then hardly changes with any head, though the predictions may.
    """
    heads_left, removed = Counter(score.block for score in report.heads), list[tuple[int, int]]()
    for score in sorted(report.heads, key=lambda score: (score.accuracy_fall, score.importance)):
        if len(removed) < count and heads_left[score.block] > 1:
            removed.append((score.block, score.head))
            heads_left[score.block] -= 1
    return sorted(removed)


def without_heads(checkpoint: Checkpoint, heads: list[tuple[int, int]]) -> Checkpoint:
    """The model with heads, pairs (block, head), cut out of its weight matrices; its logits are those with these heads silenced."""
    settings, weights = checkpoint.config.model, dict(checkpoint.weights)
    num_heads = list(settings.heads)
    for block in range(settings.num_blocks):
        removed = [head for other_block, head in heads if other_block == block]
        num_heads[block] -= len(removed)
        for name, axis in HEAD_AXES.items():
            path = f"encoder_{block}/attention/{name}"
            if path in weights:
                weights[path] = np.delete(weights[path], removed, axis=axis)
    # The width per head no longer is embed_dim / num_heads.
    config = checkpoint.config.changed(model={"num_heads": num_heads, "key_dim": settings.head_key_dim})
    architecture = keras_config(build_classifier(config, len(checkpoint.vocabulary), len(checkpoint.class_names)))
    thresholds = checkpoint.thresholds if config.is_multi_label else {}  # a multi-label checkpoint needs some
    smaller = dataclasses.replace(checkpoint.always_encoding, config=config, weights=weights, keras_config=architecture)
    return dataclasses.replace(smaller, metrics={}, thresholds=thresholds, held_out=None)


def prune(
    checkpoint: Checkpoint,
    report: HeadReport,
    texts: EncodedTexts,
    count: int,
    output: Path,
    retrain_epochs: int = 0,
    data: DataSection | None = None,
    callbacks: Callbacks = SILENT,
) -> PruningReport:
    """Remove the ``count`` least important heads, measure on the texts of ``report`` before and after, and write the smaller checkpoint.

    ``retrain_epochs`` are passes over the training data after the removal; ``data`` is their source, by default the checkpoint's own.
    """
    removed = least_important(report, count)
    smaller = without_heads(checkpoint, removed)
    if retrain_epochs:
        smaller = retrain(smaller, retrain_epochs, data or checkpoint.config.data, callbacks)
    # Both in NumPy: another engine might take only one of them.
    models = (checkpoint.always_encoding, smaller.always_encoding)
    before, after = (are_right(Scorer(model, Engine(model))(texts), texts.labels, model.label_thresholds) for model in models)
    write_checkpoint(output, smaller)
    return PruningReport(
        removed=removed,
        checkpoint=output,
        accuracy_before=float(before.mean()),
        accuracy_after=float(after.mean()),
        num_weights_before=checkpoint.num_weights,
        num_weights_after=smaller.num_weights,
        retrained_epochs=retrain_epochs,
    )


def retrain(checkpoint: Checkpoint, epochs: int, data: DataSection, callbacks: Callbacks = SILENT) -> Checkpoint:
    """Train a checkpoint's weights further on its training data, read from ``data``, at a tenth of the learning rate.

    The best epoch on the validation part is kept, by accuracy if ``training.monitor`` is ``last``. If no epoch is better than the start,
    only the stack of the last layer changes, and the thresholds of labels.
    """
    training = checkpoint.config.training
    if isinstance(data, FilesData):
        data = data.changed(test=None)  # --data names one file for all splits, so its test texts are no repetitions
    monitor = "accuracy" if training.monitor == "last" else training.monitor  # the last epoch may be worse than the start
    changes = {"epochs": epochs, "learning_rate": training.learning_rate / 10, "base": None, "monitor": monitor}
    config = checkpoint.config.changed(data=data, training=changes)
    # After a training from a base, the words and classes of the base come first, as in the checkpoint.
    prepared = dataclasses.replace(prepare(config, callbacks, base=checkpoint if training.base else None), base=None)
    if prepared.vocabulary.tokens != checkpoint.vocabulary.tokens or prepared.class_names != checkpoint.class_names:
        message = "--retrain: the training data are no longer those of the checkpoint"
        raise MhaError(message, "bring them back, or train anew with fewer heads")
    weights, linear = decompose(checkpoint.weights)
    # A linear model that has learnt from the validation part would get too much weight there.
    fitted = fit_linear_model(config, prepared, callbacks) if config.refits_linear else linear
    trainer, validation = Trainer(config, prepared), Validation(config, prepared, fitted, linear)
    start_from(trainer.model, weights)
    score = validation.score(trainer)
    start = EpochRecord(0, math.nan, math.nan, score.loss, score.accuracy, 0.0, 0.0, best=True)
    best, metrics = validation.checkpoint(trainer.weights(), start, score), checkpoint.metrics
    for record, score in fit(trainer, validation.score, Progress(trainer, [start]), callbacks.on_step):
        if record.best:
            best = validation.checkpoint(trainer.weights(), record, score)
            metrics = best.metrics
        callbacks.on_epoch(record)
    return dataclasses.replace(
        checkpoint,
        weights=best.weights,
        metrics=metrics,
        thresholds=best.thresholds,
        level_threshold=best.level_threshold,
        linear_alone=best.linear_alone,
        held_out=best.held_out,
    )
