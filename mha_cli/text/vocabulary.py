"""Words to token ids."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from itertools import count, islice
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

PADDING_ID = 0
UNKNOWN_ID = 1
SPECIAL_TOKENS = ("[PAD]", "[UNK]")
MAX_TOKEN_LENGTH = 100
"""Characters of the longest token that may have an id."""
FEW_TOKENS = 100
"""Tokens that it takes to judge a vocabulary by."""


class Vocabulary:
    """The tokens that have an id of their own; id 0 is padding and id 1 every other token.

    Args:
        tokens: distinct tokens without the two special ones, most frequent first; the first gets id 2.
    """

    def __init__(self, tokens: Iterable[str]) -> None:
        self.tokens = (*SPECIAL_TOKENS, *tokens)
        self._ids = dict(islice(zip(self.tokens, count()), len(SPECIAL_TOKENS), None))

    def __len__(self) -> int:
        """Number of ids, the two special ones included."""
        return len(self.tokens)

    @property
    def repeats(self) -> bool:
        """Whether a token stands there twice, which would leave an id without use."""
        return len(self._ids) < len(self.tokens) - len(SPECIAL_TOKENS)

    def ids(self, tokens: Iterable[str]) -> list[int]:
        """The id of every token."""
        return [self._ids.get(token, UNKNOWN_ID) for token in tokens]


def doubt_of_unknown(num_unknown: int, num_read: int) -> str:
    """A warning about texts whose tokens are mostly unknown; empty if they are not, or too few to say."""
    if num_read < FEW_TOKENS or num_unknown <= num_read / 2:
        return ""
    share = f"{num_unknown / num_read:.0%} of the words are not in the model's vocabulary"
    return f"{share}: was it trained on such texts, in this language?"


def most_frequent(tokens: Sequence[str], counts: npt.NDArray[np.int64], vocabulary_size: int, min_count: int) -> Vocabulary:
    """The vocabulary of the most frequent tokens; equally frequent ones in alphabetical order.

    Args:
        tokens: distinct tokens.
        counts: occurrences of each token.
        vocabulary_size: most ids, the two special ones included.
        min_count: occurrences that a token needs.
    """
    frequent = (
        (-int(count), token) for token, count in zip(tokens, counts, strict=True) if count >= min_count and len(token) <= MAX_TOKEN_LENGTH
    )
    return Vocabulary(token for _, token in heapq.nsmallest(vocabulary_size - len(SPECIAL_TOKENS), frequent))


class EncodedText(NamedTuple):
    """A text as the model reads it.

    Args:
        token_ids: ids of the tokens that are kept, ``sequence_length`` at most.
        num_tokens: tokens of the whole text.
        num_unknown: unknown tokens among ``token_ids``.
    """

    token_ids: list[int]
    num_tokens: int
    num_unknown: int


def kept_slices(num_tokens: int, sequence_length: int, truncation: str) -> tuple[slice, slice]:
    """The part of a text that the model reads, as two slices to be joined.

    Args:
        num_tokens: length of the text, in tokens.
        sequence_length: most tokens to keep.
        truncation: ``head`` (the beginning), ``tail`` (the end) or ``head_and_tail`` (half of each; the beginning gets the odd one).
    """
    tail = {"head": 0, "tail": sequence_length, "head_and_tail": sequence_length // 2}[truncation] if num_tokens > sequence_length else 0
    return slice(0, min(num_tokens, sequence_length) - tail), slice(num_tokens - tail, num_tokens)
