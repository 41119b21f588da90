"""Words to token ids."""

import heapq
import unicodedata
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import count, islice, repeat
from typing import TypeVar

import numpy as np

from mha_cli.arrays import Bools, Int32s, Int64s

PADDING_ID = 0
UNKNOWN_ID = 1
SPECIAL_TOKENS = ("[PAD]", "[UNK]")
MAX_TOKEN_LENGTH = 100  # characters of the longest token that may have an id
FOREIGN = "was it trained on such texts, in this language?"  # in warnings about texts whose words a model does not know
FEW_WORDS = 100  # fewer words than these say nothing about a vocabulary

Tokens = TypeVar("Tokens", list[int], list[str], Int32s)


class Vocabulary:
    """The tokens that have an id of their own, most frequent first, from id 2 on; id 0 is padding and id 1 every other token."""

    def __init__(self, tokens: Iterable[str]) -> None:
        self.tokens = (*SPECIAL_TOKENS, *tokens)
        self._ids = dict(islice(zip(self.tokens, count()), len(SPECIAL_TOKENS), None))

    def __len__(self) -> int:
        """Number of ids, the two special ones included."""
        return len(self.tokens)

    @property
    def repeats(self) -> bool:
        """Whether a token is repeated, which would leave an id without use."""
        return len(self._ids) < len(self.tokens) - len(SPECIAL_TOKENS)

    @cached_property
    def is_mark(self) -> Bools:
        """Whether each id is that of a punctuation mark: a token without a letter, a digit or a symbol such as an emoji."""
        is_mark = np.zeros(len(self), np.bool_)
        for token, token_id in self._ids.items():
            if not (token.isalnum() or any(map(str.isalnum, token))):
                is_mark[token_id] = "So" not in map(unicodedata.category, token)
        return is_mark

    def ids(self, tokens: Iterable[str]) -> list[int]:
        """The id of every token."""
        return list(map(self._ids.get, tokens, repeat(UNKNOWN_ID)))  # half the time of a loop


NO_WORDS = Vocabulary(())


def warning_of_unknown(num_unknown: int, num_words: int, way_out: str = FOREIGN) -> str:
    """A warning about texts whose words are mostly unknown; empty if they are not, or if there are too few of them.

    ``num_words`` leaves out punctuation marks, since a comma is the same in many languages.
    """
    if num_words < FEW_WORDS or num_unknown <= num_words / 2:
        return ""
    return f"{num_unknown / num_words:.0%} of the words are not in the model's vocabulary: {way_out}"


def most_frequent(tokens: Sequence[str], counts: Int64s, vocabulary_size: int) -> Vocabulary:
    """The vocabulary of the most frequent of distinct tokens; equally frequent ones in alphabetical order.

    ``vocabulary_size`` counts the two special ids. A token that does not occur gets no id.
    """
    frequent = ((-int(count), token) for token, count in zip(tokens, counts, strict=True) if count and len(token) <= MAX_TOKEN_LENGTH)
    return Vocabulary(token for _, token in heapq.nsmallest(vocabulary_size - len(SPECIAL_TOKENS), frequent))


def cut(tokens: Tokens, sequence_length: int, truncation: str) -> Tokens:
    """The part of a text that the model reads, at most ``sequence_length`` tokens.

    ``truncation`` is ``head``, ``tail`` or ``head_and_tail`` (half of each; the beginning gets the odd one).
    """
    if len(tokens) <= sequence_length:
        return tokens
    tail = {"head": 0, "tail": sequence_length, "head_and_tail": sequence_length // 2}[truncation]
    head, end = tokens[: sequence_length - tail], tokens[len(tokens) - tail :]
    return np.concatenate([head, end]) if isinstance(tokens, np.ndarray) else head + end
