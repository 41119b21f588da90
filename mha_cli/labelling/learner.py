"""What happens beside a labelling: features, the model, its accuracy, and the texts whose labels would teach it most.

Axes: N texts, D features, C classes, K texts that may be chosen.
"""

from collections import Counter, deque
from collections.abc import Callable, Container, Mapping, Sequence
from functools import partial
from threading import Condition, Thread
from typing import Any

import numpy as np
from scipy.sparse import issparse

from mha_cli.arrays import Array, Floats
from mha_cli.labelling.assessment import Assessment, assess
from mha_cli.labelling.features import word_features
from mha_cli.labelling.first_texts import first_texts
from mha_cli.labelling.model import Model, fit_model
from mha_cli.labelling.next_texts import CANDIDATES, representatives
from mha_cli.labelling.store import RANDOM, Answer
from mha_cli.preparation.class_texts import WORTH
from mha_cli.sources.targets import Labels, numbers_of_labels

FIRST, FIRST_PER_CLASS = 24, 2  # texts that are chosen for being typical, and at least so many for each class
QUEUE = 8  # chosen texts that lie ready
FIRST_TOGETHER, MOST_TOGETHER = 64, 1_024  # texts that an encoder reads together: few at first, so that the model is there soon
LEAST_CLUSTERED = 1_000  # texts whose features have to be there before typical ones are found
Suggestion = tuple[tuple[str, float], ...]  # labels with their probabilities in [0, 1]


