"""Which of its probabilities a classifier answers with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from mha_cli.errors import MhaError, did_you_mean, printable

if TYPE_CHECKING:
    from mha_cli.runtime.classifier import Prediction


@dataclass(frozen=True)
class Choice:
    """How probabilities become answers."""

    threshold: float | None = None  # probability in [0, 1] that a class needs to be an answer; None asks for what the checkpoint asks for
    only: tuple[str, ...] = ()  # classes that are looked for; empty means all
    top_k: int | Literal["all"] | None = None  # number of most probable classes to give, or all; None is the answer alone

    def refuse_unknown(self, class_names: Sequence[str]) -> None:
        """Refuse to look for a class that the model does not have."""
        for name in self.only:
            if name not in class_names:
                raise MhaError(
                    f"--only {printable(name)}: no class of the model", did_you_mean(printable(name), map(printable, class_names))
                )

    def labels(self, prediction: Prediction) -> list[str]:
        """The labels of a text that may have several, the most probable first: those that reach the threshold and are looked for."""
        found: Sequence[str] = prediction.labels or ()
        if self.threshold is not None:
            ranked = sorted(prediction.probabilities.items(), key=lambda item: -item[1])
            found = [name for name, probability in ranked if probability >= self.threshold]
        return [name for name in found if not self.only or name in self.only]

    def answer(self, prediction: Prediction) -> str | None:
        """The most probable class; None if it is not probable enough, or not looked for. Of several labels, all in one cell.

        With a threshold it is the most probable one of the classes that are looked for: so a threshold below one half finds more of a
        class than the texts of which it is the most probable.
        """
        if prediction.labels is not None:
            return prediction.label_separator.join(self.labels(prediction)) or None
        if self.threshold is None:
            return prediction.answer if not self.only or prediction.answer in self.only else None
        best = max(self.only, key=prediction.probabilities.__getitem__) if self.only else prediction.label
        return best if prediction.probabilities[best] >= self.threshold else None

    def probability(self, prediction: Prediction) -> float:
        """The probability of the answer; of several labels, that of the least probable one; without any, of the most probable class."""
        if prediction.labels is not None:
            return min(map(prediction.probabilities.__getitem__, self.labels(prediction)), default=prediction.probability)
        answer = self.answer(prediction)
        return prediction.probability if answer is None else prediction.probabilities[answer]

    def top(self, prediction: Prediction) -> list[tuple[str, float]]:
        """The most probable classes that reach the threshold and their probabilities, the most probable first.

        With the checkpoint's own thresholds, which are for answers, these are all or none.
        """
        if self.threshold is None and prediction.labels is None and prediction.answer is None:  # each of several labels has its own
            return []
        ranked = sorted(prediction.probabilities.items(), key=lambda item: -item[1])
        most = None if self.top_k == "all" else self.top_k
        return [item for item in ranked[:most] if self.threshold is None or item[1] >= self.threshold]

    def as_json(self, number: int, prediction: Prediction) -> dict[str, object]:
        """All about the text with this id, as ``mha predict --json`` prints it."""
        probabilities = prediction.probabilities if self.top_k is None else dict(self.top(prediction))
        return {
            "id": number,
            **({"label": self.answer(prediction)} if prediction.labels is None else {"labels": self.labels(prediction)}),
            "probability": round(self.probability(prediction), 6),
            "probabilities": {name: round(value, 6) for name, value in probabilities.items()},
            "tokens": prediction.num_tokens,
            "unknown": prediction.num_unknown,
            "truncated": prediction.truncated,
            "empty": prediction.empty,
            "all_unknown": prediction.all_unknown,
        }
