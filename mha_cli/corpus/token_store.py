"""Tokens on disk: of many texts, memory would not hold them."""

import math
from array import array
from collections.abc import Iterable, Sequence

import numpy as np

from mha_cli.arrays import Int32s, Int64s
from mha_cli.system.whole_files import TemporaryBytes

ITEM_BYTES = np.dtype(np.int32).itemsize
NEEDS = "it takes the texts as numbers, twice or three times, and the n-grams of many texts"


class TokenStore:
    """Tokens in a temporary file, four bytes for each number."""

    def __init__(self, texts: Iterable[Int32s] = ()) -> None:
        self._bytes, self._offsets, self._token_shape = TemporaryBytes(NEEDS), array("q", [0]), tuple[int, ...]()
        for tokens in texts:
            self.append(tokens)

    def __len__(self) -> int:
        """Tokens stored."""
        return self._offsets[-1]

    @property
    def offsets(self) -> Int64s:
        """Where each text begins, and the last one ends, (N + 1,)."""
        return np.array(self._offsets, np.int64)

    def append(self, tokens: Sequence[int] | Int32s) -> None:
        """Add the tokens of a text at the end: numbers, or rows of equal length."""
        tokens = np.asarray(tokens, dtype=np.int32)
        self._bytes.append(tokens.tobytes())
        self._offsets.append(len(self) + len(tokens))
        self._token_shape = tokens.shape[1:]

    def __getitem__(self, span: slice, /) -> Int32s:
        """The tokens from one position to another, as an array that cannot be written to; only they are read."""
        start, stop, _ = span.indices(len(self))
        token_bytes = math.prod(self._token_shape) * ITEM_BYTES
        return np.frombuffer(self._bytes.read(start * token_bytes, stop * token_bytes), np.int32).reshape(-1, *self._token_shape)
