"""Learning from texts without labels: what a first model takes them for, a second one learns.

Source: Lee 2013, "Pseudo-Label"; with probabilities in place of the most probable class: Xie et al. 2020, "Self-training with Noisy Student
improves ImageNet classification", section 2.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from mha_cli.checkpoint.file import read_checkpoint, write_checkpoint
from mha_cli.checkpoint.runs import CHECKPOINT, STATE
from mha_cli.data.corpus import EncodedReviews, join_reviews
from mha_cli.data.preparation import PreparedData
from mha_cli.errors import MhaError, shown_path
from mha_cli.runtime.scoring import Scorer
from mha_cli.system.watcher import EpochRecord, Watcher
from mha_cli.system.whole_files import atomic_write
from mha_cli.training.distribution import Distribution
from mha_cli.training.loop import fit_resumably
from mha_cli.training.state import UNREADABLE, WAY_OUT, cannot_resume
from mha_cli.training.trainer import Trainer
from mha_cli.training.validation import Validation

Floats = npt.NDArray[np.float32]

LABELS = "pseudo_labels.npy"


def label_in_rounds(
    data: PreparedData,
    rounds: int,
    new_trainer: Callable[[PreparedData], Trainer],
    validation: Validation,
    watcher: Watcher,
    folder: Path,
    distribution: Distribution,
) -> PreparedData:
    """The data with the unlabelled texts among those to learn from, as the last of so many teachers sees them.

    Args:
        data: reviews, and unlabelled texts if there are rounds.
        rounds: teachers, each of which learns from the labels of the one before.
        new_trainer: maker of a teacher's trainer, from what the teacher learns from.
        validation: judge of the teachers' epochs.
        watcher: reporter of the steps, which may stop them.
        folder: folder for the labels of every round, and until they are made for its teacher's state and best epoch, so that an interrupted
            run goes on where it was.
        distribution: workers that train the teachers together; the chief labels the texts and gives the others what it found.

    Raises:
        KeyboardInterrupt: the watcher asked to stop; the state is saved.
        MhaError: what is kept is damaged or cannot be written, or the loss is no longer a number.
    """
    texts, to_learn = data.unlabelled, data
    if texts is None:
        return data
    for number in range(1, rounds + 1):
        of_round = folder / f"round-{number}"
        (made,) = distribution.from_chief(lambda: [np.array((of_round / LABELS).exists())])  # noqa: B023 - called at once
        if not made:
            watcher.log(f"pseudo-labels, round {number} of {rounds}")
            if distribution.task.is_chief:
                of_round.mkdir(exist_ok=True)
            _train_teacher(of_round, new_trainer(to_learn), validation, watcher)
        shape = (len(texts), len(data.class_names))
        (targets,) = distribution.from_chief(lambda: [_labels(of_round, texts, shape, watcher.log, distribution.asked_to_stop)])  # noqa: B023
        to_learn = with_pseudo_labels(data, texts, targets)
    return to_learn


def _labels(
    folder: Path, texts: EncodedReviews, shape: tuple[int, int], log: Callable[[str], None], asked_to_stop: Callable[[], bool]
) -> Floats:
    """The labels of a round, which are made and kept if they are not there yet."""
    if not (folder / LABELS).exists():
        _write_labels(folder, texts, log, asked_to_stop)
    for name in (CHECKPOINT, STATE.name):  # of no more use
        (folder / name).unlink(missing_ok=True)
    return _read_labels(folder / LABELS, shape)


def with_pseudo_labels(data: PreparedData, texts: EncodedReviews, targets: Floats) -> PreparedData:
    """Texts among those to learn from, as the classes that ``targets`` (N, C) gives them."""
    train = join_reviews(data.train, dataclasses.replace(texts, labels=targets.argmax(axis=1).astype(np.int32)))
    targets = np.concatenate([data.targets, targets])
    return dataclasses.replace(data, train=train, targets=targets, unlabelled=None, num_guessed=len(texts))


def _train_teacher(folder: Path, teacher: Trainer, validation: Validation, watcher: Watcher) -> None:
    def on_epoch(record: EpochRecord) -> None:
        watcher.log(f"epoch {record.epoch}: validation accuracy {record.validation_accuracy:.4f}")

    keep = teacher.distribution.by_chief(partial(write_checkpoint, folder / CHECKPOINT))
    fit_resumably(folder / STATE.name, teacher, validation, keep, dataclasses.replace(watcher, on_epoch=on_epoch))


def _write_labels(folder: Path, texts: EncodedReviews, log: Callable[[str], None], asked_to_stop: Callable[[], bool]) -> None:
    def on_reviews(number: int) -> None:
        log(f"labelling {number:,} of {len(texts):,} texts")
        if asked_to_stop():
            raise KeyboardInterrupt

    targets = Scorer(read_checkpoint(folder / CHECKPOINT))(texts, on_reviews)
    with atomic_write(folder / LABELS) as file:
        np.save(file, targets, allow_pickle=False)


def _read_labels(path: Path, shape: tuple[int, int]) -> Floats:
    try:
        targets: Floats = np.load(path, allow_pickle=False)
    except UNREADABLE as error:
        raise cannot_resume(path, error) from None
    if targets.shape != shape:
        raise MhaError(f"{shown_path(path)}: belongs to other texts", WAY_OUT)
    return targets
