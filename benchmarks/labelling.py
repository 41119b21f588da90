"""What `mha label` saves, whether its interval is right, and how fast it is; prints only.

    python benchmarks/labelling.py FOLDER trec6 ag banking77         # NAME_train.csv to label, NAME_test.csv to score
    python benchmarks/labelling.py FOLDER trec6 --draws 1 --http     # the same, answered over HTTP
    python benchmarks/labelling.py FOLDER trec6 --sessions 100       # how many intervals cover the accuracy on the test file
    python benchmarks/labelling.py FOLDER trec6 ag --speed           # 100,000 texts, made of these sets

An annotator in this process answers as the training file has it. The accuracy is that of the same model with as many labels, of chosen
texts or of texts drawn at random.
"""

import argparse
import json
import tempfile
import time
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from http.client import HTTPConnection
from pathlib import Path
from threading import Thread
from typing import Any

import harness  # noqa: F401 (first: it settles whose mha_cli is imported)
import numpy as np
from file_peers import read_csv

from mha_cli.labelling.first_texts import word_features
from mha_cli.labelling.learner import Learner
from mha_cli.labelling.model import Assessment, fit_model
from mha_cli.labelling.session import Session
from mha_cli.labelling.store import LabelStore
from mha_cli.preparation.class_texts import WORTH
from mha_cli.records.record import Record
from mha_cli.runtime.encoder_features import EncoderFeatures
from mha_cli.sources.class_words import read_class_words

SIZES = (50, 100, 200)
TOGETHER = 8  # answers between two looks at what the model has learnt: as many as lie ready
NUM_TEXTS, PAUSE = 100_000, 0.3  # of the measure of speed: texts, and seconds between two answers

judge = Learner._judge


class LabelledSet:
    """Texts to label and texts to score, with their features."""

    def __init__(self, folder: Path, name: str, pretrained: Path | None) -> None:
        (texts, labels), (self.test_texts, truth) = (read_csv(folder / f"{name}_{part}.csv") for part in ("train", "test"))
        self.labels = {" ".join(text.split()): label for text, label in zip(texts, labels, strict=True)}
        self.texts, self.classes = list(self.labels), sorted({*labels})
        ids = {name: number for number, name in enumerate(self.classes)}
        self.class_ids = np.array([ids[label] for label in self.labels.values()], np.int32)
        self.truth = np.array([ids.get(label, -1) for label in truth])
        self.words: dict[str, Any] = {}
        self.encoder: Callable[[Sequence[str]], Any] | None = None
        everything = [*self.texts, *self.test_texts]
        if pretrained is None:
            self.features = word_features(everything)
            self.lines, self.line_ids = self.features[:0], np.zeros(0, np.int32)
        else:
            words = read_class_words(Path(__file__).parent / "classes" / f"{name}.yaml")
            self.words = {name: [lines] if isinstance(lines, str) else lines for name, lines in words.items()}
            encode, lines = EncoderFeatures(pretrained), [(name, line) for name, lines in self.words.items() for line in lines]
            everything += [line for _, line in lines]
            self.features = encode(everything)
            rows = dict(zip(everything, self.features, strict=True))
            self.encoder = lambda texts: np.stack([rows[text] for text in texts])
            self.lines, self.line_ids = self.features[len(everything) - len(lines) :], np.array([ids[name] for name, _ in lines], np.int32)

    def accuracy(self, rows: Sequence[int]) -> float:
        """Accuracy on the test file of a model of these texts, in [0, 1]."""
        stacked: Any = self.features[rows]
        labels, weights = np.concatenate([self.class_ids[rows], self.line_ids]), np.ones(len(rows) + len(self.line_ids), np.float32)
        if self.encoder:
            stacked = np.concatenate([stacked, self.lines])
            weights[len(rows) :] = WORTH / np.bincount(self.line_ids)[self.line_ids]
        model = fit_model(stacked, labels, len(self.classes), weights)
        tests = self.features[len(self.texts) : len(self.texts) + len(self.truth)]
        return float((model.probabilities(tests).argmax(axis=1) == self.truth).mean()) if model else 0.0

    def session(self, path: Path, seed: int) -> Session:
        """A labelling from its beginning."""
        store = LabelStore(path, (Record(text, b"", ({"text": text},)) for text in self.texts), "text")
        return Session(store, self.classes, self.words, self.encoder, seed=seed)


