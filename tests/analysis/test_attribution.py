"""Integrated gradients against a model written out in this file, and against what they promise."""

import dataclasses
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from mha_cli.analysis.inside import attribution
from mha_cli.analysis.inside.attribution import integrated_gradients
from mha_cli.checkpoint.file import Checkpoint
from mha_cli.runtime.classifier import Classifier
from tests.checkpoints import small_checkpoint

TEXT = "the film was not superb, it's dreadful"
CLASSES = {2: ("neg", "pos"), 3: ("bad", "mixed", "good")}
MODELS: dict[str, dict[str, Any]] = {
    "one-block": {},
    "two-blocks-pre": {"num_blocks": 2, "normalization": "pre"},
    "bigrams-and-convolution": {"max_ngram": 2, "ngram_buckets": 32, "conv_kernel_size": 3},
    "trigrams-and-subwords": {"max_ngram": 3, "ngram_buckets": 32, "subword_buckets": 32},
}


def probabilities_from_embeddings(x_LD: Any, weights: dict[str, Any]) -> Any:
    """One post-norm block, head by head, the maximum and the classifier, for one review: (C,)."""

    def norm(x: Any, name: str) -> Any:
        mean = tf.reduce_mean(x, axis=-1, keepdims=True)
        variance = tf.reduce_mean((x - mean) ** 2, axis=-1, keepdims=True)
        return (x - mean) / tf.sqrt(variance + 1e-3) * weights[f"encoder_0/{name}/gamma"] + weights[f"encoder_0/{name}/beta"]

    attention = {path.removeprefix("encoder_0/attention/"): weight for path, weight in weights.items() if "/attention/" in path}
    attended = attention["output_bias"]
    for head in range(attention["query_kernel"].shape[1]):
        q, k, v = (x_LD @ attention[f"{name}_kernel"][:, head] + attention[f"{name}_bias"][head] for name in ("query", "key", "value"))
        attended += tf.nn.softmax(q @ tf.transpose(k) / q.shape[-1] ** 0.5) @ v @ attention["output_kernel"][head]
    y = norm(x_LD + attended, "attention_norm")
    hidden = tf.nn.relu(y @ weights["encoder_0/feed_forward_in/kernel"] + weights["encoder_0/feed_forward_in/bias"])
    z = norm(y + hidden @ weights["encoder_0/feed_forward_out/kernel"] + weights["encoder_0/feed_forward_out/bias"], "feed_forward_norm")
    logits = tf.linalg.matvec(tf.transpose(weights["classifier/kernel"]), tf.reduce_max(z, axis=0)) + weights["classifier/bias"]
    if len(logits) == 1:
        second = tf.sigmoid(logits[0])
        return tf.stack([1 - second, second])
    return tf.nn.softmax(logits)


@pytest.mark.parametrize("num_classes", CLASSES)
def test_equals_a_computation_written_out(num_classes: int) -> None:
    """In float64, a step at a time, for every class."""
    checkpoint, steps = small_checkpoint(CLASSES[num_classes]), 5
    weights = {path: tf.constant(weight, tf.float64) for path, weight in checkpoint.weights.items()}
    token_ids = checkpoint.text_pipeline.encode(TEXT).tokens
    words = tf.gather(weights["embedding/token_embedding/words"], token_ids)
    places = weights["embedding/position_embedding/embeddings"][: len(token_ids)]
    (said,) = Classifier(checkpoint).predict([TEXT])
    np.testing.assert_allclose(probabilities_from_embeddings(places + words, weights), list(said.probabilities.values()), atol=1e-5)
    for class_id, label in enumerate(checkpoint.class_names):
        expected = np.zeros(len(token_ids))
        for step in range(steps):
            point = places + (step + 0.5) / steps * words
            with tf.GradientTape() as tape:
                tape.watch(point)
                probability = probabilities_from_embeddings(point, weights)[class_id]
            expected += (tape.gradient(probability, point).numpy() * words.numpy()).sum(axis=-1) / steps
        found, difference = integrated_gradients(checkpoint, TEXT, [class_id], steps=steps)
        assert found == pytest.approx(expected.tolist(), abs=1e-5)
        start = probabilities_from_embeddings(places, weights)[class_id]
        assert difference == pytest.approx(said.probabilities[label] - float(start), abs=1e-5)
        assert np.abs(expected).max() > 0.005


def incompleteness(checkpoint: Checkpoint, steps: int) -> float:
    """How far the attributions are from summing to the difference of the probabilities."""
    attributions, difference = integrated_gradients(checkpoint, TEXT, [1], steps=steps)
    return abs(sum(attributions) - difference)


@pytest.mark.parametrize("name", MODELS)
def test_attributions_sum_to_what_the_words_add(name: str) -> None:
    checkpoint = small_checkpoint(CLASSES[2 if name == "one-block" else 3], **MODELS[name])
    coarse, usual, fine = (incompleteness(checkpoint, steps) for steps in (4, 64, 1024))
    assert usual < 1e-2
    assert fine < 1e-3
    assert fine <= usual + 1e-5
    assert usual <= max(coarse, 5e-3)


@pytest.mark.parametrize("batch_tokens", [1, 40, 1_000_000])
def test_how_many_points_are_computed_together_changes_nothing(batch_tokens: int, monkeypatch: pytest.MonkeyPatch) -> None:
    expected, _ = integrated_gradients(small_checkpoint(), TEXT, [1], steps=11)
    monkeypatch.setattr(attribution, "BATCH_TOKENS", batch_tokens)
    found, _ = integrated_gradients(small_checkpoint(), TEXT, [1], steps=11)
    assert found == pytest.approx(expected, abs=1e-6)


def test_a_word_that_the_model_cannot_see_gets_nothing() -> None:
    """Every unknown word has the same embedding; where that is zero, it adds nothing."""
    checkpoint = small_checkpoint()
    table = checkpoint.weights["embedding/token_embedding/words"].copy()
    table[1] = 0.0
    blind = dataclasses.replace(checkpoint, weights={**checkpoint.weights, "embedding/token_embedding/words": table})
    attributions, _ = integrated_gradients(blind, "the unheard film", [1])
    assert attributions[1] == 0.0
    assert attributions[0] != 0.0
