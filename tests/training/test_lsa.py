"""Embedding tables that start from latent semantic analysis."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pytest

from mha_cli.checkpoint.file import read_checkpoint
from mha_cli.config.loading import config_from_dict
from mha_cli.data.corpus import EncodedReviews
from mha_cli.text.ngrams import ngram_buckets
from mha_cli.training.lsa import start_from_lsa
from tests.training.interruptions import assert_same_run, interrupt, train

if TYPE_CHECKING:
    from pathlib import Path

    from mha_cli.config.settings import Config

WORDS, BUCKETS, WIDTH = 30, 64, 4


def random_texts(number: int, seed: int = 0) -> EncodedReviews:
    """Texts in two manners of speaking, which the first and the last words tell apart."""
    rng = np.random.default_rng(seed)
    texts = [rng.integers(2, 18, 12) + 12 * (row % 2) for row in range(number)]
    offsets = np.cumsum([0, *map(len, texts)])
    return EncodedReviews(np.concatenate(texts).astype(np.int32), offsets, np.zeros(number, np.int32), 0)


def random_tables() -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    rng = np.random.default_rng(1)
    return tuple(rng.uniform(-0.05, 0.05, (rows, WIDTH)).astype(np.float32) for rows in (WORDS, BUCKETS))  # type: ignore[return-value]


def test_rows_are_the_singular_vectors_of_tfidf() -> None:
    texts, number = random_texts(15), 15  # so few that the method leaves nothing out
    words, ngrams = random_tables()
    before = np.concatenate([words, ngrams])
    start_from_lsa(words, ngrams, texts, 2, 0)
    found = np.concatenate([words, ngrams])

    has = np.zeros((number, WORDS + BUCKETS))  # the same with loops and a dense decomposition
    for row in range(number):
        ids = texts.tokens[texts.offsets[row] : texts.offsets[row + 1]]
        for position, token in enumerate(ids):
            has[row, token] = 1
            if position:
                has[row, WORDS + ngram_buckets(ids[None, position - 1 : position + 1], 2, BUCKETS)[0, 1]] = 1
    common = (has.sum(axis=0) >= 5) & (has.sum(axis=0) <= number / 2)
    assert 10 < common.sum() < len(common)
    tfidf = has[:, common] * np.log(number / has[:, common].sum(axis=0))
    tfidf /= np.linalg.norm(tfidf, axis=1, keepdims=True)
    _, singular, vectors = np.linalg.svd(tfidf)
    expected = (vectors[1 : WIDTH + 1] * np.sqrt(singular[1 : WIDTH + 1, None])).T
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    length = np.sqrt(np.square(before[:WORDS]).sum(axis=1).mean())
    np.testing.assert_allclose(np.abs(found[common]), length * np.abs(expected), atol=0.01 * length)  # a vector's sign is free
    np.testing.assert_array_equal(found[~common], before[~common])


@pytest.mark.parametrize("number", [0, 1, 3, 12])
def test_few_texts_leave_what_they_do_not_say_at_random(number: int) -> None:
    texts = random_texts(number) if number else EncodedReviews(np.zeros(0, np.int32), np.zeros(1, np.int64), np.zeros(0, np.int32), 0)
    (words, ngrams), (words_before, _) = random_tables(), random_tables()
    start_from_lsa(words, ngrams, texts, 3, 0)
    assert np.isfinite(words).all()
    assert np.isfinite(ngrams).all()
    assert (words[:2] == words_before[:2]).all()  # padding and unknown words
    assert (number == 12) == (words != words_before).any()


def lsa_config(folder: Path, start_from_lsa: bool = True, **model: Any) -> Config:
    rng = np.random.default_rng(0)
    rows = [f"{' '.join(rng.choice(list('abcdefghijkl'), 5))} says{number % 2},{number % 2}" for number in range(80)]
    (folder / "train.csv").write_text("\n".join(["text,label", *rows]))
    model = {"embed_dim": 8, "num_heads": 2, "feed_forward_dim": 8} | model
    return config_from_dict(
        {
            "data": {"source": "files", "train": str(folder / "train.csv")},
            "text": {"vocabulary_size": 50, "sequence_length": 9},
            "model": model,
            "training": {"epochs": 2, "batch_size": 16, "start_from_lsa": start_from_lsa},
        },
        "test",
    )


@pytest.mark.parametrize("model", [{}, {"max_ngram": 2, "ngram_buckets": 64}])
def test_a_run_starts_from_it_and_goes_on_as_if_uninterrupted(tmp_path: Path, model: dict[str, int]) -> None:
    config = lsa_config(tmp_path, **model)
    train(config, tmp_path / "whole")
    train(lsa_config(tmp_path, start_from_lsa=False, **model), tmp_path / "random")
    interrupt(config, tmp_path / "interrupted", 6)
    train(config, tmp_path / "interrupted", resume=True)
    assert_same_run(tmp_path / "whole", tmp_path / "interrupted")
    table = "embedding/token_embeddings"
    one, other = (read_checkpoint(tmp_path / name / "checkpoint.keras").weights[table] for name in ("whole", "random"))
    assert not np.allclose(one, other, atol=0.02)
