"""What a training trains: an encoder (``Trainer``), or the last layer of a frozen one (``FrozenEncoder``)."""

from collections.abc import Iterable, Iterator
from typing import Protocol

from mha_cli.arrays import Array, Floats, Int32s
from mha_cli.config.settings import Config
from mha_cli.data.batches import Rows
from mha_cli.data.corpus import EncodedTexts


class Learner(Protocol):
    """A model that learns in steps.

    Axes: B texts of a step, L their length in tokens, N texts, U units of the logits.
    """

    config: Config
    precision: str  # type of the matrix products
    num_epochs: int

    def num_texts(self, epoch: int) -> int:
        """Texts of an epoch; epochs count from 1."""

    def batches(self, epoch: int) -> list[Rows]:
        """The rows of every step, (B,) each."""

    def steps(self, epoch: int, batches: list[Rows]) -> Iterator[tuple[Rows, Int32s]]:
        """The rows of every step, and the padded tokens of this worker's, (B, L, …)."""

    def step(self, rows: Rows, tokens: Int32s) -> tuple[float, int]:
        """Learn from the texts of some rows; the sum of their losses, in nats, and the number of right answers."""

    def logits(self, texts: EncodedTexts) -> Floats:
        """The logits of texts, (N, U), before the sigmoid or softmax."""

    def weights(self) -> dict[str, Floats]:
        """All weights by variable path."""

    def arrays(self) -> Iterable[Array]:
        """All that a step changes."""

    def set_arrays(self, arrays: list[Array]) -> None:
        """Go on from earlier ``arrays``."""

    def with_validation(self) -> "Learner":
        """A learner that has learnt nothing yet, and learns from the validation part as well."""
