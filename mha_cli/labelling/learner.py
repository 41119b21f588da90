"""What happens beside a labelling: features, the model, its accuracy, and the texts whose labels would teach it most.

Axes: N texts, D features, C classes, K texts that may be chosen.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from mha_cli.arrays import Bools, Floats
from mha_cli.labelling.first_texts import first_texts, word_features
from mha_cli.labelling.model import Assessment, Model, assess, fit_model
from mha_cli.labelling.next_texts import margin, most_useful
from mha_cli.labelling.store import RANDOM, Answer, LabelStore
from mha_cli.preparation.class_texts import line_weights
from mha_cli.sources.targets import Labels, numbers_of_labels

FIRST, FIRST_PER_CLASS = 24, 2  # texts that are chosen for being typical, and at least so many for each class
QUEUE = 8  # chosen texts that lie ready
FIRST_TOGETHER, MOST_TOGETHER = 64, 1_024  # texts that an encoder reads together: few at first, so that the model is there soon
LEAST_CLUSTERED = 1_000  # texts whose features have to be there before typical ones are found
Suggestion = tuple[tuple[str, float], ...]  # labels with their probabilities in [0, 1]


class Learner:
    """Threads that follow the answers in a store: for features until they are there, for model and queue, and for the accuracy.

    Args:
        order: numbers of all texts, in the order in which an encoder reads them; ``pool`` has those that may be chosen, in random order.
        words: lines about each class; with an encoder, they are further texts of it, and until there are labels the only ones.
        encoder: function from texts to features of norm 1; None for TF-IDF of their words.
    """

    def __init__(
        self,
        store: LabelStore,
        order: Sequence[int],
        pool: Sequence[int],
        classes: Sequence[str],
        words: Mapping[str, Sequence[str]],
        encoder: Callable[[Sequence[str]], Floats] | None,
        is_open: Callable[[int], bool],
    ) -> None:
        self.assessment = Assessment()
        self._store, self._order, self._pool, self._classes = store, order, np.array(pool, int), classes
        self._encoder, self._is_open = encoder, is_open
        self._lines = [(name, line) for name, lines in words.items() for line in lines] if encoder else []
        self._features_ND: Any = None
        self._line_features_LD: Any = None
        self._is_ready_N = np.zeros(len(store.texts), bool)  # texts whose features are there
        self._first = list[int]()
        self._model: Model | None = None
        self._queue: Iterator[int] = iter(())
        self._is_closed = False
        self._learning, self._judging = _Worker(self._learn), _Worker(self._judge)
        self._reading = _Worker(self._compute_features)
        self._reading.ask()

    def update(self) -> None:
        """Learn the answers as they are now, as soon as there is time."""
        if self._features_ND is not None:
            self._learning.ask()
            self._judging.ask()

    def take(self) -> int | None:
        """The next chosen text; None where none is ready."""
        return next(filter(self._is_open, self._queue), None)

    def suggestion(self, row: int) -> Suggestion | None:
        """The model's answer to a text; None where there is none yet."""
        model = self._model
        if model is None or not self._is_ready_N[row]:
            return None
        probabilities_C = model.probabilities(self._features_ND[[row]])[0]
        class_ids = np.flatnonzero(probabilities_C >= 0.5) if self._store.several else [probabilities_C.argmax()]
        return tuple((self._classes[int(class_id)], float(probabilities_C[class_id])) for class_id in class_ids)

    def wait(self, judged: bool) -> None:
        """Wait until all labels are learnt, and the model is ``judged`` by them."""
        for worker in [self._reading, self._learning, *([self._judging] if judged else [])]:
            worker.run.result()

    def close(self) -> None:
        """End the threads, which takes as long as a fit: a process that ends beside a library's computation may crash."""
        self._is_closed = True
        for worker in (self._reading, self._learning, self._judging):
            worker.close()

    def _compute_features(self) -> None:
        if self._encoder is None:
            self._features_ND = word_features(self._store.texts)
            self._is_ready_N[:] = True
            self.update()
            return
        if self._lines:
            self._line_features_LD = self._encoder([line for _, line in self._lines])
        rows, start = list(dict.fromkeys([*self._store.answers, *self._order])), 0
        while start < len(rows) and not self._is_closed:
            chunk = rows[start : start + min(MOST_TOGETHER, FIRST_TOGETHER + start)]
            start += len(chunk)
            features = self._encoder([self._store.texts[row] for row in chunk])
            if self._features_ND is None:
                self._features_ND = np.zeros((len(rows), features.shape[1]), np.float32)
            self._features_ND[chunk] = features
            self._is_ready_N[chunk] = True
            self.update()

    def _learn(self) -> None:
        answers = self._store.answers
        features_ND, labels, _ = self._labelled(answers)
        self._model = model = self._fit(features_ND, labels)
        pool_K = self._pool[self._is_ready_N[self._pool]]
        if not (self._lines or self._first) and len(pool_K) >= min(LEAST_CLUSTERED, len(self._pool)):
            number = max(FIRST, FIRST_PER_CLASS * len(self._classes))
            self._first = pool_K[first_texts(self._features_ND[pool_K], number)].tolist()
        chosen = list(filter(self._is_open, self._first))
        if model is not None and (len(answers) >= len(self._first) or not chosen):
            open_K = np.array(list(filter(self._is_open, pool_K.tolist())), int)
            features_KD = self._features_ND[open_K]
            margins_K = margin(model.probabilities(features_KD), np.float32(0.5) if self._store.several else None)
            chosen = open_K[most_useful(features_KD, margins_K, QUEUE)].tolist()
        self._queue = iter(chosen)

    def _judge(self) -> None:
        features_ND, labels, is_random_N = self._labelled(self._store.answers)
        self.assessment = assess(lambda rows: self._fit(features_ND[rows], labels[rows]), features_ND, labels, is_random_N)

    def _labelled(self, answers: Mapping[int, Answer]) -> tuple[Any, Labels, Bools]:
        """The answered texts whose features are there: features, labels, and which of them were drawn at random."""
        rows = [row for row in answers if self._is_ready_N[row]]
        is_random_N = np.array([answers[row].drawn == RANDOM for row in rows], bool)
        return self._features_ND[rows], self._as_numbers([answers[row].labels for row in rows]), is_random_N

    def _as_numbers(self, labels: Sequence[tuple[str, ...]]) -> Labels:
        if self._store.several:
            return numbers_of_labels([*labels, ()], self._classes)[:-1]
        return numbers_of_labels([label for (label,) in labels], self._classes)

    def _fit(self, features_ND: Any, labels: Labels) -> Model | None:
        """A model of labelled texts and of the lines about the classes; None for nobody, and from one class."""
        if self._is_closed:
            return None
        if not self._lines:
            return fit_model(features_ND, labels, len(self._classes))
        names = [name for name, _ in self._lines]
        weights = np.concatenate([np.ones(len(labels), np.float32), line_weights(names)])
        labels = np.concatenate([labels, self._as_numbers([(name,) for name in names])])
        return fit_model(np.concatenate([features_ND, self._line_features_LD]), labels, len(self._classes), weights)


class _Worker:
    """A thread that does one work whenever it is asked to, and once for several requests that wait."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._work, self._thread = work, ThreadPoolExecutor(1)
        self.run = Future[None]()
        self.run.set_result(None)

    def ask(self) -> None:
        """Do the work with what there is now."""
        if self.run.running() or self.run.done():  # else it has not begun, and will find what there is now
            self.run = self._thread.submit(self._work)

    def close(self) -> None:
        """Wait for the end of the work; a fault in it is raised here."""
        self._thread.shutdown(cancel_futures=True)
        if not self.run.cancelled():
            self.run.result()
