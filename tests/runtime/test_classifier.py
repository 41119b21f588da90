from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from mha_cli.checkpoint.file import Checkpoint
from mha_cli.config.loading import config_from_dict
from mha_cli.runtime import probabilities
from mha_cli.runtime.classifier import Classifier
from mha_cli.text.vocabulary import Vocabulary

if TYPE_CHECKING:
    from collections.abc import Callable

WORDS = ["the", "film", "was", "good", "bad", "not", "very", "."]
LONGEST = 7
TEXTS = [
    "The film was good.",
    "bad",
    "",
    "the film was not very good . the film was bad .",
    "not good not bad",
    "Good",
    "the unheard of film",
    "   ",
    "the film was very very",
]


@pytest.fixture
def make_classifier(random_weights: Callable[..., dict[str, np.ndarray]]) -> Callable[..., Classifier]:
    """A function from class names and text settings to a classifier with random weights."""

    def make(class_names: tuple[str, ...] = ("neg", "pos"), **text: Any) -> Classifier:
        settings = {
            "text": {"vocabulary_size": 31, "sequence_length": LONGEST, **text},
            "model": {"embed_dim": 6, "num_heads": 2, "feed_forward_dim": 11},
        }
        config, vocabulary = config_from_dict(settings, "test"), Vocabulary(WORDS)
        weights = random_weights(config, len(vocabulary), len(class_names))
        return Classifier(Checkpoint(config, class_names, vocabulary, {}, weights, "{}"))

    return make


@pytest.fixture
def batch_shapes(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """The shapes of the batches that are computed, as they come."""
    shapes: list[tuple[int, int]] = []
    compute = probabilities.class_probabilities

    def recorded(token_ids: np.ndarray, *rest: Any) -> np.ndarray:
        rows, length = token_ids.shape
        shapes.append((rows, length))
        return compute(token_ids, *rest)

    monkeypatch.setattr(probabilities, "class_probabilities", recorded)
    return shapes


@pytest.mark.parametrize("class_names", [("neg", "pos"), ("bad", "mixed", "good")])
def test_predictions_are_consistent(class_names: tuple[str, ...], make_classifier: Callable[..., Classifier]) -> None:
    predictions = make_classifier(class_names).predict(TEXTS)
    assert [prediction.text for prediction in predictions] == TEXTS
    for prediction in predictions:
        assert tuple(prediction.probabilities) == class_names
        assert sum(prediction.probabilities.values()) == pytest.approx(1.0, abs=1e-5)
        assert prediction.probability == max(prediction.probabilities.values()) == prediction.probabilities[prediction.label]
        assert type(prediction.probability) is float
    assert len({round(prediction.probabilities[class_names[0]], 6) for prediction in predictions}) == len(set(map(str.strip, TEXTS)))


@pytest.mark.parametrize("batch_tokens", [1, 5, 17, 8_192])
def test_order_is_kept_whatever_the_batches(
    batch_tokens: int,
    make_classifier: Callable[..., Classifier],
    batch_shapes: list[tuple[int, int]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = make_classifier()
    alone = [model.predict([text])[0] for text in TEXTS]
    batch_shapes.clear()
    monkeypatch.setattr(probabilities, "BATCH_TOKENS", batch_tokens)
    order = np.random.default_rng(0).permutation(len(TEXTS)).tolist()
    together = model.predict([TEXTS[row] for row in order])
    assert [prediction.text for prediction in together] == [TEXTS[row] for row in order]
    for prediction, row in zip(together, order, strict=True):
        assert prediction.probabilities == pytest.approx(alone[row].probabilities, abs=1e-5)
        assert prediction.label == alone[row].label
    assert sum(rows for rows, _ in batch_shapes) == len(TEXTS)
    assert all(rows == 1 or rows * length <= batch_tokens for rows, length in batch_shapes)
    assert [length for _, length in batch_shapes] == sorted(length for _, length in batch_shapes)
    assert (len(batch_shapes) == 1) == (batch_tokens == 8_192)


def test_nothing_gives_nothing(make_classifier: Callable[..., Classifier], batch_shapes: list[tuple[int, int]]) -> None:
    model = make_classifier()
    assert model.predict([]) == []
    assert batch_shapes == []


def test_an_empty_text_gets_the_prior_of_the_classifier(make_classifier: Callable[..., Classifier]) -> None:
    model = make_classifier()
    (prediction,) = model.predict([""])
    bias = float(model.checkpoint.weights["classifier/bias"][0])
    assert prediction.probabilities["pos"] == pytest.approx(1 / (1 + np.exp(-bias)), abs=1e-6)
    assert (prediction.num_tokens, prediction.num_read, prediction.num_unknown) == (0, 0, 0)
    assert (prediction.truncated, prediction.empty, prediction.all_unknown) == (False, True, False)


@pytest.mark.parametrize(
    ("text", "num_tokens", "num_unknown", "truncated"),
    [
        ("the film was good", 4, 0, False),
        ("the movie was superb", 4, 2, False),
        ("what a superb movie", 4, 4, False),
        ("the film was very very very good", LONGEST, 0, False),
        ("the film was very very very good .", LONGEST + 1, 0, True),
        ("odd the film was very very good unread words are not counted", 12, 1, True),
    ],
)
def test_counts_tokens(text: str, num_tokens: int, num_unknown: int, truncated: bool, make_classifier: Callable[..., Classifier]) -> None:
    (prediction,) = make_classifier().predict([text])
    assert (prediction.num_tokens, prediction.num_read) == (num_tokens, min(num_tokens, LONGEST))
    assert (prediction.num_unknown, prediction.truncated) == (num_unknown, truncated)
    assert (prediction.empty, prediction.all_unknown) == (False, num_unknown == 4)


def test_reads_the_part_that_the_config_keeps(make_classifier: Callable[..., Classifier]) -> None:
    text = "bad bad bad the film was very very good not"
    for truncation, kept in (
        ("head", "bad bad bad the film was very"),
        ("tail", "the film was very very good not"),
        ("head_and_tail", "bad bad bad the very good not"),
    ):
        cut, whole = make_classifier(truncation=truncation).predict([text, kept])
        assert cut.probabilities == pytest.approx(whole.probabilities, abs=1e-6)
        assert (cut.truncated, whole.truncated) == (True, False)
