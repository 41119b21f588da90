"""Token ids on disk: what is put in comes out, and memory holds none of it."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from mha_cli.config.settings import TextConfig
from mha_cli.corpus.corpus import Corpus
from mha_cli.corpus.token_store import TokenStore
from mha_cli.errors import EXIT_FAILURE, MhaError
from mha_cli.sources.labelled_text import LabelledText
from tests.errors import error_of
from tests.limits import files_of_at_most, traced_peak


@pytest.mark.parametrize("shape", [(), (7,)])  # of a token: its id, or its id and characters
def test_spans_are_those_of_an_array(shape: tuple[int, ...]) -> None:
    parts = [np.random.default_rng(length).integers(-(2**31), 2**31, (length, *shape)) for length in (3, 0, 7, 20_011, 1)]
    everything = np.concatenate(parts).astype(np.int32)
    store = TokenStore()
    for part in parts:
        store.append(part if shape else part.tolist())
    assert len(store) == len(everything)
    for start, stop in ((0, 3), (2, 9), (None, None), (20_000, None), (-5, -1), (5, 5), (9, 2), (30_000, 40_000)):
        found = store[start:stop]
        assert found.dtype == np.int32
        np.testing.assert_array_equal(found, everything[start:stop])


def test_what_is_appended_after_reading_is_there_too() -> None:
    store = TokenStore([np.array([5, 6, 7])])
    assert store[1:].tolist() == [6, 7]
    store.append(np.arange(100, dtype=np.int64)[::10])
    assert store[:].tolist() == [5, 6, 7, *range(0, 100, 10)]
    assert store[1:2].tolist() == [6]


def test_no_file_is_left_where_others_could_see_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    store, read = TokenStore([np.arange(50_000)]), os.pread
    assert (store[49_999:].tolist(), list(tmp_path.iterdir())) == ([49_999], [])
    monkeypatch.setattr(os, "pread", lambda descriptor, size, at: read(descriptor, min(size, 100), at))
    assert store[7:503].tolist() == [*range(7, 503)]  # though the system gives it in pieces


@pytest.mark.parametrize("found_when", ["appending", "reading"])
def test_a_folder_without_room(found_when: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    store = TokenStore()
    with files_of_at_most(1024):
        if found_when == "reading":
            store.append(range(500))  # less than the file object holds back
        said = error_of(lambda: store[:1] if found_when == "reading" else store.append(range(100_000)), exit_code=EXIT_FAILURE)
    hint = "make room, or set TMPDIR to another folder"
    assert said == f"{tmp_path}: File too large; it takes the texts as numbers, twice or three times, and the n-grams of many texts: {hint}"
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    with pytest.raises(MhaError, match="gone: No such file or directory; "):
        TokenStore()


def peak_bytes(num_texts: int) -> int:
    """Most memory that Python and NumPy held at once while so many reviews of 200 words were read, split and encoded."""

    def reviews() -> Iterator[LabelledText]:
        rng = np.random.default_rng(0)
        for number in range(num_texts):
            yield LabelledText(" ".join(map(str, rng.integers(0, 100, 200).tolist())), "ab"[number % 2])

    def read() -> None:
        corpus = Corpus(reviews(), TextConfig(), None, "films.csv")
        train, validation = corpus.split(0.2, seed=0)
        vocabulary = corpus.vocabulary(train, 30_000)
        encoded = [corpus.encode(rows, vocabulary, TextConfig()) for rows in (train, validation)]
        assert sum(len(part.tokens) for part in encoded) == 200 * num_texts

    return traced_peak(read)


def test_memory_holds_a_few_numbers_a_review_and_no_text() -> None:
    import sklearn.model_selection  # noqa: F401 - what a split imports late: it takes seconds where memory is traced

    peak_bytes(50)  # whatever else is imported late
    grown = (peak_bytes(350) - peak_bytes(50)) / 300
    assert grown < 150  # bytes per text, whose 200 token ids take 800
