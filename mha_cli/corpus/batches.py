"""Which texts are computed together: batches of similar length, so that little is padding; and how they are padded."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from mha_cli.arrays import Array, Bools, Int32s, Int64s
from mha_cli.system.working_memory import MemoryEstimate
from mha_cli.text.vocabulary import PADDING_ID, UNKNOWN_ID

Rows = Int64s

LENGTH_DIGITS = 5  # leading binary digits of a common length, before zeros: 16 lengths from a power of two to the next, 3 to 6 % apart
POOL_BATCHES = 50  # batches whose texts are sorted by length together: enough for little padding, few enough to keep chance in the order
SCORING_TOKENS = 16_384  # tokens in a batch, padding included, when only scoring
FREE_PADDING = 16  # tokens that a text may always be padded with


def training_batches(lengths: Int64s, rng: np.random.Generator, batch_size: int) -> list[Rows]:
    """Every text once, in batches of similar length, in random order; the last batch may be smaller. ``lengths`` are in tokens, (N,)."""
    order = rng.permutation(len(lengths))
    batches: list[Rows] = []
    for start in range(0, len(order), batch_size * POOL_BATCHES):
        pool = order[start : start + batch_size * POOL_BATCHES]
        pool = pool[np.argsort(lengths[pool], kind="stable")]
        batches += [pool[first : first + batch_size] for first in range(0, len(pool), batch_size)]
    return [batches[index] for index in rng.permutation(len(batches))]


def scoring_batches(
    lengths: Int64s, memory_estimate: MemoryEstimate, most_tokens: int = SCORING_TOKENS, most_padded: float = np.inf
) -> Iterator[Rows]:
    """Every text once, the shortest first, in the largest batches that the memory and the limits allow.

    Args:
        lengths: tokens of each text, (N,).
        most_tokens: tokens of a batch, padding included. A longer text is a batch of its own.
        most_padded: longest text of a batch, in lengths of the shortest one; texts of few tokens may be padded further.
    """
    order = np.argsort(lengths, kind="stable")
    ordered, start = lengths[order].tolist(), 0

    def is_too_large(stop: int) -> bool:
        texts, length = stop - start, max(1, ordered[stop - 1])
        is_larger = texts * length > most_tokens or length - FREE_PADDING > most_padded * max(1, ordered[start])
        return is_larger or not memory_estimate.fits(texts, length)

    while start < len(order):
        stop = bisect_left(range(len(order) + 1), True, start + 2, key=is_too_large) - 1
        yield order[start:stop]
        start = stop


def padded(texts: Sequence[Any] | Array, length: int = 1, dtype: Any = np.int32) -> Array:
    """Numbers of the tokens of some texts as one array, (B, L, …), padded with zeros; L is at least ``length``."""
    filled = np.zeros((len(texts), max(length, *map(len, texts)), *np.shape(texts[0])[1:]), dtype)
    for row, text in zip(filled, texts, strict=True):
        row[: len(text)] = text
    return filled


def at_common_length(token_ids: Int32s, longest: int) -> Int32s:
    """The same batch, (B, L) or (B, L, 1 + W), padded to one of a few fixed lengths up to ``longest``, so that kernels are reused.

    Where machine code is generated for every size of a matrix, as oneDNN does for bfloat16, a new length costs more than some padding.
    """
    length = token_ids.shape[1]
    step = 1 << max(0, length.bit_length() - LENGTH_DIGITS)
    more = min(length + -length % step, longest) - length
    return np.pad(token_ids, [(0, 0), (0, more), *[(0, 0)] * (token_ids.ndim - 2)])


def drop_words(tokens: Int32s, dropped_BL: Bools) -> Int32s:
    """The same batch, (B, L) or (B, L, 1 + W), with the unknown token for dropped words; their characters and padding stay."""
    kept = tokens.copy()
    ids = kept[..., 0] if tokens.ndim == 3 else kept
    ids[dropped_BL & (ids != PADDING_ID)] = UNKNOWN_ID
    return kept
