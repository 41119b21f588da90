"""A model without the heads that matter least: cut out of its weight matrices, measured, and trained further on request."""

import dataclasses
import math
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mha_cli.analysis.inside.head_scores import HeadReport
from mha_cli.checkpoint.file import Checkpoint, write_checkpoint
from mha_cli.config.settings import Config, FilesData
from mha_cli.corpus.corpus import EncodedTexts
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
HEAD_AXES |= dict.fromkeys(("query_bias", "key_bias", "value_bias", "output_kernel", "score_kernel"), 0)
"""The axis of an attention weight that counts the heads; the output bias has none."""


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
    """The ``count`` heads with the least fall of accuracy, then of least gradient importance; every block keeps one at least.

    The gradient alone misleads where the model is confident: its loss then hardly moves with any head, though the answers may.
    """
    left, chosen = Counter(score.block for score in report.heads), list[tuple[int, int]]()
    for score in sorted(report.heads, key=lambda score: (score.accuracy_fall, score.importance)):
        if len(chosen) < count and left[score.block] > 1:
            chosen.append((score.block, score.head))
            left[score.block] -= 1
    return sorted(chosen)


def without_heads(checkpoint: Checkpoint, heads: list[tuple[int, int]]) -> Checkpoint:
    """The same model with heads, pairs (block, head), cut out of its weight matrices; its logits are those with these heads silenced."""
    settings = checkpoint.config.model
    removed = {block: [head for other, head in heads if other == block] for block in range(settings.num_blocks)}
    counts = [count - len(removed[block]) for block, count in enumerate(settings.heads)]
    # The width per head no longer is embed_dim / num_heads.
    config = checkpoint.config.changed(model={"num_heads": counts, "key_dim": settings.head_key_dim})
    weights = dict(checkpoint.weights)
    for block, own in removed.items():
        for name, axis in HEAD_AXES.items():
            path = f"encoder_{block}/attention/{name}"
            if path in weights:
                weights[path] = np.delete(weights[path], own, axis=axis)
    model = build_classifier(config, len(checkpoint.vocabulary), len(checkpoint.class_names))
    thresholds = checkpoint.thresholds if config.is_multi_label else {}  # several labels need some
    return dataclasses.replace(
        checkpoint, config=config, weights=weights, metrics={}, thresholds=thresholds, keras_config=keras_config(model)
    )


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
    """Remove the ``count`` least important heads, measure before and after, and write the smaller checkpoint.

    Args:
        texts: texts that ``report`` was measured on.
        retrain_epochs: passes over the training data after the removal; 0 for none.
        data: source of the training data; None for the checkpoint's own.
    """
    removed = least_important(report, count)
    smaller = without_heads(checkpoint, removed)
    if retrain_epochs:
        smaller = retrain(smaller, retrain_epochs, data or checkpoint.config.data, callbacks)
    # NumPy: another engine may start for one of them alone.
    models = (checkpoint, smaller)
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
    """Train a checkpoint's weights further on its own training data, read from ``data``, at a tenth of the learning rate.

    The best epoch on the validation part is kept, by accuracy where ``training.monitor`` is ``last``. If no epoch is better than the start,
    only the last layer changes, by a scale and a shift, and with several labels the thresholds.
    """
    training = checkpoint.config.training
    if isinstance(data, FilesData):
        data = data.model_copy(update={"test": None})  # --data names one file for all splits, which is no repetition of texts
    monitor = "accuracy" if training.monitor == "last" else training.monitor  # the last epoch may be worse than the start
    changes = {"epochs": epochs, "learning_rate": training.learning_rate / 10, "base": None, "monitor": monitor}
    config: Config = checkpoint.config.model_copy(update={"data": data, "training": training.model_copy(update=changes)})
    # Of a run that was trained on, the words and classes of the base come first, as the checkpoint has them.
    prepared = dataclasses.replace(prepare(config, callbacks, base=checkpoint if training.base else None), base=None)
    if prepared.vocabulary.tokens != checkpoint.vocabulary.tokens or prepared.class_names != checkpoint.class_names:
        message = "--retrain: the training data are no longer those of the checkpoint"
        raise MhaError(message, "bring them back, or train anew with fewer heads")
    weights, linear = decompose(checkpoint.weights)
    # Scores that know the validation part would count for too much there.
    unknowing = fit_linear_model(config, prepared, callbacks) if config.refits_linear else linear
    trainer, validation = Trainer(config, prepared), Validation(config, prepared, unknowing, linear)
    start_from(trainer.model, weights)
    score = validation.score(trainer)
    start = EpochRecord(0, math.nan, math.nan, score.loss, score.accuracy, 0.0, 0.0, best=True)
    best = validation.checkpoint(trainer.weights(), start, score)
    kept = dataclasses.replace(checkpoint, weights=best.weights, thresholds=best.thresholds)
    for record, score in fit(trainer, validation.score, Progress(trainer, [start]), callbacks.on_step):
        if record.best:
            best = validation.checkpoint(trainer.weights(), record, score)
            kept = dataclasses.replace(checkpoint, weights=best.weights, thresholds=best.thresholds, metrics=best.metrics)
        callbacks.on_epoch(record)
    return kept
