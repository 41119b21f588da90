"""The model that learns beside a labelling: suggestions, and the texts whose labels would teach it most."""

from collections import deque
from collections.abc import Callable, Container, Mapping, Sequence

from mha_cli.arrays import Floats
from mha_cli.labelling.assessment import Assessment
from mha_cli.labelling.store import Answer

Suggestion = tuple[tuple[str, float], ...]  # labels with their probabilities in [0, 1]


class Learner:
    """A model in a thread of its own."""

    def __init__(
        self,
        texts: Sequence[str],
        order: Sequence[int],
        pool: Sequence[int],
        classes: Sequence[str],
        words: Mapping[str, Sequence[str]],
        several: bool,
        encoder: Callable[[Sequence[str]], Floats] | None,
    ) -> None:
        self.assessment, self._queue = Assessment(), deque(pool)

    def update(self, answers: Mapping[int, Answer], skipped: Container[int]) -> None:
        """Learn these answers, as soon as there is time."""

    def take(self, is_open: Callable[[int], bool]) -> int | None:
        """The next chosen text; None where none is ready."""
        while self._queue:
            if is_open(row := self._queue.popleft()):
                return row
        return None

    def suggestion(self, row: int) -> Suggestion | None:
        """The model's answer to a text; None where there is no model yet."""
        return None

    def wait(self) -> None:
        """Wait until all answers are learnt."""

    def close(self) -> None:
        """End the threads."""
