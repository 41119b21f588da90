"""Looking inside: which words look at which, and which words decide."""

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from mha_cli.arrays import Array, Floats
from mha_cli.checkpoint.file import Checkpoint
from mha_cli.errors import JOINT, MhaError, did_you_mean, printable
from mha_cli.runtime.classifier import Classifier, Prediction
from mha_cli.runtime.forward import attention_weights
from mha_cli.runtime.probabilities import errors_naming
from mha_cli.system.working_memory import refuse_bytes
from mha_cli.text.encoding import EncodedText, ids_of
from mha_cli.text.vocabulary import UNKNOWN_ID

NEAR_UNIFORM = 0.95
"""exp(entropy) is the number of words that, looked at equally, would give the entropy. From this share of all words on, attention is
close to uniform. The entropy is then less than 0.052 nats below its maximum, so by Pinsker's inequality less than a sixth of the attention
lies elsewhere than equal shares would put it, whatever the number of words."""

WEIGHT_BYTES, SHOWN_WEIGHT_BYTES = 12, 60
"""Memory for an attention weight: as it is computed, and as JSON or a page has it, where it is a Python object and then text."""

Steps: TypeAlias = Generator[Sequence[EncodedText], Any, Any]  # yields texts, is sent their probabilities (N, C), returns a result

OCCLUSIONS = 256  # copies of a text, each without one word, that are held at a time
UNKNOWN_MARK = "*"  # mark behind a word that the vocabulary lacks; no word holds it, and a mark of punctuation is one character

UNKNOWN_LEGEND = {
    False: f"{UNKNOWN_MARK} not in the model's vocabulary: it reads all such words as one",
    True: f"{UNKNOWN_MARK} not in the model's vocabulary: it reads such words by their subwords",
}
"""Legend of the mark, by whether the model reads subwords."""


@dataclass(frozen=True)
class ReadWords:
    """The words of one text as the model reads them, L of them, whether the vocabulary lacks each, and the model's answer.

    In the attention of a pretrained encoder, pieces of words stand for words.
    """

    words: list[str]
    unknown: list[bool]
    subwords: bool
    prediction: Prediction
    columns: Sequence[str] = field(default=(), kw_only=True)  # column of each word, if the text has several columns

    @property
    def notes(self) -> list[str]:
        """Lines that a reader of the words needs."""
        notes, prediction = [UNKNOWN_LEGEND[self.subwords]] if any(self.unknown) else [], self.prediction
        if prediction.truncated:
            notes.append(f"the model reads {prediction.num_read:,} of the {prediction.num_tokens:,} words; the others are not shown")
        return notes

    def answer_and_words(self) -> dict[str, Any]:
        """As a JSON object."""
        prediction, columns = self.prediction, {"columns": self.columns} if self.columns else {}
        return {"label": prediction.label, "probability": prediction.probability, "words": self.words, "unknown": self.unknown, **columns}


@dataclass(frozen=True)
class AttentionView(ReadWords):
    """The attention weights of one text: an array (H, L, L) for each block, whose row l is where word l looks, and sums to 1."""

    weights: list[Floats]

    def of(self, block: int, head: int | None) -> Floats:
        """The weights (L, L) of a head, or for None their mean over the heads of the block; both are counted from 0."""
        if not 0 <= block < len(self.weights):
            raise MhaError(f"there is no block {block}", f"the model has blocks 0 to {len(self.weights) - 1}")
        weights_HLL = self.weights[block]
        if head is not None and not 0 <= head < len(weights_HLL):
            raise MhaError(f"there is no head {head} in block {block}", f"it has heads 0 to {len(weights_HLL) - 1}")
        weights_LL: Floats = weights_HLL.mean(axis=0) if head is None else weights_HLL[head]
        return weights_LL

    def as_json(self) -> dict[str, Any]:
        """As ``--json`` prints it."""
        return {**self.answer_and_words(), **self.entropies(), "weights": self.rounded_weights(6)}

    def entropies(self) -> dict[str, Any]:
        """The mean entropy of every head, in nats; the largest possible one; which heads are close to it."""
        entropy = [[mean_entropy(head) for head in block] for block in self.weights]
        uniform = [[near_uniform(head, len(self.words)) for head in block] for block in entropy]
        return {"entropy": entropy, "max_entropy": math.log(len(self.words)), "near_uniform": uniform}

    def rounded_weights(self, digits: int) -> list[Any]:
        """All weights as nested lists: block, head, word that looks, word that is looked at."""
        return [np.round(weights_HLL.astype(np.float64), digits).tolist() for weights_HLL in self.weights]


