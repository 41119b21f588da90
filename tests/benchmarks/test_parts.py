"""What is taken out of a classifier is what the NumPy runtime computes with the weights of that part set to zero."""

import numpy as np
import parts
import pytest

from mha_cli.checkpoint.file import Checkpoint
from mha_cli.runtime.forward import ForwardPass, class_probabilities
from tests.checkpoints import small_checkpoint
from tests.reviews import encoded

pytestmark = pytest.mark.usefixtures("untraced")


def answered(checkpoint: Checkpoint, tokens: np.ndarray, **zeroed: slice) -> np.ndarray:
    """Probabilities (N, C) with rows of some weights set to zero; a name has ``__`` where a path has ``/``."""
    weights = {path: weight.copy() for path, weight in checkpoint.weights.items()}
    for name, rows in zeroed.items():
        weights[name.replace("__", "/")][rows] = 0.0
    return class_probabilities(tokens, weights, checkpoint.config)


@pytest.mark.parametrize("classes", [("a", "b"), ("a", "b", "c")])
def test_parts_are_the_model_without_the_rest(classes: tuple[str, ...]) -> None:
    checkpoint = small_checkpoint(classes, linear={"max_ngram": 2, "buckets": 32})
    rng = np.random.default_rng(0)
    reviews = encoded(rng.integers(2, 13, (40, 9)).tolist(), rng.integers(0, len(classes), 40).tolist())
    found, tokens, width = parts.outputs(checkpoint, reviews), reviews.tokens[:].reshape(40, 9), checkpoint.config.model.embed_dim
    no_heads = {"encoder_0__attention__output_kernel": slice(None)}
    no_scores = {"classifier__kernel": slice(width, None)}
    expected = {
        "whole": answered(checkpoint, tokens),
        "encoder": answered(checkpoint, tokens, **no_scores),
        "encoder without heads": answered(checkpoint, tokens, **no_heads, **no_scores),
        "scores": ForwardPass(checkpoint.weights, checkpoint.config).linear_logits(tokens),
    }
    assert found.keys() == expected.keys()
    for name, part in expected.items():
        np.testing.assert_allclose(found[name], part, atol=1e-5)
    whole = parts.accuracies(checkpoint, reviews.subset(np.arange(25)), reviews)["whole"]
    assert whole == pytest.approx((expected["whole"].argmax(axis=1) == reviews.labels).mean())