def answers_over_http(session: Session, labels: Mapping[str, str]) -> Generator[float]:
    """Answer as the page of `mha label` does, with the labels of these texts; the seconds of each answer."""
    from mha_cli.serve.label_page import Access, label_application
    from mha_cli.serve.server import Guarded, Limits, listening_socket, server

    access, limits = Access(), Limits()
    with listening_socket("127.0.0.1", 0) as listener:

        def ask(path: str, **body: Any) -> dict[str, Any]:
            connection = HTTPConnection(*listener.getsockname())
            headers = {"Authorization": f"Bearer {access.secret}", "Content-Type": "application/json"}
            connection.request("POST", path, json.dumps(body), headers)
            return dict(json.load(connection.getresponse())["shown"])

        running = server(Guarded(label_application(session, access), limits), limits)
        thread = Thread(target=running.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            shown = ask("/enter")
            while not shown["done"]:
                begun = time.perf_counter()
                shown = ask("/answer", row=shown["row"], labels=[labels[" ".join(shown["text"].split())]])
                yield time.perf_counter() - begun
        finally:
            running.should_exit = True
            thread.join()


def labelled(given: LabelledSet, seed: int, over_http: bool = False) -> Iterator[tuple[list[int], Assessment]]:
    """The labelled texts at each of ``SIZES``, and what the session says of the accuracy."""
    Learner._judge = lambda *_: None  # type: ignore[method-assign] (it would follow every answer, which nobody reads)
    with tempfile.TemporaryDirectory() as folder:
        session = given.session(Path(folder) / "labels.csv", seed)
        session.wait()
        answers, seconds = answers_over_http(session, given.labels) if over_http else None, list[float]()
        for size in range(1, max(SIZES) + 1):
            if answers:
                seconds.append(next(answers))
            else:
                shown = session.current()
                session.answer(shown.row, [given.labels[shown.text]])
            if size % TOGETHER == 0:
                session.wait(judged=False)
            if size in SIZES:
                judge(session._learner)
                yield [*session._store.answers], session.progress().assessment
        if answers:
            answers.close()
            print(
                f"next text over HTTP: {np.median(seconds) * 1000:.0f} ms at the median, {max(seconds) * 1000:.0f} ms at most", flush=True
            )
        session.close()


def compare(given: LabelledSet, name: str, draws: int, over_http: bool) -> None:
    """Print the accuracy with labels of chosen texts, and of random ones."""
    chosen = np.array([[given.accuracy(rows) for rows, _ in labelled(given, draw, over_http)] for draw in range(draws)])
    orders = [np.random.default_rng(draw).permutation(len(given.texts)) for draw in range(draws)]
    drawn = np.array([[given.accuracy(order[:size]) for size in SIZES] for order in orders])
    for system, found in {"label": chosen, "random": drawn}.items():
        pairs = zip(SIZES, found.mean(axis=0), found.std(axis=0, ddof=1), strict=True)
        print(f"{name}, {system}, {', '.join(f'{size}: {mean:.1%} ± {spread:.1%}' for size, mean, spread in pairs)}", flush=True)


def cover(given: LabelledSet, name: str, sessions: int) -> None:
    """Print how many intervals and predictions cover the accuracy on the test file."""
    found = list[list[tuple[float, Assessment]]]()
    for seed in range(sessions):
        found.append([(given.accuracy(rows), assessment) for rows, assessment in labelled(given, seed)])
    for at, size in enumerate(SIZES):
        pairs = [(of_session[at][0], of_session[at][1].accuracy) for of_session in found]
        known = [(truth, estimate) for truth, estimate in pairs if estimate]
        inside = sum(estimate.low <= truth <= estimate.high for truth, estimate in known)
        bias = np.mean([estimate.accuracy - truth for truth, estimate in known]) if known else np.nan
        width = np.mean([estimate.high - estimate.low for _, estimate in known]) if known else np.nan
        print(f"{name}, {size} labels: {inside} of {len(known)} intervals cover it, width {width:.1%}, bias {bias:+.1%}", flush=True)
    last = [(of_session[2][0], of_session[1][0], of_session[1][1].next_hundred) for of_session in found]
    told = [(truth, now, estimate) for truth, now, estimate in last if estimate]
    inside = sum(estimate.low <= truth <= estimate.high for truth, _, estimate in told)
    print(f"{name}, predicted at 100 labels for 200: {len(told)} of {sessions} told, {inside} cover it", flush=True)


def speed(sets: Sequence[LabelledSet]) -> None:
    """Print the seconds until a text is shown and until the first ones are chosen, and the milliseconds to the next text."""
    rng, texts = np.random.default_rng(0), [text.split() for given in sets for text in given.texts]
    pairs = [(texts[first], texts[second]) for first, second in rng.integers(len(texts), size=(NUM_TEXTS, 2))]
    joined = [" ".join(first[: len(first) // 2 + 1] + second[len(second) // 2 :]) for first, second in pairs]
    with tempfile.TemporaryDirectory() as folder:
        begun = time.perf_counter()
        store = LabelStore(Path(folder) / "labels.csv", (Record(text, b"", ({"text": text},)) for text in joined), "text")
        session = Session(store, sets[0].classes, {})
        shown = time.perf_counter() - begun
        session.wait()
        ready = time.perf_counter() - begun
        print(f"{len(store.texts):,} texts: the first shows after {shown:.1f} s, the first are chosen after {ready:.1f} s", flush=True)
        seconds = list[float]()
        for number in range(200):
            row = session.current().row
            begun = time.perf_counter()
            session.answer(row, [sets[0].classes[number % len(sets[0].classes)]])
            session.progress()
            answered = time.perf_counter()
            store.write(row, store.answers[row])  # the same once more, which takes what the disk takes
            seconds.append((answered - begun, time.perf_counter() - answered))
            time.sleep(PAUSE)
        session.close()
    for name, found in zip(("answer and next text", "the file alone"), np.transpose(seconds), strict=True):
        median, usual, most = np.quantile(found, [0.5, 0.95, 1.0]) * 1000
        print(f"{name}: {median:.0f} ms at the median, 95 % within {usual:.0f} ms, {most:.0f} ms at most", flush=True)


def main() -> None:
    """Measure the sets that the arguments name."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("sets", nargs="+", metavar="NAME")
    parser.add_argument("--draws", type=int, default=5, help="sessions that are compared with random texts (5)")
    parser.add_argument("--sessions", type=int, default=0, help="sessions whose intervals are counted instead")
    parser.add_argument("--http", action="store_true", help="answer over HTTP, as the page does")
    parser.add_argument("--speed", action="store_true", help="measure the time to the next text instead")
    parser.add_argument("--pretrained", type=Path, help="folder of an encoder; the words are those of benchmarks/classes")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore", module="sklearn")  # few labels of many classes are usual here
    sets = {name: LabelledSet(arguments.folder, name, arguments.pretrained) for name in arguments.sets}
    if arguments.speed:
        speed([*sets.values()])
        return
    for name, given in sets.items():
        if arguments.sessions:
            cover(given, name, arguments.sessions)
        else:
            compare(given, name, arguments.draws, arguments.http)


if __name__ == "__main__":
    main()
