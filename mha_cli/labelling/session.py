"""A labelling: which text waits for an answer, what was answered, the way back, and the keys. Page and terminal share it."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from itertools import chain, islice
from threading import RLock

from mha_cli.arrays import Floats
from mha_cli.errors import MhaError, listed, plural, printable
from mha_cli.labelling.learner import Learner, Suggestion
from mha_cli.labelling.model import Assessment
from mha_cli.labelling.store import CHOSEN, GIVEN, RANDOM, Answer, LabelStore

RANDOM_EVERY = 4  # every fourth text is drawn at random
DIGITS = "1234567890"
FEW_LABELS, SHOWN_CLASSES = 10, 6  # labels of a class below which it is named, and classes that are


@dataclass(frozen=True)
class Shown:
    """A text, and what there is to say about it."""

    row: int  # number of the text; -1 where no text is left
    text: str
    columns: Mapping[str, str]  # the other columns
    labels: tuple[str, ...] | None  # those it has; None for a text without an answer
    suggestion: Suggestion | None  # the model's answer; None where there is no model yet
    is_random: bool  # whether it was drawn at random
    drawn: str = ""  # the same in words
    done: bool = False  # whether no text is left


@dataclass(frozen=True)
class Progress:
    """How many texts are labelled, and what their labels tell."""

    num_labelled: int
    num_texts: int
    num_random: int  # labelled texts that were drawn at random
    counts: Mapping[str, int]  # labelled texts of each class
    few: tuple[str, ...]  # classes with fewer than ten of them
    assessment: Assessment  # accuracy, learning curve and prediction, as far as the random texts support them

    @property
    def lines(self) -> list[str]:
        """All of it in words."""
        random, assessment = f"{self.num_random:,} of them drawn at random", self.assessment
        lines = [f"{self.num_labelled:,} of {plural(self.num_texts, 'text')} labelled, {random}"]
        accuracy = f"{assessment.accuracy}, by the random texts" if assessment.accuracy else "not known yet"
        lines.append(f"accuracy on texts without a label: {accuracy}")
        lines.append(f"with a hundred labels more: {assessment.next_hundred or 'not known yet'}")
        if self.few:
            lines.append(f"fewer than ten labels: {listed([f'{printable(name)} {self.counts[name]}' for name in self.few], SHOWN_CLASSES)}")
        return lines


class Session:
    """One labelling of one file. Any thread may call any method, and none but ``wait`` waits for the model.

    Args:
        classes: names of the classes, in the order of their keys; ``words`` has lines about each.
        encoder: function from texts to features of norm 1; None for the words of the texts.
        review: texts that are to be answered again, with what is suggested for each; None for the texts without an answer.
    """

    def __init__(
        self,
        store: LabelStore,
        classes: Sequence[str],
        words: Mapping[str, Sequence[str]],
        encoder: Callable[[Sequence[str]], Floats] | None = None,
        review: Mapping[int, Suggestion] | None = None,
        seed: int = 0,
    ) -> None:
        self.classes, self.words, self.several = tuple(classes), words, store.several
        self.text_columns = store.text_columns if len(store.text_columns) > 1 else [""]  # names of the parts of a text
        self._store, self._review, self._lock = store, review, RLock()
        digest = partial(blake2b, digest_size=8, salt=seed.to_bytes(8))
        digests = [int.from_bytes(digest(text.encode("utf-8", "replace")).digest()) for text in store.texts]
        self._order = sorted(range(len(digests)), key=digests.__getitem__)  # a random one, the same at every start
        self._to_draw = {row for row in self._order if digests[row] % RANDOM_EVERY == 0}  # never chosen: a fair sample of all texts
        self._answered = list(store.answers) if review is None else []  # the way back
        self._back = 0  # how many of these answers the shown text lies back; 0 for the text that waits
        self._waiting = list[int]()  # shown texts that lack an answer, or a second one in a review; the last one waits
        self._skipped = set[int]()
        self._changes: list[tuple[int, Answer | None]] = [(row, None) for row in self._answered if store.answers[row].drawn != GIVEN]
        self._review_rows = iter(review or ())
        pool = [row for row in self._order if row not in self._to_draw]
        self._learner = Learner(store, self._order, pool, self.classes, words, encoder, self._is_open)
        self._go_on()

    def current(self) -> Shown:
        """The text that waits for an answer, or that was gone back to."""
        with self._lock:
            row = self._row
            if row < 0:
                return Shown(-1, "", {}, None, None, False, done=True)
            answer, is_random = self._store.answers.get(row), self._drawn(row) == RANDOM
            suggestion = self._learner.suggestion(row) if self._review is None else self._review.get(row)
            drawn = "drawn at random: counts for the accuracy" if is_random else ""
            if is_random and not answer:  # a suggestion would lead the annotator on the texts that measure it
                suggestion, drawn = None, f"{drawn}, so there is no suggestion"
            text, columns = self._store.texts[row], self._store.columns(row)
            return Shown(row, text, columns, answer and answer.labels, suggestion, is_random, drawn)

    def answer(self, row: int, labels: Sequence[str]) -> Shown:
        """Label a text; that is on disk before the next text is returned. The same answer twice is one answer."""
        if unknown := {*labels} - {*self.classes}:
            raise MhaError(f"{printable(min(unknown))} is no class of the texts", f"choose from {listed(self.classes)}")
        if len(labels) != 1 and not self.several:
            raise MhaError("a text has one label", f"choose from {listed(self.classes)}")
        if not 0 <= row < len(self._store.texts):
            raise MhaError(f"no text has the number {row}", "label the one that is shown")
        with self._lock:
            before = self._store.answers.get(row)
            answer = Answer(tuple(name for name in self.classes if name in labels), self._drawn(row))
            if answer != before:
                self._store.write(row, answer)
            if answer != before or row in self._waiting:
                self._changes.append((row, before))
            if row not in self._answered:
                self._answered.append(row)
                self._back = 0
            elif self._back and row == self._row:
                self._back -= 1
            return self._go_on(row)

    def skip(self, row: int) -> Shown:
        """Leave a text as it is; the next start shows it again."""
        with self._lock:
            if self._back:
                return self.step(1)
            if row in self._store.answers:  # in a review
                return self.answer(row, self._store.answers[row].labels)
            if row in self._waiting:
                self._skipped.add(row)
                self._changes.append((row, None))
            return self._go_on(row)

    def undo(self) -> Shown:
        """Take the last answer back, or the last skip, and show its text."""
        with self._lock:
            if not self._changes:
                return self.current()
            row, before = self._changes[-1]
            if self._store.answers.get(row) != before:
                self._store.write(row, before)
            self._changes.pop()
            self._skipped.discard(row)
            if before is not None:
                self._back = len(self._answered) - self._answered.index(row)
            else:
                self._answered = [other for other in self._answered if other != row]
                self._waiting.append(row)
                self._back = 0
            return self._go_on()

    def step(self, by: int) -> Shown:
        """Go back (-1) and forth (+1) through what was answered."""
        with self._lock:
            self._back = min(max(0, self._back - by), len(self._answered))
            return self.current()

    def progress(self) -> Progress:
        """How many texts are labelled, and how sure the model is by now."""
        answers = self._store.answers
        counts = Counter(name for answer in answers.values() for name in answer.labels)
        of_classes = {name: counts[name] for name in self.classes}
        few = tuple(name for name in self.classes if counts[name] < FEW_LABELS)
        num_random = sum(answer.drawn == RANDOM for answer in answers.values())
        return Progress(len(answers), len(self._store.texts), num_random, of_classes, few, self._learner.assessment)

    def wait(self, judged: bool = True) -> None:
        """Wait until the model has learnt all answers, and is ``judged`` by them: for tests, and for simulated annotators."""
        self._learner.wait(judged)

    def close(self) -> None:
        """End the model's work, and let other processes write the file."""
        self._store.close()
        self._learner.close()

    @property
    def _row(self) -> int:
        """The text that is shown; -1 for none."""
        if self._back:
            return self._answered[-self._back]
        return self._waiting[-1] if self._waiting else -1

    def _go_on(self, row: int = -1) -> Shown:
        """Show the next text where this one has waited, and let the model learn."""
        self._waiting = [other for other in self._waiting if other != row] or self._next()
        self._learner.update()
        return self.current()

    def _drawn(self, row: int) -> str:
        answer = self._store.answers.get(row)
        return answer.drawn if answer else RANDOM if row in self._to_draw else CHOSEN

    def _is_open(self, row: int) -> bool:
        return row not in self._store.answers and row not in self._skipped

    def _next(self) -> list[int]:
        """The next text: one at random, or one that the model has chosen; empty where none is left."""
        if self._review is not None:
            return list(islice(self._review_rows, 1))
        drawn = Counter(answer.drawn for answer in self._store.answers.values())
        is_random_due = RANDOM_EVERY * (drawn[RANDOM] + 1) <= drawn[RANDOM] + drawn[CHOSEN] + 1
        chosen = None if is_random_due else self._learner.take()
        if chosen is not None:
            return [chosen]
        in_random_order = chain(filter(self._to_draw.__contains__, self._order), self._order)
        return list(islice(filter(self._is_open, in_random_order), 1))


