import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mha_cli.checkpoint.file import Checkpoint
from mha_cli.runtime.classifier import Classifier
from mha_cli.runtime.inspection import ReadWords, explain, mean_entropy, strongest_links, view_attention
from tests.checkpoints import small_checkpoint, with_text
from tests.errors import error_of

TEXT = "The film was not DREADFUL, it’s superb"
WORDS = ["The", "film", "was", "not", "DREADFUL", ",", "it’s", "superb"]
MODELS: dict[str, dict[str, Any]] = {
    "one-block": {},
    "three-blocks-pre": {"num_blocks": 3, "normalization": "pre"},
    "other-heads-in-each-block": {"num_blocks": 2, "num_heads": [3, 1], "key_dim": 5},
    "bigrams-and-subwords": {"max_ngram": 2, "ngram_buckets": 32, "subword_buckets": 32},
}


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_weights_of_every_block_equal_the_layers(model: dict[str, Any]) -> None:
    """The Keras layers, one after another, each asked for its own weights."""
    from mha_cli.model.classifier import to_model

    checkpoint = small_checkpoint(**model)
    view = view_attention(checkpoint, TEXT)
    assert [len(weights) for weights in view.weights] == list(checkpoint.config.model.heads)
    keras_model = to_model(checkpoint)
    x = keras_model.get_layer("embedding")(np.array([checkpoint.text_pipeline.encode(TEXT).tokens]))
    for block, weights in enumerate(view.weights):
        layer = keras_model.get_layer(f"encoder_{block}")
        inputs = layer.attention_norm(x) if layer.normalization == "pre" else x
        _, expected = layer.attention(inputs, return_attention_scores=True)
        assert weights.shape == (checkpoint.config.model.heads[block], len(WORDS), len(WORDS))
        np.testing.assert_allclose(weights, expected[0], rtol=0, atol=1e-5)
        np.testing.assert_allclose(weights.sum(axis=-1), 1.0, rtol=0, atol=1e-5)
        assert (weights >= 0).all()
        x = layer(x)


def test_one_head_or_the_mean_of_all() -> None:
    view = view_attention(small_checkpoint(num_blocks=2, num_heads=[3, 2], key_dim=5), TEXT)
    np.testing.assert_array_equal(view.of(1, 1), view.weights[1][1])
    np.testing.assert_allclose(view.of(0, None), sum(view.weights[0]) / 3, rtol=0, atol=1e-6)
    for block, head, message in (
        (-1, 0, "there is no block -1; the model has blocks 0 to 1"),
        (1, -1, "there is no head -1 in block 1; it has heads 0 to 1"),
    ):
        assert error_of(view.of, block, head) == message


def test_strongest_links_leave_a_words_look_at_itself_out() -> None:
    weights = np.array([[0.9, 0.08, 0.02], [0.3, 0.1, 0.6], [0.2, 0.5, 0.3]], dtype=np.float32)
    before = weights.copy()
    links = strongest_links(weights, 3)
    assert [(row, column) for row, column, _ in links] == [(1, 2), (2, 1), (1, 0)]
    assert [weight for _, _, weight in links] == pytest.approx([0.6, 0.5, 0.3])
    np.testing.assert_array_equal(weights, before)
    assert strongest_links(weights, 0) == []
    assert len(strongest_links(weights, 5)) == 5


def test_entropy_of_weights_of_which_some_are_zero() -> None:
    assert mean_entropy([[0.0, 1.0, 0.0], [0.5, 0.0, 0.5]]) == pytest.approx(math.log(2) / 2)
    assert str(mean_entropy([[1.0]])) == "0.0"


@pytest.mark.parametrize("look", [view_attention, explain])
def test_words_are_the_writers_own_and_unknown_ones_are_marked(look: Callable[[Checkpoint, str], ReadWords]) -> None:
    assert look(small_checkpoint(), TEXT).words == WORDS
    assert look(small_checkpoint(), "The Zyzzyva was * superb").unknown == [False, True, False, True, False]
    without_marks = with_text(small_checkpoint(), punctuation=False)
    assert look(without_marks, "The film,<br />IT’S_superb.").words == ["The", "film", "IT’S", "superb"]


def test_words_of_a_text_that_was_cut() -> None:
    checkpoint = with_text(small_checkpoint(positions="none"), sequence_length=5, truncation="head_and_tail")
    view = view_attention(checkpoint, "One two THREE four five Six seven eight nine ten eleven")
    assert view.words == ["One", "two", "THREE", "ten", "eleven"]
    assert view.notes == [
        "* not in the model's vocabulary: it reads all such words as one",
        "the model reads 5 of the 11 words; the others are not shown",
    ]
    assert view.weights[0].shape[1:] == (5, 5)


@pytest.mark.parametrize("model", [{}, {"max_ngram": 3, "ngram_buckets": 32}], ids=["words", "trigrams"])
def test_occlusion_is_the_prediction_without_the_word(model: dict[str, Any]) -> None:
    """One by one, by the text itself."""
    checkpoint = small_checkpoint(("bad", "mixed", "good"), **model)
    for words in (WORDS, ["superb"]):
        result = explain(checkpoint, " ".join(words))
        whole = result.prediction
        without = Classifier(checkpoint).predict([" ".join(words[:place] + words[place + 1 :]) for place in range(len(words))])
        expected = [whole.probability - prediction.probabilities[whole.label] for prediction in without]
        assert result.occlusion == pytest.approx(expected, abs=1e-5)
        assert len({round(fall, 5) for fall in result.occlusion}) > len(words) // 2
        assert result.gradients is None


def test_looked_at_is_the_mean_over_words_heads_and_blocks() -> None:
    checkpoint = small_checkpoint(num_blocks=2, num_heads=[3, 1], key_dim=5)
    view, result = view_attention(checkpoint, TEXT), explain(checkpoint, TEXT)
    columns = [sum(float(weights[:, row, column].mean()) for row in range(8)) / 8 for weights in view.weights for column in range(8)]
    assert result.attention == pytest.approx([(columns[word] + columns[8 + word]) / 2 for word in range(8)], abs=1e-6)
    assert sum(result.attention) == pytest.approx(1.0, abs=1e-5)