@dataclass(frozen=True)
class Explanation(ReadWords):
    """Which words decided."""

    occlusion: list[float]  # fall of the predicted class's probability when a word is removed, for every word; negative where it rises
    attention: list[float]  # share of attention that each word gets: the mean over all words, heads and blocks; by itself no explanation
    gradients: list[float] | None = None  # integrated gradients towards the predicted class, one per word; None if they were not asked for
    class_ids: Sequence[int] = field(default=(), kw_only=True)  # of the predicted class, or of all at a node and below it

    def as_json(self) -> dict[str, Any]:
        """As ``--json`` prints it."""
        measures = {"occlusion": self.occlusion, "attention": self.attention, "gradients": self.gradients}
        return {**self.answer_and_words(), **measures, "entropy": mean_entropy(self.attention), "max_entropy": math.log(len(self.words))}


def view_attention(checkpoint: Checkpoint, text: str) -> AttentionView:
    """The attention weights of every block and head for one text: between its words, or between the pieces of a pretrained encoder."""
    pipeline = checkpoint.text_pipeline
    encoded = pipeline.encode(text)
    if pipeline.pieces is None:
        words, unknown = pipeline.read_words(text), (ids_of(encoded.tokens) == UNKNOWN_ID).tolist()
    else:
        words = pipeline.pieces.pieces(text)
        unknown = [False] * len(words)  # an unknown piece says so itself
    _refuse_what_cannot_be_shown(checkpoint, words, encoded, SHOWN_WEIGHT_BYTES)
    [prediction] = Classifier(checkpoint.always_encoding).predict([text])
    return _view(checkpoint, encoded, _of_label(prediction, None, checkpoint)[0], words, unknown)


def explain(checkpoint: Checkpoint, text: str, label: str | None = None) -> Explanation:
    """How much each word of a text decides, by leaving it out, for the answer or for another label.

    Source: Zeiler and Fergus 2014, "Visualizing and Understanding Convolutional Networks", section 4.2; on what attention weights do not
    show: Jain and Wallace 2019, "Attention is not Explanation".
    """
    classifier, probabilities_NC = Classifier(checkpoint.always_encoding), None
    steps = looking_inside(classifier, text, weight_bytes=WEIGHT_BYTES, label=label)
    try:
        while True:
            probabilities_NC = classifier.probabilities(steps.send(probabilities_NC))
    except StopIteration as end:
        explanation: Explanation = end.value[0]
        return explanation


def looking_inside(
    classifier: Classifier, text: str, most_words: int | None = None, weight_bytes: int = SHOWN_WEIGHT_BYTES, label: str | None = None
) -> Steps:
    """The explanation and the attention between the words of a text of at most ``most_words``, as the model reads it.

    A pretrained encoder reads pieces: then a text is its words with spaces between, the weights of the pieces are added up by words, and a
    word is left out before the text is split into pieces.
    """
    checkpoint, pipeline = classifier.checkpoint, classifier.text_pipeline
    words, encoded, columns = pipeline.read_words(text), pipeline.encode(text), _columns_of_words(checkpoint, text)
    if most_words is not None and len(words) > most_words:
        raise MhaError(f"the text has {len(words):,} words; at most {most_words:,} are explained here", "`mha explain` takes more")
    unknown = (ids_of(encoded.tokens) == UNKNOWN_ID).tolist()
    if pipeline.pieces is not None:
        text = " ".join(words)
        encoded = pipeline.encode(text)
    _refuse_what_cannot_be_shown(checkpoint, words, encoded, weight_bytes)
    [prediction] = classifier.predictions([text], [encoded], (yield [encoded]))
    prediction, class_ids = _of_label(prediction, label, checkpoint)
    view = _view(checkpoint, encoded, prediction, words, unknown)
    if pipeline.pieces is not None:
        word_of_piece = pipeline.pieces.words_of_pieces(words)
        view = replace(view, weights=[by_words(of_block, word_of_piece, len(words)) for of_block in view.weights])

    def without(position: int) -> EncodedText:
        if pipeline.pieces is None:
            return encoded._replace(tokens=np.delete(encoded.tokens, position, axis=0))
        return pipeline.encode(" ".join(words[:position] + words[position + 1 :]))

    falls = list[float]()
    for start in range(0, len(words), OCCLUSIONS):
        probabilities_NC = yield [without(position) for position in range(start, min(start + OCCLUSIONS, len(words)))]
        falls += [prediction.probability - probability for probability in probabilities_NC[:, class_ids].sum(axis=1).tolist()]
    looked_at = np.mean([weights_HLL.mean(axis=(0, 1)) for weights_HLL in view.weights], axis=0)
    explanation = Explanation(words, unknown, view.subwords, prediction, falls, looked_at.tolist(), columns=columns, class_ids=class_ids)
    return explanation, replace(view, columns=columns)


