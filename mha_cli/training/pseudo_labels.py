"""Learning from texts without labels: what a first model takes them for, a second one learns.

Source: Lee 2013, "Pseudo-Label"; with probabilities in place of the most probable class: Xie et al. 2020, "Self-training with Noisy Student
improves ImageNet classification", section 2.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mha_cli.checkpoint.file import read_checkpoint, write_checkpoint
from mha_cli.checkpoint.runs import CHECKPOINT, STATE
from mha_cli.config.settings import Config
from mha_cli.data.corpus import EncodedReviews, join_reviews
from mha_cli.data.preparation import PreparedData
from mha_cli.errors import MhaError, printable
from mha_cli.model.classifier import build_classifier
from mha_cli.model.scoring import compile_forward, predict_probabilities
from mha_cli.system.files import atomic_write
from mha_cli.system.watcher import EpochRecord, Watcher
from mha_cli.system.working_memory import ForwardPass
from mha_cli.training.loop import Trainer
from mha_cli.training.state import UNREADABLE, fit_resumably, to_checkpoint

Floats = npt.NDArray[np.float32]

LABELS = "pseudo_labels.npy"


def pseudo_labels(config: Config, data: PreparedData, watcher: Watcher, folder: Path) -> Floats:
    """Probabilities of all classes for the unlabelled texts, (N, C), after as many rounds as the config asks for.

    Args:
        config: the run.
        data: with unlabelled texts.
        watcher: told of the steps, and may stop them.
        folder: keeps the labels of every round, and until they are made its teacher's state and best epoch, so that an interrupted run
            goes on where it was.

    Raises:
        KeyboardInterrupt: the watcher asked to stop; the state is saved.
        MhaError: what is kept is damaged or cannot be written, or the loss is no longer a number.
    """
    if data.unlabelled is None:
        raise ValueError("there are no unlabelled texts")
    labelled, rounds = data, config.training.pseudo_labels
    for number in range(1, rounds + 1):
        place = folder / f"round-{number}"
        if not (place / LABELS).exists():
            watcher.log(f"pseudo-labels, round {number} of {rounds}")
            place.mkdir(exist_ok=True)
            targets = _predict(config, data, _best_weights(config, labelled, watcher, place), data.unlabelled, watcher)
            with atomic_write(place / LABELS) as file:
                np.save(file, targets, allow_pickle=False)
        for name in (CHECKPOINT, STATE.name):  # of no more use
            (place / name).unlink(missing_ok=True)
        labelled = with_pseudo_labels(data, _read_labels(place / LABELS, (len(data.unlabelled), len(data.class_names))))
    return labelled.targets[len(data.train) :]


def with_pseudo_labels(data: PreparedData, targets: Floats) -> PreparedData:
    """The unlabelled texts among those to learn from, as the classes that ``targets`` (N, C) gives them."""
    if data.unlabelled is None:
        raise ValueError("there are no unlabelled texts")
    unlabelled = dataclasses.replace(data.unlabelled, labels=targets.argmax(axis=1).astype(np.int32))
    return dataclasses.replace(
        data,
        train=join_reviews(data.train, unlabelled),
        targets=np.concatenate([data.targets, targets]),
        unlabelled=None,
        num_guessed=len(unlabelled),
    )


def _read_labels(path: Path, shape: tuple[int, int]) -> Floats:
    try:
        targets: Floats = np.load(path, allow_pickle=False)
    except UNREADABLE as error:
        raise MhaError(
            f"{printable(str(path), 200)}: cannot be resumed from: {printable(str(error))}", "train anew in another folder"
        ) from None
    if targets.shape != shape:
        raise MhaError(f"{printable(str(path), 200)}: belongs to other texts", "train anew in another folder")
    return targets


def _best_weights(config: Config, data: PreparedData, watcher: Watcher, place: Path) -> Mapping[str, Floats]:
    trainer = Trainer(config, data, watcher.log)

    def keep(records: list[EpochRecord]) -> None:
        if records[-1].best:
            write_checkpoint(place / CHECKPOINT, to_checkpoint(trainer, records[-1]))

    def on_epoch(record: EpochRecord) -> None:
        watcher.log(f"epoch {record.epoch}: validation accuracy {record.validation_accuracy:.4f}")

    fit_resumably(place / STATE.name, trainer, dataclasses.replace(watcher, on_epoch=on_epoch), keep, goes_on=True)
    return read_checkpoint(place / CHECKPOINT).weights


def _predict(config: Config, data: PreparedData, weights: Mapping[str, Any], reviews: EncodedReviews, watcher: Watcher) -> Floats:
    model = build_classifier(config, len(data.vocabulary), len(data.class_names))
    for weight in model.weights:
        weight.assign(weights[weight.path])

    def on_reviews(number: int) -> None:
        watcher.log(f"labelling {number:,} of {len(reviews):,} texts")
        if watcher.stop():
            raise KeyboardInterrupt

    return predict_probabilities(compile_forward(model), reviews, ForwardPass(config.model, len(data.class_names)), on_reviews)
