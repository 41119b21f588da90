"""How much memory a forward pass takes beside the weights, known before it is taken: a checkpoint from elsewhere may be small and wide.

One budget holds for NumPy, which computes in blocks what grows fastest, and for TensorFlow, which computes it whole.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import isqrt
from typing import Self

from mha_cli.config.settings import SUBWORD_LENGTHS, LinearConfig, ModelConfig
from mha_cli.errors import MhaError

MOST_BYTES = 2_000_000_000  # the budget: a text that alone does not fit is refused
BATCH_BYTES = 400_000_000  # texts are computed together up to this; more are not faster, and every worker process takes as much
BLOCK_BYTES = 1 << 27  # size of a block in NumPy, if a single token, head or class does not take more
FLOAT = 4
ARRAYS_OF_WIDTH = 8  # (B, L, D) alive at once in an encoder block: its input, what is added to it, and a normalization of the sum
ARRAYS_OF_SCORES = 3  # (B, H, L, M) alive at once without blocks
ARRAYS_OF_CLASSES = 6  # (B, C) alive at once in the last layer and after it
NGRAM_BYTES = 80  # for one n-gram of a text
CHARACTER_BYTES = 64  # for one character of a token, to find the subwords that end there
CONFUSION_BYTES = 24  # for one entry of a confusion matrix, while it is counted and made a list
SCORE_BLOCK = 1 << 18  # attention scores that NumPy holds at a time, if a row is not more: a megabyte stays in a core's cache
MOST_SCORES_AT_ONCE = 2**27  # attention weights of a call, B·H·L·M, that ``auto`` computes at once: 512 MiB in float32
QUERIES_OF_A_BLOCK = 256  # in ``blockwise``: enough for an efficient matrix product, few enough to keep the block's weights small


def blocks(number: int, bytes_each: int) -> Iterator[slice]:
    """Slices of ``number`` items, each of as many as fit into ``BLOCK_BYTES``, and of one at least."""
    size = max(1, BLOCK_BYTES // max(1, bytes_each))
    for start in range(0, number, size):
        yield slice(start, min(start + size, number))


@dataclass(frozen=True)
class MemoryEstimate:
    """What decides how much memory a forward pass takes."""

    model: ModelConfig
    num_classes: int
    name: str = "this model"  # for messages
    in_blocks: bool = False  # True where NumPy computes it, and not TensorFlow
    whole_scores: bool = False  # True where all attention weights are computed at once, however many there are
    gradient: bool = False  # True where what every block of the encoder computes is kept for a gradient
    characters: int = 0  # characters of a token that subwords are read from; 0 for none
    linear: LinearConfig | None = None  # settings of the linear model beside the encoder; None for none

    def at_once(self) -> Self:
        """The same where attention is computed all at once, as other programs compute it."""
        return replace(self, whole_scores=True, in_blocks=False)

    def num_bytes(self, texts: int, length: int) -> int:
        """An upper bound of the memory, in bytes, for a batch of ``texts`` texts, the longest of ``length`` tokens."""
        at_once = isqrt(MOST_SCORES_AT_ONCE // (texts * max(self.model.heads)))  # longest text that ``auto`` does not compute in blocks
        return max(self._num_bytes(texts, length), self._num_bytes(texts, min(length, at_once)))  # a shorter text may take more

    def _num_bytes(self, texts: int, length: int) -> int:
        model, tokens, heads = self.model, texts * length, max(self.model.heads)
        sinusoid = 6 * FLOAT * length * model.embed_dim if model.positions == "sinusoidal" else 0
        turned = 6 if model.positions == "rotary" else 0
        projections = FLOAT * tokens * heads * ((11 + turned) * model.head_key_dim + 3)  # queries, keys, values and what a head mixes
        attention = projections + self._score_bytes(texts, length, heads)
        feed_forward = FLOAT * tokens * ((2 if model.activation == "relu" else 4) + 2 * model.gated) * model.feed_forward_dim
        encoder = FLOAT * ARRAYS_OF_WIDTH * tokens * model.embed_dim + max(attention, feed_forward)
        last = FLOAT * ARRAYS_OF_CLASSES * texts * self.num_classes
        subwords = self._subword_bytes(tokens, model.embed_dim) if model.subword_buckets else 0
        linear = self._linear_bytes(self.linear, tokens) if self.linear else 0
        return sinusoid + subwords + encoder * (2 * model.num_blocks if self.gradient else 1) + last + linear

    def fits(self, texts: int, length: int) -> bool:
        """Whether such a batch may be computed at once; a single text always may."""
        return texts == 1 or self.num_bytes(texts, length) <= BATCH_BYTES

    def most_texts(self, length: int, most: int) -> int:
        """The largest batch of texts of this length, from 1 to ``most`` texts."""
        return next(texts for texts in range(max(1, most), 0, -1) if self.fits(texts, length))

    def refuse_too_long(self, length: int) -> None:
        """Refuse a text of this length, in tokens, if it does not fit even alone."""
        refuse_bytes(self.num_bytes(1, length), f"{self.name}: a text of {length:,} tokens", "give shorter texts")

    def _linear_bytes(self, linear: LinearConfig, tokens: int) -> int:
        ngrams, of_one = tokens * linear.max_ngram, 2 * FLOAT * self.num_classes
        logits = max(of_one, min(ngrams * of_one, BLOCK_BYTES)) if self.in_blocks else ngrams * of_one
        return NGRAM_BYTES * ngrams + logits + (self._subword_bytes(tokens, self.num_classes) if self.characters else 0)

    def _subword_bytes(self, tokens: int, width: int) -> int:
        """Memory for sums over rows of this width, one per subword: NumPy takes one row per token at a time, TensorFlow all."""
        rows = 1 if self.in_blocks else len(SUBWORD_LENGTHS) * self.characters
        return tokens * (FLOAT * width * (2 + rows) + CHARACTER_BYTES * self.characters)

    def _score_bytes(self, texts: int, length: int, heads: int) -> int:
        scores = texts * heads * length**2
        if self.in_blocks:
            scores = max(SCORE_BLOCK, length * heads)
        elif scores > MOST_SCORES_AT_ONCE and not self.whole_scores and self.model.positions != "linear_biases":
            scores = texts * heads * length * min(length, QUERIES_OF_A_BLOCK)
        return ARRAYS_OF_SCORES * FLOAT * scores


def refuse_bytes(estimate: int, what: str, hint: str) -> None:
    """Refuse what would take more than ``MOST_BYTES``."""
    if estimate > MOST_BYTES:
        message = f"{what} would take about {estimate / 1e9:,.1f} GB of memory; mha takes {MOST_BYTES / 1e9:,.0f} GB at most"
        raise MhaError(message, hint)


def refuse_confusion_matrix(num_classes: int) -> None:
    """Refuse a table of all classes by all classes that would take more than ``MOST_BYTES``."""
    refuse_bytes(CONFUSION_BYTES * num_classes**2, f"a table of {num_classes:,} by {num_classes:,} classes", "use mha predict")
