"""What a training trains: an encoder (``Trainer``), or the last layer of a frozen one (``FrozenEncoder``).

Axes: B texts of a step, L their length in tokens, W characters of a token, N texts, U units of the logits, C classes.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, Self

import keras
import numpy as np

from mha_cli.arrays import Array, Floats, Int32s
from mha_cli.config.parameters import encoder_length
from mha_cli.config.settings import Config
from mha_cli.corpus.batches import Rows, at_common_length, drop_words, training_batches
from mha_cli.corpus.encoded_texts import EncodedTexts
from mha_cli.preparation.prepare import PreparedData
from mha_cli.sources.targets import one_hot
from mha_cli.training.precision import choose_precision

ALL_ROWS = slice(None)
TEACHER_SHARE = 0.5  # share of the teacher in a labelled text's target


class Learner(ABC):
    """A model that learns in steps; seed and epoch alone decide their input, so that a resumed run reads the same batches.

    Args:
        worker_slice: rows of a step that this worker reads.

    Attributes:
        variables: Keras's and TensorFlow's variables that a step changes.
    """

    model: keras.Model
    variables: list[Any]

    def __init__(self, config: Config, data: PreparedData, worker_slice: slice = ALL_ROWS) -> None:
        self.config, self.data, self.worker_slice = config, data, worker_slice
        self.precision, self.num_epochs = choose_precision(config), config.training.epochs

    @abstractmethod
    def step(self, rows: Rows, tokens: Int32s) -> tuple[float, int]:
        """Learn from texts; the sum of their losses, in nats, and the number of right answers.

        ``rows``, (B,), are the numbers of the texts; ``tokens`` are those of this worker's rows, padded, (B, L) or (B, L, 1 + W).
        """

    @abstractmethod
    def logits(self, texts: EncodedTexts) -> Floats:
        """The logits of texts, (N, U), before the sigmoid or softmax."""

    @abstractmethod
    def with_validation(self) -> Self:
        """A new, untrained learner of the same config, which learns from the validation part as well."""

    def weights(self) -> dict[str, Floats]:
        """All weights of the encoder by variable path."""
        return {weight.path: np.array(weight) for weight in self.model.weights}

    def arrays(self) -> Iterator[Array]:
        """The values of ``variables``, one after another, since tables are large."""
        return (np.array(variable) for variable in self.variables)

    def set_arrays(self, arrays: Sequence[Array]) -> None:
        """Continue from the chief's ``arrays``."""
        for variable, array in zip(self.variables, arrays, strict=True):
            variable.assign(array)

    def steps(self, epoch: int, batches: list[Rows]) -> Iterator[tuple[Rows, Int32s]]:
        """The rows of each step, from ``batches``, and the padded tokens of this worker's rows, with some words dropped."""
        rng, share = np.random.default_rng((self.config.seed, epoch)), self.config.training.word_dropout
        texts = self.data.train.for_encoder
        lengths = texts.lengths
        for rows in batches:
            worker_rows = rows[self.worker_slice]
            tokens = texts.padded(worker_rows) if len(worker_rows) else texts.padded(rows[:1])[:0]
            if share:
                dropped = rng.random((len(rows), max(1, lengths[rows].max())), dtype=np.float32) < share  # the same on all workers
                tokens = drop_words(tokens, dropped[self.worker_slice, : tokens.shape[1]])
            if self.precision == "bfloat16":
                tokens = at_common_length(tokens, encoder_length(self.config))
            yield rows, tokens

    def batches(self, epoch: int) -> list[Rows]:
        """The rows of each step."""
        rng, settings = np.random.default_rng((self.config.seed, epoch, 1)), self.config.training
        return training_batches(self.data.train.for_encoder.lengths[: self.num_texts(epoch)], rng, settings.batch_size)

    def num_texts(self, epoch: int) -> int:
        """Texts of an epoch: the last ``finetune_epochs`` leave out those that a teacher labelled, which come last."""
        settings, data = self.config.training, self.data
        return len(data.train) - data.num_guessed if epoch > settings.epochs - settings.finetune_epochs else len(data.train)

    def num_steps(self) -> int:
        """Steps of all epochs together."""
        epochs, labelled = self.config.training.epochs, self.config.training.finetune_epochs
        return len(self.batches(1)) * (epochs - labelled) + len(self.batches(epochs)) * labelled


def targets_of(data: PreparedData, rows: Rows) -> Floats:
    """Target probabilities of the classes, (B, C), for texts of the training part, by their labels and by the teacher, if there is one."""
    targets = one_hot(data.train.labels[rows], len(data.class_names))
    if data.taught is None:
        return targets
    shares = np.where(rows < len(data.train) - data.num_guessed, TEACHER_SHARE, 1.0).astype(np.float32)
    return targets + shares[:, None] * (data.taught[rows].astype(np.float32) - targets)
