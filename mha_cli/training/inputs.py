"""What the steps of an epoch read; seed and epoch decide it, so that a run that goes on reads what it would have read."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from mha_cli.config.settings import Config
from mha_cli.data.batches import at_common_length, training_batches
from mha_cli.data.corpus import drop_words
from mha_cli.data.preparation import PreparedData
from mha_cli.training.precision import choose_precision

Rows = npt.NDArray[np.int64]


class EpochInputs:
    """The steps of every epoch.

    Args:
        config: settings of the run.
        data: reviews to learn from.
    """

    def __init__(self, config: Config, data: PreparedData) -> None:
        self._config, self._data = config, data
        self._at_common_length = choose_precision(config) == "bfloat16"

    def steps(self, epoch: int, batches: list[Rows]) -> Iterator[tuple[Rows, npt.NDArray[np.int32]]]:
        """The rows of the reviews of every step, from ``batches``, and their padded token ids, of which some are dropped."""
        rng, share = np.random.default_rng((self._config.seed, epoch)), self._config.training.word_dropout
        for rows in batches:
            token_ids = self._data.train.padded(rows)
            if share:
                token_ids = drop_words(token_ids, share, rng)
            if self._at_common_length:
                token_ids = at_common_length(token_ids, self._config.text.sequence_length)
            yield rows, token_ids

    def batches(self, epoch: int) -> list[Rows]:
        """The rows of the reviews of every step."""
        rng, settings = np.random.default_rng((self._config.seed, epoch, 1)), self._config.training
        return training_batches(self._data.train.lengths[: self.num_reviews(epoch)], rng, settings.batch_size, settings.batch_tokens)

    def num_reviews(self, epoch: int) -> int:
        """Reviews of an epoch: the last epochs may leave out those with a guessed class, which stand last."""
        settings, data = self._config.training, self._data
        return len(data.train) - data.num_guessed if epoch > settings.epochs - settings.labelled_epochs else len(data.train)

    def num_steps(self) -> int:
        """Steps of all epochs together: as many in each as in the first, or, without the guesses, as in the last."""
        settings = self._config.training
        epochs, labelled = settings.epochs, settings.labelled_epochs
        return len(self.batches(1)) * (epochs - labelled) + len(self.batches(epochs)) * labelled
