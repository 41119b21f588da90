"""Scoring in several threads: the same numbers, counted as they come, and an end that does not wait for the rest."""

import threading
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from mha_cli.checkpoint.linear_alone import LinearAlone, distances
from mha_cli.corpus.encoded_texts import EncodedTexts
from mha_cli.errors import MhaError
from mha_cli.runtime import probabilities
from mha_cli.runtime.classifier import Classifier
from mha_cli.runtime.engine import Engine, EngineName
from mha_cli.runtime.forward import linear_part, probabilities_of
from mha_cli.runtime.probabilities import Scorer, in_threads
from tests.checkpoints import as_read, small_checkpoint
from tests.reviews import encoded

LENGTHS = [7, 0, 3, 11, 1, 13, 5, 2]


def some_reviews(vocabulary_size: int) -> EncodedTexts:
    rng = np.random.default_rng(5)
    return encoded([rng.integers(1, vocabulary_size, length) for length in LENGTHS], [0] * len(LENGTHS))


@pytest.mark.parametrize("engine", ["numpy", pytest.param("openvino", marks=pytest.mark.extras)])
def test_threads_change_nothing(engine: EngineName, monkeypatch: pytest.MonkeyPatch) -> None:
    if engine == "openvino":
        pytest.importorskip("openvino")
    monkeypatch.setattr(probabilities, "BATCH_TOKENS", 1)  # one batch per review
    checkpoint = small_checkpoint()
    reviews, done = some_reviews(len(checkpoint.vocabulary)), []
    expected = Classifier(checkpoint).probabilities(as_read(reviews.tokens[start:stop] for start, stop in pairwise(reviews.offsets)))
    found = Scorer(checkpoint, Engine(checkpoint, engine, threads=3), threads=3)(reviews, done.append)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)
    assert done == [1, 2, 3, 4, 5, 6, 7, 8]


@pytest.mark.parametrize("names", [("a", "b"), ("a", "b", "c")])
def test_the_encoder_reads_the_texts_of_which_the_linear_model_is_not_sure(names: tuple[str, ...]) -> None:
    model = small_checkpoint(names, linear={"buckets": 16})
    reviews = some_reviews(len(model.vocabulary))
    linear = np.concatenate([linear_part(review[None], model.weights, model.config) for review in as_arrays(reviews)])
    for margin, num_encoded in ((0.0, 1), (float(np.median(distances(linear))), 4), (1e9, 8)):  # 1: a text without words
        rule = LinearAlone(margin, 1.5, (0.0,) * linear.shape[1])
        score, done = Scorer(probabilities.replace(model, linear_alone=rule)), list[int]()
        found, together, is_sure = score(reviews, done.append), Scorer(model)(reviews), rule.is_sure(linear)
        np.testing.assert_allclose(found[~is_sure], together[~is_sure], atol=1e-6)
        alone = probabilities_of(rule.logits(linear), model.weights, model.config)
        np.testing.assert_allclose(found[is_sure], alone[is_sure], atol=1e-6)
        assert (score.num_encoded, done[-1]) == (num_encoded, 8) == ((~is_sure).sum(), len(LENGTHS))


def as_arrays(reviews: EncodedTexts) -> list[Any]:
    return [np.append(reviews.tokens[start:stop], 0)[: max(1, stop - start)] for start, stop in pairwise(reviews.offsets)]


def test_no_more_threads_than_memory_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint = small_checkpoint()
    reviews, asked = some_reviews(len(checkpoint.vocabulary)), []

    def recorded(function: Any, items: Any, threads: int) -> Any:
        asked.append(threads)
        return map(function, items)

    monkeypatch.setattr(probabilities, "in_threads", recorded)
    memory_estimate = probabilities.replace(checkpoint.memory_estimate, in_blocks=True)
    for times in (1, 2, 5):
        monkeypatch.setattr(probabilities, "MOST_BYTES", times * memory_estimate.num_bytes(len(LENGTHS), max(LENGTHS)))
        Scorer(checkpoint, threads=3)(reviews)
    assert asked == [1, 2, 3]


def test_an_error_in_a_thread_names_the_checkpoint() -> None:
    checkpoint = small_checkpoint()
    large = probabilities.replace(
        checkpoint, name="large.keras", weights={path: weight * 1e30 for path, weight in checkpoint.weights.items()}
    )
    with pytest.raises(MhaError, match=r"^large\.keras: the model's weights are so large"):
        Scorer(large, threads=2)(some_reviews(len(checkpoint.vocabulary)))


def test_what_is_not_begun_is_left() -> None:
    begun, let_go = [], threading.Event()

    def compute(item: int) -> int:
        begun.append(item)
        if item:
            let_go.wait(60)
        return item

    results = in_threads(compute, range(1000), 2)
    assert next(results) == 0
    threading.Timer(0.1, let_go.set).start()
    results.close()
    assert len(begun) < 10
