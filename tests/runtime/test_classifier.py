import dataclasses

import numpy as np
import pytest

from mha_cli.runtime import probabilities
from mha_cli.runtime.classifier import Classifier
from tests.checkpoints import small_checkpoint

LONGEST = 13
TEXTS = [
    "The film was superb.",
    "dreadful",
    "",
    "the film was not superb . the film was dreadful .",
    "not superb not dreadful",
    "Superb",
    "the unheard of film",
    "   ",
    "the film was a a a a a a a a a a a",
]


@pytest.mark.parametrize("class_names", [("neg", "pos"), ("bad", "mixed", "good")])
def test_predictions_are_consistent(class_names: tuple[str, ...]) -> None:
    predictions = Classifier(small_checkpoint(class_names)).predict(TEXTS)
    assert [prediction.text for prediction in predictions] == TEXTS
    for prediction in predictions:
        assert tuple(prediction.probabilities) == class_names
        assert sum(prediction.probabilities.values()) == pytest.approx(1.0, abs=1e-5)
        assert prediction.probability == max(prediction.probabilities.values()) == prediction.probabilities[prediction.label]
        assert type(prediction.probability) is float


@pytest.mark.parametrize("batch_tokens", [1, 17, 8_192])
def test_order_is_kept_whatever_the_batches(batch_tokens: int, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Classifier(small_checkpoint())
    alone = [model.predict([text])[0] for text in TEXTS]
    monkeypatch.setattr(probabilities, "BATCH_TOKENS", batch_tokens)
    order = np.random.default_rng(0).permutation(len(TEXTS)).tolist()
    together = model.predict([TEXTS[row] for row in order])
    for prediction, row in zip(together, order, strict=True):
        assert prediction.text == TEXTS[row]
        assert prediction.probabilities == pytest.approx(alone[row].probabilities, abs=1e-5)
    assert model.predict([]) == []


def test_an_empty_text_gets_the_prior_of_the_classifier() -> None:
    model = Classifier(small_checkpoint())
    (prediction,) = model.predict([""])
    bias = float(model.checkpoint.weights["classifier/bias"][0])
    assert prediction.probabilities["pos"] == pytest.approx(1 / (1 + np.exp(-bias)), abs=1e-6)
    assert (prediction.num_tokens, prediction.num_read, prediction.num_unknown) == (0, 0, 0)
    assert (prediction.truncated, prediction.empty, prediction.all_unknown) == (False, True, False)


@pytest.mark.parametrize(
    ("text", "num_tokens", "num_unknown", "truncated"),
    [
        ("the movie was good", 4, 2, False),
        ("what good movie there", 4, 4, False),
        ("the film was" + " not" * 10, LONGEST, 0, False),
        ("odd the film was" + " not" * 9 + " unread words are not counted", 18, 1, True),
    ],
)
def test_counts_tokens(text: str, num_tokens: int, num_unknown: int, truncated: bool) -> None:
    (prediction,) = Classifier(small_checkpoint()).predict([text])
    assert (prediction.num_tokens, prediction.num_read) == (num_tokens, min(num_tokens, LONGEST))
    assert (prediction.num_unknown, prediction.truncated) == (num_unknown, truncated)
    assert (prediction.empty, prediction.all_unknown) == (False, num_unknown == 4)


def test_thresholds_are_those_of_the_most_probable_class() -> None:
    thresholds = {"neg": 0.25, "pos": 0.75}
    for prediction in Classifier(dataclasses.replace(small_checkpoint(), thresholds=thresholds)).predict(TEXTS):
        assert prediction.threshold == thresholds[prediction.label]
        assert prediction.answer == (prediction.label if prediction.probability >= prediction.threshold else None)
