"""The input of an epoch's steps. Seed and epoch alone decide it, so that a resumed run reads the same batches."""

from collections.abc import Iterator

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
        self.config, self.data, self.own = config, data, own
        self.precision, self.num_epochs = choose_precision(config), config.training.epochs

    def steps(self, epoch: int, batches: list[Rows]) -> Iterator[tuple[Rows, Int32s]]:
        """The rows of every step, from ``batches``, and the padded tokens of this worker's rows, with some words dropped."""
        rng, share = np.random.default_rng((self.config.seed, epoch)), self.config.training.word_dropout
        texts = self.data.train.for_encoder
        lengths = texts.lengths
        for rows in batches:
            own = rows[self.own]
            tokens = texts.padded(own) if len(own) else texts.padded(rows[:1])[:0]
            if share:
                drawn = rng.random((len(rows), max(1, lengths[rows].max())), dtype=np.float32) < share  # for all workers alike
                tokens = drop_words(tokens, drawn[self.own, : tokens.shape[1]])
            if self.precision == "bfloat16":
                tokens = at_common_length(tokens, encoder_length(self.config))
            yield rows, tokens

    def batches(self, epoch: int) -> list[Rows]:
        """The rows of every step."""
        rng, settings = np.random.default_rng((self.config.seed, epoch, 1)), self.config.training
        return training_batches(self.data.train.for_encoder.lengths[: self.num_texts(epoch)], rng, settings.batch_size)

    def num_texts(self, epoch: int) -> int:
        """Texts of an epoch: the last ``finetune_epochs`` leave out those with a guessed class, which come last."""
        settings, data = self.config.training, self.data
        return len(data.train) - data.num_guessed if epoch > settings.epochs - settings.finetune_epochs else len(data.train)

    def num_steps(self) -> int:
        """Steps of all epochs together."""
        epochs, labelled = self.config.training.epochs, self.config.training.finetune_epochs
        return len(self.batches(1)) * (epochs - labelled) + len(self.batches(epochs)) * labelled