def are_typed(classes: Sequence[str]) -> bool:
    """Whether there are more classes than keys, so that their names are typed."""
    return len(classes) > len(DIGITS)


def begins(classes: Sequence[str], key: str) -> bool:
    """Whether a key begins the name of a class where names are typed: it then does nothing else."""
    return are_typed(classes) and any(name.casefold().startswith(key) for name in classes)


def class_keys(classes: Sequence[str]) -> dict[str, str]:
    """The classes by the keys that give them; a digit that is a class is its own key."""
    keys = {} if are_typed(classes) else {name: name for name in classes if name in DIGITS}
    free = [key for key in DIGITS if key not in keys and not begins(classes, key)]
    return keys | dict(zip(free, (name for name in classes[: len(DIGITS)] if name not in keys), strict=False))


def key_meanings(classes: Sequence[str], several: bool) -> list[tuple[str, str]]:
    """Keys and what they mean, in words."""
    a_types = begins(classes, "a")
    enter = "keep the labels that are chosen or there; without any, accept the suggestion"
    meanings = {
        " ".join(class_keys(classes)): "choose the class beside the key, or let it go" if several else "give the class beside the key",
        "letters": are_typed(classes) and "type part of a class's name: Enter takes the first class that fits, Esc shows all",
        "Enter": enter + (" (a types here, since a class begins with it)" if a_types else ""),
        "a": not a_types and ("choose the suggested classes" if several else "accept the suggestion"),
        "n": several and not begins(classes, "n") and "none of the classes",
        "Space": "skip the text; the next start shows it again",
        "Backspace": "undo the last answer or skip",
        "← →": "go back and forth through the answers",
        "?": "show the keys",
    }
    return [(keys, meaning) for keys, meaning in meanings.items() if keys and meaning]
