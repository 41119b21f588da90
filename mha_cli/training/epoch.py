"""An epoch: what its steps read, how far it has come, and how fast it goes.

Seed and epoch decide what the steps read, so that a run that goes on reads what it would have read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mha_cli.config.settings import Config
from mha_cli.data.batches import Rows, at_common_length, training_batches
from mha_cli.data.corpus import drop_words
from mha_cli.data.preparation import PreparedData
from mha_cli.training.precision import choose_precision

EVERY = slice(None)


class EpochInputs:
    """The steps of every epoch.

    Args:
        config: settings of the run.
        data: reviews to learn from.
        own: those of a step's reviews whose tokens are read; all of them by default.
    """

    def __init__(self, config: Config, data: PreparedData, own: slice = EVERY) -> None:
        self._config, self._data, self._own = config, data, own
        self._at_common_length = choose_precision(config) == "bfloat16"

    def steps(self, epoch: int, batches: list[Rows]) -> Iterator[tuple[Rows, npt.NDArray[np.int32]]]:
        """Of every step, the rows of its reviews, from ``batches``, and the padded tokens of one's own, with some words dropped."""
        rng, share = np.random.default_rng((self._config.seed, epoch)), self._config.training.word_dropout
        reviews = self._data.train
        lengths = reviews.lengths
        for rows in batches:
            own = rows[self._own]
            tokens = reviews.padded(own) if len(own) else reviews.padded(rows[:1])[:0]
            if share:
                drawn = rng.random((len(rows), max(1, lengths[rows].max())), dtype=np.float32) < share  # for all, so that chance is theirs
                tokens = drop_words(tokens, drawn[self._own, : tokens.shape[1]])
            if self._at_common_length:
                tokens = at_common_length(tokens, self._config.text.sequence_length)
            yield rows, tokens

    def batches(self, epoch: int) -> list[Rows]:
        """The rows of the reviews of every step."""
        rng, settings = np.random.default_rng((self._config.seed, epoch, 1)), self._config.training
        return training_batches(self._data.train.lengths[: self.num_texts(epoch)], rng, settings.batch_size)

    def num_texts(self, epoch: int) -> int:
        """Reviews of an epoch: the last epochs may leave out those with a guessed class, which stand last."""
        settings, data = self._config.training, self._data
        return len(data.train) - data.num_guessed if epoch > settings.epochs - settings.finetune_epochs else len(data.train)

    def num_steps(self) -> int:
        """Steps of all epochs together: as many in each as in the first, or, without the guesses, as in the last."""
        epochs, labelled = self._config.training.epochs, self._config.training.finetune_epochs
        return len(self.batches(1)) * (epochs - labelled) + len(self.batches(epochs)) * labelled


@dataclass(frozen=True)
class EpochPosition:
    """How far an epoch has come.

    Args:
        epoch: number of the epoch, from 1; 0 before the first.
        step: steps done.
        loss_sum: sum of the losses of the reviews so far, in nats.
        num_correct: reviews so far that were classified rightly.
        num_texts: reviews so far.
        seconds: time for these steps.
    """

    epoch: int
    step: int = 0
    loss_sum: float = 0.0
    num_correct: int = 0
    num_texts: int = 0
    seconds: float = 0.0

    def after_step(self, loss_sum: float, num_correct: int, num_texts: int, seconds: float) -> EpochPosition:
        """The position a step further; all four are of that step."""
        return EpochPosition(
            self.epoch,
            self.step + 1,
            self.loss_sum + loss_sum,
            self.num_correct + num_correct,
            self.num_texts + num_texts,
            self.seconds + seconds,
        )

    @property
    def loss(self) -> float:
        """Mean over the reviews so far, in nats."""
        return self.loss_sum / self.num_texts

    @property
    def accuracy(self) -> float:
        """Share of the reviews so far that were classified rightly, in [0, 1]."""
        return self.num_correct / self.num_texts


class Pace:
    """How fast the steps of a trainer are, but for its first one, in which TensorFlow traces the model."""

    def __init__(self) -> None:
        self._num_reviews = 0
        self._seconds: float | None = None

    def with_step(self, num_texts: int, seconds: float) -> float | None:
        """Count a step; reviews per second so far."""
        if self._seconds is None:
            self._seconds = 0.0
            return None
        self._num_reviews += num_texts
        self._seconds += seconds
        return self._num_reviews / self._seconds