class Learner:
    """Threads that follow the answers: for features until they are there, for model and queue, and for the accuracy.

    Args:
        texts: all texts.
        order: their numbers, in the order in which an encoder reads them.
        pool: numbers of the texts that may be chosen, in random order.
        classes: names of the classes.
        words: lines about each class; with an encoder, they are further texts of it, and until there are labels the only ones.
        several: whether a text may have several labels.
        encoder: function from texts to features of norm 1; None for TF-IDF of their words.
    """

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
        self.assessment = Assessment()
        self._texts, self._order, self._pool, self._classes, self._several = texts, order, np.array(pool, int), classes, several
        self._encoder = encoder
        self._lines = [(name, line) for name, lines in words.items() for line in lines] if encoder else []
        self._features_ND: Any = None
        self._line_features_LD: Any = None
        self._is_ready_N = np.zeros(len(texts), bool)  # texts whose features are there
        self._first = list[int]()
        self._model: Model | None = None
        self._queue = deque[int]()
        self._answers: Mapping[int, Answer] = {}
        self._skipped: Container[int] = ()
        self._changed, self._version, self._done, self._is_closed = Condition(), 0, [-1, -1], False
        targets = self._compute_features, partial(self._follow, 0, self._learn), partial(self._follow, 1, self._judge)
        self._threads = [Thread(target=target, daemon=True) for target in targets]

    def start(self, answers: Mapping[int, Answer]) -> None:
        """Begin with the labels that are there."""
        self._answers = answers
        for thread in self._threads:
            thread.start()

    def update(self, answers: Mapping[int, Answer], skipped: Container[int]) -> None:
        """Learn these labels as soon as there is time."""
        with self._changed:
            self._answers, self._skipped = answers, skipped
            self._version += 1
            self._changed.notify_all()

    def take(self, is_open: Callable[[int], bool]) -> int | None:
        """The next chosen text; None where none is ready."""
        queue = self._queue
        while queue:
            if is_open(row := queue.popleft()):
                return row
        return None

    def suggestion(self, row: int) -> Suggestion | None:
        """The model's answer to a text; None where there is none yet."""
        model = self._model
        if model is None or not self._is_ready_N[row]:
            return None
        probabilities_C = model.probabilities(self._features_ND[[row]])[0]
        class_ids = np.flatnonzero(probabilities_C >= 0.5) if self._several else [probabilities_C.argmax()]
        return tuple((self._classes[int(class_id)], float(probabilities_C[class_id])) for class_id in class_ids)

    def wait(self, judged: bool) -> None:
        """Wait until all labels are learnt, and the model is ``judged`` by them."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_ready_N.all() and min(self._done[: 1 + judged]) == self._version)

    def close(self) -> None:
        """End the threads, which takes as long as a fit: a process that ends beside a library's computation may crash."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def _follow(self, number: int, work: Callable[[Mapping[int, Answer], Container[int]], None]) -> None:
        """Do the work again whenever labels or features have come since it began."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._is_closed or self._version != self._done[number])
                if self._is_closed:
                    return
                version, answers, skipped = self._version, self._answers, self._skipped
            if self._features_ND is not None:
                work(answers, skipped)
            with self._changed:
                self._done[number] = version
                self._changed.notify_all()

    def _compute_features(self) -> None:
        if self._encoder is None:
            self._features_ND = word_features(self._texts)
            self._is_ready_N[:] = True
            self.update(self._answers, self._skipped)
            return
        if self._lines:
            self._line_features_LD = self._encoder([line for _, line in self._lines])
        rows, start = list(dict.fromkeys([*self._answers, *self._order])), 0
        while start < len(rows) and not self._is_closed:
            chunk = rows[start : start + min(MOST_TOGETHER, FIRST_TOGETHER + start)]
            start += len(chunk)
            features = self._encoder([self._texts[row] for row in chunk])
            if self._features_ND is None:
                self._features_ND = np.zeros((len(rows), features.shape[1]), np.float32)
            self._features_ND[chunk] = features
            self._is_ready_N[chunk] = True
            self.update(self._answers, self._skipped)

    def _learn(self, answers: Mapping[int, Answer], skipped: Container[int]) -> None:
        rows, labels = self._labelled(answers)
        self._model = model = self._fit(self._features_ND[rows], labels)
        pool_K = self._pool[self._is_ready_N[self._pool]]
        if not (self._lines or self._first) and len(pool_K) >= min(LEAST_CLUSTERED, len(self._pool)):
            self._first = self._typical(pool_K)
        chosen = [row for row in self._first if row not in answers and row not in skipped]
        if model is not None and (len(answers) >= len(self._first) or not chosen):
            is_open_K = np.array([row not in answers and row not in skipped for row in pool_K.tolist()], bool)
            chosen = self._uncertain(model, pool_K[is_open_K])
        self._queue = deque(chosen)

    def _judge(self, answers: Mapping[int, Answer], _skipped: Container[int]) -> None:
        rows, labels = self._labelled(answers)
        features_ND, is_random_N = self._features_ND[rows], np.array([answers[row].drawn == RANDOM for row in rows], bool)
        self.assessment = assess(lambda some: self._fit(features_ND[some], labels[some]), features_ND, labels, is_random_N)

    def _labelled(self, answers: Mapping[int, Answer]) -> tuple[list[int], Labels]:
        """Labelled texts whose features are there, and their labels as numbers."""
        rows = [row for row in answers if self._is_ready_N[row]]
        return rows, self._as_numbers([answers[row].labels for row in rows])

    def _as_numbers(self, labels: Sequence[tuple[str, ...]]) -> Labels:
        if self._several:
            return numbers_of_labels([*labels, ()], self._classes)[:-1]
        return numbers_of_labels([label for (label,) in labels], self._classes)

    def _fit(self, features_ND: Any, labels: Labels) -> Model | None:
        """A model of labelled texts and of the lines about the classes; None for nobody, and from one class."""
        if self._is_closed:
            return None
        if not self._lines:
            return fit_model(features_ND, labels, len(self._classes))
        num_lines = Counter(name for name, _ in self._lines)
        weights = np.array([1.0] * len(labels) + [WORTH / num_lines[name] for name, _ in self._lines], np.float32)
        labels = np.concatenate([labels, self._as_numbers([(name,) for name, _ in self._lines])])
        return fit_model(np.concatenate([features_ND, self._line_features_LD]), labels, len(self._classes), weights)

    def _typical(self, pool_K: Array) -> list[int]:
        """The first texts, where no words of classes give a model that could doubt any."""
        features_KD = self._features_ND[pool_K]
        if abs(features_KD).sum() == 0:
            return []
        return list(pool_K[first_texts(features_KD, max(FIRST, FIRST_PER_CLASS * len(self._classes)))].tolist())

    def _uncertain(self, model: Model, pool_K: Array) -> list[int]:
        """Texts that the model is least certain of, and that stand for many of them."""
        probabilities_KC = model.probabilities(self._features_ND[pool_K])
        if self._several:
            margins_K = np.abs(probabilities_KC - 0.5).min(axis=1)
        else:
            margins_K = np.ptp(np.partition(probabilities_KC, -2, axis=1)[:, -2:], axis=1)
        candidates = np.argsort(margins_K, kind="stable")[: CANDIDATES * QUEUE]
        features_KD = self._features_ND[pool_K[candidates]]
        cosines_KK = features_KD @ features_KD.T
        best = representatives(cosines_KK.toarray() if issparse(cosines_KK) else cosines_KK, 1.0 - margins_K[candidates], QUEUE)
        return list(pool_K[candidates[best]].tolist())
