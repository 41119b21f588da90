"""Embedding tables that start from what stands beside words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pytest

from mha_cli.config.loading import config_from_dict
from mha_cli.data.corpus import EncodedReviews
from mha_cli.data.preparation import prepare
from mha_cli.text.ngrams import ngram_buckets
from mha_cli.training import contexts
from mha_cli.training.contexts import start_from_contexts
from mha_cli.training.trainer import Trainer
from tests.training.interruptions import assert_same_run, interrupt, train

if TYPE_CHECKING:
    from pathlib import Path

    from mha_cli.config.settings import Config

WORDS, BUCKETS, WIDTH, MAX_NGRAM = 30, 64, 4, 3
TABLE = "embedding/token_embeddings"


def random_texts(number: int) -> EncodedReviews:
    """Texts in two manners of speaking, which the first and the last words tell apart."""
    rng = np.random.default_rng(0)
    texts = [np.zeros(0, np.int64), *(rng.integers(2, 18, 12) + 12 * (row % 2) for row in range(number))]
    return EncodedReviews(np.concatenate(texts).astype(np.int32), 12 * np.arange(number + 1), np.zeros(number, np.int32), 0)


def random_tables() -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    rng = np.random.default_rng(1)
    words, ngrams = (rng.uniform(-0.05, 0.05, (rows, WIDTH)).astype(np.float32) for rows in (WORDS, BUCKETS))
    return words, ngrams


def with_unknown_words(texts: EncodedReviews) -> EncodedReviews:
    tokens = np.array(texts.tokens)
    tokens[::7] = 1
    return EncodedReviews(tokens, texts.offsets, texts.labels, 0)


def counts_by_loops(texts: EncodedReviews) -> npt.NDArray[np.float64]:
    """How near each row has each known word, over all texts."""
    counts = np.zeros((WORDS + BUCKETS, WORDS))
    for number in range(len(texts)):
        ids = np.array(texts.tokens[texts.offsets[number] : texts.offsets[number + 1]])
        for n in range(1, MAX_NGRAM + 1):
            for first in range(len(ids) - n + 1):
                last = first + n - 1
                row = ids[first] if n == 1 else WORDS + ngram_buckets(ids[None, first : last + 1], n, BUCKETS)[0, -1]
                for other, context in enumerate(ids):
                    distance = first - other if other < first else other - last
                    if row > 1 and context > 1 and 1 <= distance <= 5:
                        counts[row, context] += (6 - distance) / 5
    return counts


def test_rows_are_the_singular_vectors_of_positive_mutual_information() -> None:
    texts = with_unknown_words(random_texts(15))
    words, ngrams = random_tables()
    before = np.concatenate([words, ngrams])
    start_from_contexts(words, ngrams, texts, MAX_NGRAM, 0)
    found = np.concatenate([words, ngrams])

    counts = counts_by_loops(texts)
    context = counts[:WORDS].sum(axis=0) ** 0.75
    with np.errstate(divide="ignore", invalid="ignore"):
        information = np.log(counts / counts.sum(axis=1, keepdims=True) / (context / context.sum()))
    information = np.where(counts > 0, np.maximum(information, 0.0), 0.0)
    _, singular, vectors = np.linalg.svd(information[:WORDS])
    expected = information @ vectors[:WIDTH].T / np.sqrt(singular[:WIDTH])
    has_row = np.linalg.norm(expected, axis=1) > 1e-6
    assert 40 < has_row.sum() < len(has_row)
    expected = expected[has_row] / np.sqrt(np.square(expected[has_row]).mean(axis=1, keepdims=True))
    unit = np.repeat([0.17, 0.03], [WORDS, BUCKETS])[has_row, None]
    signs = np.sign((expected * found[has_row]).sum(axis=0))  # a vector's sign is free
    np.testing.assert_allclose(found[has_row], unit * expected * signs, atol=2e-3)
    np.testing.assert_array_equal(found[~has_row], before[~has_row])


def test_a_word_that_stands_beside_unknown_ones_alone() -> None:
    texts = [np.maximum(random_texts(15).tokens[:], 3), *[np.array([1, 1, 2], np.int32)] * 40]
    offsets = np.concatenate([12 * np.arange(16), 180 + 3 * np.arange(1, 41)])
    words, ngrams = random_tables()
    with np.errstate(all="raise"):
        start_from_contexts(words, ngrams, EncodedReviews(np.concatenate(texts), offsets, np.zeros(55, np.int32), 0), MAX_NGRAM, 0)
    assert np.isfinite(words).all()
    assert np.isfinite(ngrams).all()


@pytest.mark.parametrize("number", [0, 1, 3])
def test_few_texts_leave_what_they_do_not_say_at_random(number: int) -> None:
    (words, ngrams), (words_before, ngrams_before) = random_tables(), random_tables()
    start_from_contexts(words, ngrams, random_texts(number), MAX_NGRAM, 0)
    assert np.isfinite(words).all()
    assert np.isfinite(ngrams).all()
    assert (words[:2] == words_before[:2]).all()  # padding and unknown words
    assert (number > 0) == (words != words_before).any()
    assert (ngrams == ngrams_before).any(axis=1).sum() > 0


def test_of_many_texts_some_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    tables = []
    for most in (600, 10_000):
        monkeypatch.setattr(contexts, "MOST_TOKENS", most)
        words, ngrams = random_tables()
        start_from_contexts(words, ngrams, random_texts(100), 1, 0)
        tables.append(words)
    assert not np.allclose(*tables, atol=1e-3)
    alike = [np.corrcoef((table @ table.T)[2:, 2:].ravel() > 0, np.eye(2).repeat(14, 0).repeat(14, 1).ravel())[0, 1] for table in tables]
    assert min(alike) > 0.2  # both tell the two manners of speaking apart


def small_config(folder: Path, start_from_contexts: bool = True, **model: Any) -> Config:
    rng = np.random.default_rng(0)
    rows = [f"{' '.join(rng.choice(list('abcdefghijkl'), 5))} says{number % 2},{number % 2}" for number in range(80)]
    (folder / "train.csv").write_text("\n".join(["text,label", *rows]))
    model = {"embed_dim": 8, "num_heads": 2, "feed_forward_dim": 8} | model
    return config_from_dict(
        {
            "data": {"source": "files", "train": str(folder / "train.csv")},
            "text": {"vocabulary_size": 50, "sequence_length": 9},
            "model": model,
            "training": {"epochs": 2, "batch_size": 16, "start_from_contexts": start_from_contexts},
        },
        "test",
    )


def word_embeddings(config: Config) -> npt.NDArray[np.float32]:
    return Trainer(config, prepare(config)).weights()[TABLE]


def test_a_trainer_of_words_alone_starts_from_them(tmp_path: Path) -> None:
    found, random = (word_embeddings(small_config(tmp_path, start_from_contexts=on)) for on in (True, False))
    assert not np.allclose(found, random, atol=0.02)


def test_texts_without_labels_count_too(tmp_path: Path) -> None:
    config = small_config(tmp_path)
    (tmp_path / "more.txt").write_text("a b c\nb a c\n" * 50)
    more = config.model_copy(update={"data": config.data.model_copy(update={"unlabelled": str(tmp_path / "more.txt")})})
    assert not np.allclose(word_embeddings(config), word_embeddings(more), atol=0.02)


@pytest.mark.exhaustive
def test_a_run_starts_from_them_and_goes_on_as_if_uninterrupted(tmp_path: Path) -> None:
    config = small_config(tmp_path, max_ngram=2, ngram_buckets=64)
    train(config, tmp_path / "whole")
    interrupt(config, tmp_path / "interrupted", 6)
    train(config, tmp_path / "interrupted", resume=True)
    assert_same_run(tmp_path / "whole", tmp_path / "interrupted")
