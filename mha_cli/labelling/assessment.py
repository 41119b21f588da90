"""How good a model is by the texts that were drawn at random, and how good it would be with more labels."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Estimate:
    """An accuracy in [0, 1] with its 95 % interval."""

    accuracy: float
    low: float
    high: float


@dataclass(frozen=True)
class Assessment:
    """What the random texts tell. With several labels per text, an answer is right if all its labels are."""

    accuracy: Estimate | None = None  # on texts without a label; None where too few random texts are labelled
    curve: tuple[tuple[int, float], ...] = ()  # numbers of labels, and the accuracy with the first so many
    next_hundred: Estimate | None = None  # accuracy with a hundred labels more; None where it is not known yet
    num_labels: int = 0  # labels that this is about, which follows the answers after a moment
