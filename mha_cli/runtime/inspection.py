"""Looking inside: which words look at which, and which words decide."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mha_cli.checkpoint.file import Checkpoint
from mha_cli.errors import MhaError
from mha_cli.runtime.classifier import Classifier, Prediction, named, probabilities_of
from mha_cli.runtime.forward import attention_weights
from mha_cli.system.working_memory import refuse_bytes
from mha_cli.text.encoding import ids_of
from mha_cli.text.vocabulary import UNKNOWN_ID

Array = npt.NDArray[np.float32]

NEAR_UNIFORM = 0.95
"""exp(entropy) is the number of words that, looked at equally, would give the entropy. From this share of all words on, attention is
close to uniform. The entropy is then less than 0.052 nats below its maximum, so by Pinsker's inequality less than a sixth of the attention
lies elsewhere than equal shares would put it, whatever the number of words."""

WEIGHT_BYTES, SHOWN_WEIGHT_BYTES = 12, 60
"""Memory for an attention weight: as it is computed, and as JSON or a page has it, where it is a Python object and then text."""

OCCLUSIONS = 256
"""Reviews without a word of theirs that are held at a time."""


@dataclass(frozen=True)
class AttentionView:
    """The attention inside one review.

    Args:
        words: words that the model reads, as their writer wrote them, L of them.
        unknown: True for every word that the vocabulary lacks.
        subwords: whether the model reads the subwords of words, also of these.
        prediction: answer of the model about the review.
        weights: attention weights, one array (H, L, L) a block; row l is where word l looks, and sums to 1.
    """

    words: list[str]
    unknown: list[bool]
    subwords: bool
    prediction: Prediction
    weights: list[Array]

    def of(self, block: int, head: int | None) -> Array:
        """The weights (L, L) of one head, or their mean over the heads of a block.

        Args:
            block: number of the block, from 0.
            head: number of the head, from 0; None is the mean over all heads.

        Raises:
            MhaError: no such block or head.
        """
        if not 0 <= block < len(self.weights):
            raise MhaError(f"there is no block {block}", f"the model has blocks 0 to {len(self.weights) - 1}")
        weights_HLL = self.weights[block]
        if head is not None and not 0 <= head < len(weights_HLL):
            raise MhaError(f"there is no head {head} in block {block}", f"it has heads 0 to {len(weights_HLL) - 1}")
        weights_LL: Array = weights_HLL.mean(axis=0) if head is None else weights_HLL[head]
        return weights_LL


@dataclass(frozen=True)
class Explanation:
    """Which words decided.

    Args:
        words: words that the model reads, as their writer wrote them.
        unknown: True for every word that the vocabulary lacks.
        subwords: whether the model reads the subwords of words, also of these.
        prediction: answer of the model about the whole review.
        occlusion: fall of the predicted class's probability when a word is removed, for every word; negative where it rises.
        attention: share of attention that a word gets, for every word: the mean over all words, heads and blocks. Not an explanation
            by itself.
        gradients: integrated gradients towards the predicted class, one a word; None where they were not asked for.
    """

    words: list[str]
    unknown: list[bool]
    subwords: bool
    prediction: Prediction
    occlusion: list[float]
    attention: list[float]
    gradients: list[float] | None = None


def view_attention(checkpoint: Checkpoint, text: str) -> AttentionView:
    """The attention weights of every block and head for one review.

    Raises:
        MhaError: the text has no words, or more than its attention weights can be shown for.
    """
    return _view(checkpoint, text, SHOWN_WEIGHT_BYTES)[0]


def explain(checkpoint: Checkpoint, text: str) -> Explanation:
    """How much each word of a review decides, by leaving it out.

    Raises:
        MhaError: the text has no words.

    Source: Zeiler and Fergus 2014, "Visualizing and Understanding Convolutional Networks", section 4.2; on what attention weights do not
    show: Jain and Wallace 2019, "Attention is not Explanation".
    """
    view, tokens = _view(checkpoint, text, WEIGHT_BYTES)
    label = checkpoint.class_names.index(view.prediction.label)
    left = []
    for start in range(0, len(tokens), OCCLUSIONS):
        without = [np.delete(tokens, position, axis=0) for position in range(start, min(start + OCCLUSIONS, len(tokens)))]
        left += probabilities_of(without, checkpoint)[:, label].tolist()
    looked_at = np.mean([weights_HLL.mean(axis=(0, 1)) for weights_HLL in view.weights], axis=0)
    falls = [view.prediction.probability - probability for probability in left]
    return Explanation(view.words, view.unknown, view.subwords, view.prediction, falls, [float(share) for share in looked_at])


def _view(checkpoint: Checkpoint, text: str, weight_bytes: int) -> tuple[AttentionView, npt.NDArray[np.int32]]:
    """The attention weights, and the tokens that the model reads."""
    classifier, model, name = Classifier(checkpoint), checkpoint.config.model, checkpoint.forward_pass.name
    tokens = classifier.encoder.encode(text).tokens
    if not len(tokens):
        raise MhaError("the text has no words", "give a text with at least one word")
    weights_of_all = sum(model.heads) * len(tokens) ** 2
    refuse_bytes(weight_bytes * weights_of_all, f"{name}: the attention of a text of {len(tokens):,} tokens", "give a shorter text")
    prediction = classifier.predict([text])[0]
    with named(checkpoint):
        weights = attention_weights(tokens[None], checkpoint.weights, model)
    words, unknown = classifier.encoder.read_words(text), (ids_of(tokens) == UNKNOWN_ID).tolist()
    subwords = checkpoint.config.text.subword_characters > 0
    return AttentionView(words, unknown, subwords, prediction, [weights_BHLL[0] for weights_BHLL in weights]), tokens


def mean_entropy(shares: npt.ArrayLike) -> float:
    """The entropy of attention in nats, at most log L: the mean over the rows of (L, L), or that of L shares, each adding up to 1."""
    shares = np.asarray(shares)
    logarithms = np.log(shares, where=shares > 0, out=np.zeros_like(shares))
    return abs(float(-(shares * logarithms).sum(axis=-1, dtype=np.float64).mean()))  # -0.0 is none


def near_uniform(entropy: float, num_words: int) -> bool:
    """Whether attention of this entropy hardly prefers some words to others; that of one word has no choice."""
    return num_words > 1 and math.exp(entropy) >= NEAR_UNIFORM * num_words


def strongest_links(weights_LL: npt.NDArray[Any], count: int) -> list[tuple[int, int, float]]:
    """The ``count`` largest weights as (looking word, word looked at, weight), the largest first; a word's look at itself is left out."""
    others = weights_LL.copy()
    np.fill_diagonal(others, 0.0)
    largest = np.argsort(others, axis=None)[::-1][:count]
    return [
        (int(row), int(column), float(others[row, column])) for row, column in zip(*np.unravel_index(largest, others.shape), strict=True)
    ]
