"""An epoch: the input of its steps, how far it has come, and how fast it goes.

Seed and epoch alone decide the input, so that a resumed run reads the same batches.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from mha_cli.arrays import Int32s
from mha_cli.config.parameters import encoder_length
from mha_cli.config.settings import Config
from mha_cli.data.batches import Rows, at_common_length, training_batches
from mha_cli.data.corpus import drop_words
from mha_cli.data.preparation import PreparedData
from mha_cli.training.precision import choose_precision

EVERY = slice(None)


class EpochInputs:
    """The steps of every epoch; ``own`` are the rows of a step that this worker reads."""

    def __init__(self, config: Config, data: PreparedData, own: slice = EVERY) -> None:
        self._config, self._data, self._own = config, data, own
        self._at_common_length = choose_precision(config) == "bfloat16"

    def steps(self, epoch: int, batches: list[Rows]) -> Iterator[tuple[Rows, Int32s]]:
        """The rows of every step, from ``batches``, and the padded tokens of this worker's rows, with some words dropped."""
        rng, share = np.random.default_rng((self._config.seed, epoch)), self._config.training.word_dropout
        texts = self._data.train.for_encoder
        lengths = texts.lengths
        for rows in batches:
            own = rows[self._own]
            tokens = texts.padded(own) if len(own) else texts.padded(rows[:1])[:0]
            if share:
                drawn = rng.random((len(rows), max(1, lengths[rows].max())), dtype=np.float32) < share  # for all workers alike
                tokens = drop_words(tokens, drawn[self._own, : tokens.shape[1]])
            if self._at_common_length:
                tokens = at_common_length(tokens, encoder_length(self._config))
            yield rows, tokens

    def batches(self, epoch: int) -> list[Rows]:
        """The rows of every step."""
        rng, settings = np.random.default_rng((self._config.seed, epoch, 1)), self._config.training
        return training_batches(self._data.train.for_encoder.lengths[: self.num_texts(epoch)], rng, settings.batch_size)

    def num_texts(self, epoch: int) -> int:
        """Texts of an epoch: the last ``finetune_epochs`` leave out those with a guessed class, which come last."""
        settings, data = self._config.training, self._data
        return len(data.train) - data.num_guessed if epoch > settings.epochs - settings.finetune_epochs else len(data.train)

    def num_steps(self) -> int:
        """Steps of all epochs together."""
        epochs, labelled = self._config.training.epochs, self._config.training.finetune_epochs
        return len(self.batches(1)) * (epochs - labelled) + len(self.batches(epochs)) * labelled


@dataclass
class EpochPosition:
    """How far an epoch has come."""

    epoch: int  # number of the epoch, from 1; 0 before the first
    step: int = 0  # steps done; the other figures are sums over these
    loss_sum: float = 0.0  # sum of the losses of the texts, in nats
    num_correct: int = 0
    num_texts: int = 0
    seconds: float = 0.0

    def add_step(self, loss_sum: float, num_correct: int, num_texts: int, seconds: float) -> None:
        """Count a step."""
        self.step += 1
        self.loss_sum += loss_sum
        self.num_correct += num_correct
        self.num_texts += num_texts
        self.seconds += seconds

    @property
    def loss(self) -> float:
        """Mean over the texts so far, in nats."""
        return self.loss_sum / self.num_texts

    @property
    def accuracy(self) -> float:
        """Share of right answers so far, in [0, 1]."""
        return self.num_correct / self.num_texts


class Pace:
    """The speed of a trainer's steps without its first one, in which TensorFlow traces the model."""

    def __init__(self) -> None:
        self._num_texts, self._seconds, self._traced = 0, 0.0, False

    def with_step(self, num_texts: int, seconds: float) -> float | None:
        """Count a step; texts per second so far."""
        if not self._traced:
            self._traced = True
            return None
        self._num_texts += num_texts
        self._seconds += seconds
        return self._num_texts / self._seconds
