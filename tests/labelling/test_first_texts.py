"""Which texts are chosen to be labelled first."""

import os
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from mha_cli.labelling import first_texts as module
from mha_cli.labelling.first_texts import first_texts, typical_texts, word_features

SUBJECTS = ["lamp bulb light", "train rail station", "cake flour oven"]
SIZES = (40, 25, 15)
ODD = ["zebra quartz", "quartz vortex"]


def pool() -> list[str]:
    """Texts on three subjects of different sizes, in random order, with odd ones among them."""
    rng, texts = np.random.default_rng(3), [*ODD]
    for subject, size in zip(SUBJECTS, SIZES, strict=True):
        texts += [f"{' '.join(rng.choice(subject.split(), 4))} {row}" for row in range(size)]
    return [texts[row] for row in rng.permutation(len(texts))]


def subject_of(text: str) -> int:
    return next((at for at, words in enumerate(SUBJECTS) if set(words.split()) & set(text.split())), len(SUBJECTS))


def test_each_subject_comes_once_the_largest_first_and_odd_texts_last() -> None:
    texts = pool()
    sparse = word_features(texts)
    for features in (sparse, sparse.toarray()):
        rows = first_texts(features, 3)
        assert [subject_of(texts[row]) for row in rows] == [0, 1, 2]
        assert first_texts(features, 2) == rows[:2]


def test_known_texts_are_covered_and_not_chosen() -> None:
    texts = pool()
    known = [row for row, text in enumerate(texts) if subject_of(text) == 0][:10]
    rows = first_texts(word_features(texts), 2, known=known)
    assert [subject_of(texts[row]) for row in rows] == [1, 2]
    every = first_texts(word_features(texts), 500, known=known)
    assert not set(every) & {*known}


def test_repeated_texts_and_texts_without_words_are_not_chosen_twice() -> None:
    features = np.array([[1, 0], [0, 0], [0, 1], [1, 0], [0, 0], [0.6, 0.8]], np.float32)
    for given in (features, csr_matrix(features)):
        assert sorted(set(first_texts(given, 6)) - {0, 3}) == [2, 5]
        assert len(first_texts(given, 6)) == 3
        assert first_texts(given, 6, known=[2, 3]) == [5]
        assert first_texts(given, 6, known=range(6)) == []
    assert typical_texts(["a lamp", "a  lamp\n", " ", "", "a train", "the train"], 9, known=["the  train"]) in ([0, 4], [4, 0])
    assert typical_texts(["a lamp", " "], 9, known=["a lamp"]) == typical_texts([], 3) == []


def test_a_random_part_of_many_texts_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_COMPARED", 30)
    texts = pool()
    chosen = {seed: typical_texts(texts, 100, seed=seed) for seed in (0, 1, 0)}
    assert all(20 < len(rows) <= 30 for rows in chosen.values())
    assert set(chosen[0]) != set(chosen[1])
    assert chosen[0] == typical_texts(texts, 100)
    rows = first_texts(word_features(texts), 3, known=range(0, len(texts), 2))
    assert all(row % 2 for row in rows)


@pytest.mark.minilm
def test_an_encoder_knows_that_other_words_mean_the_same() -> None:
    texts = ["A dog barked.", "The puppy was growling.", "Stocks fell sharply.", "Shares lost value.", "My hound howls."]
    rows = typical_texts(texts, 2, pretrained=Path(os.environ["MHA_MINILM"]))
    assert sorted(row in (2, 3) for row in rows) == [False, True]


def test_words_that_two_texts_share_are_counted_in_every_script() -> None:
    """By the definition of scikit-learn: (1 + ln count) (1 + ln((1 + N) / (1 + texts with the word))), each row with norm 1."""
    features = word_features(["好好吃", "吃 Film", "film once"]).toarray()
    assert features.shape == (3, 2)  # 吃 and film; 好 is in one text alone, as is "once"
    assert sorted(map(sorted, features.tolist())) == [[0.0, 1.0], [0.0, 1.0], pytest.approx([0.5**0.5] * 2)]
    weighted = word_features(["a a b", "a c", "b", "c"]).toarray()[0]
    [b, a] = sorted(weighted[weighted > 0])
    assert a / b == pytest.approx(1 + np.log(2))
    assert np.hypot(a, b) == pytest.approx(1.0)


def test_texts_that_share_nothing_keep_all_words_and_texts_without_words_have_zeros() -> None:
    assert word_features(["a b", "c"]).getnnz(axis=1).tolist() == [2, 1]
    assert word_features(["", " "]).getnnz() == 0
