import numpy as np
import pytest

from mha_cli.data.corpus import EncodedTexts
from mha_cli.runtime.classifier import Classifier
from mha_cli.runtime.head_targets import TARGETS, head_targets
from mha_cli.runtime.inspection import view_attention
from tests.checkpoints import small_checkpoint

TEXTS = ("the film", "The film was not DREADFUL, it’s superb", "it was superb , not dreadful", "not the film was")


def test_targets_are_the_mean_over_all_tokens_with_five_different_ones() -> None:
    checkpoint = small_checkpoint(num_blocks=2, num_heads=[3, 1], key_dim=5, positions="sinusoidal")
    for block in range(2):
        checkpoint.weights[f"encoder_{block}/attention/query_kernel"][:] *= 4  # far from uniform
    encode = Classifier(checkpoint).encoder.encode
    tokens = [encode(text).tokens for text in TEXTS]
    offsets = np.cumsum([0, *map(len, tokens)])
    found = head_targets(checkpoint, EncodedTexts(np.concatenate(tokens), offsets, np.zeros(len(tokens), np.int32), 0))
    views = [view_attention(checkpoint, text) for text in TEXTS]
    for block, heads in enumerate((3, 1)):
        for head in range(heads):
            rows = []
            for view in views:
                weights, end = view.weights[block][head], len(view.words) - 1
                rows += [[weights[at, to] for to in (0, at - 1, at, at + 1, end)] for at in range(2, end - 1)]
            assert len(rows) == 4 + 2
            assert found[block][head] == pytest.approx(np.mean(rows, axis=0), abs=1e-6)
            assert np.ptp(found[block][head]) > 0.01
    assert all(shares.shape == (heads, len(TARGETS)) for shares, heads in zip(found, (3, 1), strict=True))


def test_texts_without_five_tokens_give_zeros() -> None:
    checkpoint = small_checkpoint()
    (found,) = head_targets(checkpoint, EncodedTexts(np.array([3, 4, 5, 6], np.int32), np.array([0, 4]), np.zeros(1, np.int32), 0))
    assert not found.any()