def _of_label(prediction: Prediction, label: str | None, checkpoint: Checkpoint) -> tuple[Prediction, list[int]]:
    """A prediction with its answer as the label, or the class or node of a name, and the classes whose probabilities add up to its own."""
    names, levels, node = checkpoint.class_names, prediction.levels, None
    if label is None and levels:
        node, label, *_ = prediction.node(prediction.level_threshold)
    label = prediction.label if label is None else label
    if node is None and label not in names:
        nodes = levels.names if levels else names
        if label not in nodes:
            hint = did_you_mean(printable(label), [*map(printable, nodes)])
            raise MhaError(f"no class '{printable(label)}' in {checkpoint.name}", hint)
        node = nodes.index(label)
    class_ids = levels.classes_at(node) if levels and node is not None else [names.index(label)]
    probabilities = [*prediction.probabilities.values()]
    return replace(prediction, label=label, probability=sum(probabilities[class_id] for class_id in class_ids)), class_ids


def by_words(weights_HPP: Floats, word_of_piece: Sequence[int | None], num_words: int) -> Floats:
    """Attention between words, (H, W, W), from that between pieces.

    A word looks as its pieces do on average, and is looked at as they are together. Pieces of no word are left out, and rows sum to 1.
    """
    belongs_PW = np.array([[word == number for number in range(num_words)] for word in word_of_piece], np.float32)
    looking_WP = (belongs_PW / np.maximum(belongs_PW.sum(axis=0), 1)).T
    weights_HWW: Floats = looking_WP @ weights_HPP @ belongs_PW
    weights_HWW /= np.maximum(weights_HWW.sum(axis=-1, keepdims=True), np.float32(1e-9))
    return weights_HWW


def _columns_of_words(checkpoint: Checkpoint, text: str) -> list[str]:
    """The column of each word that the model reads; empty where texts have one column."""
    names = checkpoint.text_columns
    return [names[part] for part in checkpoint.text_pipeline.part_of_words(text)] if text.count(JOINT) == len(names) - 1 > 0 else []


def _refuse_what_cannot_be_shown(checkpoint: Checkpoint, words: list[str], encoded: EncodedText, weight_bytes: int) -> None:
    """Refuse a text without words, and one whose attention weights would not fit into memory."""
    if not words:
        raise MhaError("the text has no words", "give a text with at least one word")
    length, num_heads = len(encoded.for_encoder), sum(checkpoint.config.model.heads)
    attention = f"{checkpoint.memory_estimate.name}: the attention of a text of {length:,} tokens"
    refuse_bytes(weight_bytes * num_heads * length**2, attention, "give a shorter text")


def _view(checkpoint: Checkpoint, encoded: EncodedText, prediction: Prediction, words: list[str], unknown: list[bool]) -> AttentionView:
    """The attention weights of a text between what the encoder reads, beside the given words."""
    with errors_naming(checkpoint):
        weights = attention_weights(encoded.for_encoder[None], checkpoint.weights, checkpoint.config)
    subwords = checkpoint.config.text.subword_characters > 0
    return AttentionView(words, unknown, subwords, prediction, [weights_BHLL[0] for weights_BHLL in weights])


def mean_entropy(shares: npt.ArrayLike) -> float:
    """The entropy of attention in nats, at most log L: the mean over the rows of (L, L), or that of L shares, each adding up to 1."""
    shares = np.asarray(shares)
    logarithms = np.log(shares, where=shares > 0, out=np.zeros_like(shares))
    return abs(float(-(shares * logarithms).sum(axis=-1, dtype=np.float64).mean()))  # -0.0 is none


def near_uniform(entropy: float, num_words: int) -> bool:
    """Whether attention of this entropy hardly prefers some words to others; that of one word has no choice."""
    return num_words > 1 and math.exp(entropy) >= NEAR_UNIFORM * num_words


def marked(words: list[str], unknown: list[bool], limit: int) -> list[str]:
    """Words that are safe to show, cut to a length; those that the vocabulary lacks carry ``UNKNOWN_MARK``."""
    return [printable(word, limit) + UNKNOWN_MARK * lacking for word, lacking in zip(words, unknown, strict=True)]


def entropy_line(entropy: float, num_words: int) -> str:
    """An entropy beside the largest that so many words can have."""
    return f"entropy {entropy:.3f} of at most {math.log(num_words):.3f} nats"


def strongest_links(weights_LL: Array, count: int) -> list[tuple[int, int, float]]:
    """The ``count`` largest weights as (looking word, word looked at, weight), the largest first; a word's look at itself is left out."""
    others = weights_LL.copy()
    np.fill_diagonal(others, 0.0)
    largest = np.argsort(others, axis=None)[::-1][:count]
    rows, columns = np.unravel_index(largest, others.shape)
    return list(zip(rows.tolist(), columns.tolist(), others[rows, columns].tolist(), strict=True))
