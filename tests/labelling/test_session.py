"""Which text waits, and what an answer, a skip and a way back do."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest

from mha_cli.errors import MhaError
from mha_cli.labelling.learner import FIRST, FIRST_TOGETHER, MOST_TOGETHER
from mha_cli.labelling.session import RANDOM_EVERY, Session
from mha_cli.labelling.store import RANDOM, LabelStore
from mha_cli.records.record import Record

CLASSES = ("low", "high")
SIZES = (("small", "tiny", "little"), ("large", "huge", "big"))
THINGS = ("lamp", "boat", "film", "tree", "chair", "road", "stone", "cloud", "river", "coat", "spoon")
NUMBERS = [f"{SIZES[n % 2 == 0][n % 3]} {THINGS[n % 11]} {THINGS[n % 7]} {n}" for n in range(300)]


def truth(text: str) -> str:
    return CLASSES[int(text.split()[-1]) % 2 == 0]


@contextmanager
def opened(folder: Path, texts: Sequence[str] = NUMBERS, label: str | None = None, **more: Any) -> Iterator[Session]:
    columns: list[Mapping[str, object]] = [{"text": text} | ({"label": label} if label else {}) for text in texts]
    several = more.pop("several", False)
    store = LabelStore(folder / "labels.csv", [Record(str(row["text"]), b"", (row,)) for row in columns], "text", several=several)
    session = Session(store, more.pop("classes", CLASSES), more.pop("words", {}), **more)
    try:
        yield session
    finally:
        session.close()


def written(folder: Path) -> list[str]:
    return (folder / "labels.csv").read_text().splitlines()[1:]


def test_the_way_there_and_back(tmp_path: Path) -> None:
    with opened(tmp_path) as session:
        first = session.current()
        assert (first.labels, first.done, session.undo().row) == (None, False, first.row)
        second = session.answer(first.row, ["low"])
        assert (len(written(tmp_path)), second.row != first.row) == (1, True)
        assert session.answer(first.row, ["low"]).row == second.row  # a key that was pressed twice
        third = session.answer(second.row, ["high"])
        assert (session.step(-1).row, session.step(-1).row, session.step(-1).row) == (second.row, first.row, first.row)
        assert (session.current().labels, session.answer(first.row, ["high"]).row) == (("low",), second.row)
        assert (session.skip(second.row).row, session.progress().counts) == (third.row, {"low": 0, "high": 2})
        assert (session.undo().row, session.current().labels) == (first.row, ("low",))  # of the change
        assert (session.undo().row, session.current().labels) == (second.row, None)
        assert session.answer(second.row, ["low"]).row == third.row  # which waits since
        after = session.skip(third.row)
        assert after.row not in (first.row, second.row, third.row)
        assert (session.skip(third.row).row, session.undo().row) == (after.row, third.row)
        assert [line.split(",")[1] for line in written(tmp_path)] == ["low", "low"]


def test_it_goes_on_after_a_restart(tmp_path: Path) -> None:
    answered = []
    for _ in range(3):
        with opened(tmp_path) as session:
            for _ in range(4):
                answered.append(session.current().text)
                session.answer(session.current().row, ["low"])
    assert len({*answered}) == len(written(tmp_path)) == 12
    with opened(tmp_path) as session:
        assert (session.progress().num_labelled, session.step(-1).text, session.undo().text) == (12, answered[-1], answered[-1])
    assert len(written(tmp_path)) == 11


def test_all_texts_are_asked_about_and_then_none_is_left(tmp_path: Path) -> None:
    with opened(tmp_path, NUMBERS[:7]) as session:
        for _ in range(6):
            session.answer(session.current().row, ["low"])
        last = session.current()
        assert (session.skip(last.row).done, session.current().row) == (True, -1)
        for row in (-1, 7):
            with pytest.raises(MhaError, match=f"no text has the number {row}; label the one that is shown"):
                session.answer(row, ["low"])
        assert session.undo().row == last.row
        assert session.answer(last.row, ["high"]).done
    assert len(written(tmp_path)) == 7


def test_every_fourth_text_is_drawn_at_random_and_the_model_learns(tmp_path: Path) -> None:
    with opened(tmp_path) as session:
        session.wait()
        session.skip(session.current().row)  # it showed before any could be chosen
        randoms = list[bool]()
        for number in range(44):
            shown = session.current()
            randoms.append(shown.is_random)
            session.answer(shown.row, [truth(shown.text)])
            if number % 8 == 7:
                session.wait(judged=False)
        assert randoms == [number % RANDOM_EVERY == RANDOM_EVERY - 1 for number in range(44)]
        session.wait()
        shown = session.current()
        assert shown.suggestion is not None
        assert (shown.suggestion[0][0], shown.suggestion[0][1] > 0.5) == (truth(shown.text), True)
        progress = session.progress()
        assert (progress.num_labelled, progress.num_random, progress.few, progress.assessment.num_labels) == (44, 11, (), 44)
        assert progress.assessment.accuracy is not None
        assert progress.assessment.accuracy.accuracy > 0.8
    assert sum(line.endswith(f",{RANDOM}") for line in written(tmp_path)) == 11


def test_a_random_text_has_no_suggestion_before_it_is_answered(tmp_path: Path) -> None:
    with opened(tmp_path) as session:
        for _ in range(2 * RANDOM_EVERY):
            session.wait(judged=False)
            shown = session.current()
            session.answer(shown.row, [truth(shown.text)])
        session.wait(judged=False)
        while not (shown := session.current()).is_random:
            assert shown.suggestion is not None
            session.answer(shown.row, [truth(shown.text)])
        assert shown.suggestion is None
        session.answer(shown.row, [truth(shown.text)])
        again = session.step(-1)
        assert (again.row, again.suggestion is not None) == (shown.row, True)
        assert session.undo().suggestion is None


def test_random_texts_are_a_fair_sample_that_the_model_never_chooses(tmp_path: Path) -> None:
    """All random texts, of all four quarters of the file alike, whatever was chosen before."""
    with opened(tmp_path) as session:
        randoms = [row for row in session._order if row in session._to_draw]
        assert 50 < len(randoms) < 100
        assert min(np.bincount(np.array(randoms) // 75)) > 5
        drawn = list[int]()
        session.wait(judged=False)
        for _ in range(60):
            shown = session.current()
            if shown.is_random:
                drawn.append(shown.row)
            session.answer(shown.row, [truth(shown.text)])
        assert len(drawn) > 10
        assert drawn == randoms[: len(drawn)]


def test_words_are_the_first_model_of_an_encoder(tmp_path: Path) -> None:
    def encoder(texts: Sequence[str]) -> Any:
        big = np.array([any(word in text for word in ("large", "huge", "big")) for text in texts])
        return np.where(big[:, None], [[0.6, 0.8]], [[0.8, -0.6]]).astype(np.float32)

    with opened(tmp_path, encoder=encoder, words={"low": ["a tiny one"], "high": ["big", "huge"]}) as session:
        session.wait()
        while (shown := session.current()).is_random:
            session.answer(shown.row, [truth(shown.text)])
        assert shown.suggestion is not None
        assert shown.suggestion[0][0] == truth(shown.text)


def test_labelling_begins_before_the_features_are_there(tmp_path: Path) -> None:
    go_on, chunks, rng = Event(), list[int](), np.random.default_rng(0)

    def encoder(texts: Sequence[str]) -> Any:
        go_on.wait()
        chunks.append(len(texts))
        features = rng.normal(size=(len(texts), 37)).astype(np.float32)
        return features / np.linalg.norm(features, axis=1, keepdims=True)

    texts = [f"text {number}" for number in range(3 * MOST_TOGETHER)]
    with opened(tmp_path, texts, encoder=encoder) as session:
        for _ in range(5):
            shown = session.current()
            assert (shown.is_random, shown.suggestion) == (True, None)
            session.answer(shown.row, [truth(shown.text)])
        go_on.set()
        session.wait()
        assert (chunks[0], max(chunks), sum(chunks)) == (FIRST_TOGETHER, MOST_TOGETHER, 3 * MOST_TOGETHER)
        session.answer(session.current().row, ["low"])
        assert (session.current().is_random, len(session._learner._first)) == (False, FIRST)


def test_a_fault_of_the_encoder_stops_no_answer_and_is_told_at_the_end(tmp_path: Path) -> None:
    def encoder(texts: Sequence[str]) -> Any:
        raise MhaError("no such weights")

    with pytest.raises(MhaError, match="no such weights"), opened(tmp_path, encoder=encoder) as session:
        for _ in range(3):
            session.answer(session.current().row, ["low"])
    assert len(written(tmp_path)) == 3
    with opened(tmp_path) as session:
        assert session.progress().num_labelled == 3


def test_several_labels(tmp_path: Path) -> None:
    with opened(tmp_path, classes=("b", "a", "c"), several=True) as session:
        session.wait(judged=False)
        for _ in range(24):
            shown = session.current()
            session.answer(shown.row, ["a", "b"] if truth(shown.text) == "high" else [])
        session.wait(judged=False)
        suggested = {}
        while not (shown := session.current()).is_random or len(suggested) < 2:
            if shown.suggestion is not None:
                suggested[truth(shown.text)] = [label for label, _ in shown.suggestion]
            session.answer(shown.row, ["a", "b"] if truth(shown.text) == "high" else [])
        assert suggested == {"high": ["b", "a"], "low": []}
        assert session.progress().counts["c"] == 0
    assert {line.split(",")[1] for line in written(tmp_path)} == {"b|a", ""}


def test_a_review_shows_labels_again(tmp_path: Path) -> None:
    with opened(tmp_path, NUMBERS[:5], "low", review={3: (("high", 0.75),), 1: (("high", 0.5),)}) as session:
        shown = session.current()
        assert (shown.row, shown.labels, shown.suggestion) == (3, ("low",), (("high", 0.75),))
        assert session.answer(3, ["high"]).row == 1
        assert (session.undo().row, session.current().labels) == (3, ("low",))
        assert (session.skip(3).row, session.skip(1).done, session.undo().row) == (1, True, 1)
        assert (session.step(-1).row, session.current().labels) == (3, ("low",))
        assert (session.answer(3, ["low"]).row, session.answer(1, ["high"]).done) == (1, True)
        assert [line.split(",")[1:] for line in written(tmp_path)] == [[name, "given"] for name in ("low", "high", "low", "low", "low")]


def test_an_answer_that_is_no_class_is_refused(tmp_path: Path) -> None:
    with opened(tmp_path) as session:
        for labels, fault in (
            ([], "a text has one label"),
            (["low", "high"], "a text has one label"),
            (["\x1b"], r"\\x1b is no class of the texts"),
        ):
            with pytest.raises(MhaError, match=f"{fault}; choose from low, high"):
                session.answer(session.current().row, labels)
        assert not (tmp_path / "labels.csv").exists()
