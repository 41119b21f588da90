"""Many texts to token ids at once, in NumPy: what the tokenizer and the vocabulary give, several times as fast.

Axes: N tokens of all texts.
"""

import re
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from mha_cli.arrays import Int32s, Int64s
from mha_cli.text.patterns import may_have_addresses
from mha_cli.text.tokenizer import LINE_BREAK
from mha_cli.text.vocabulary import SPECIAL_TOKENS, UNKNOWN_ID, Vocabulary

KEY_BYTES = 16  # bytes of a word that the table compares
MOST_CHARACTERS = 1 << 18  # read together: few enough for a core's cache; they take 30 MB at most
_LETTER, _MARK, _APOSTROPHE = 1, 2, 3
_KINDS = bytes(
    _APOSTROPHE if x == "'" else _LETTER if x.isalnum() else _MARK * (x != "_" and not x.isspace()) for x in map(chr, range(256))
)
_MASKS = np.frombuffer(b"".join((b"\xff" * n).ljust(KEY_BYTES, b"\0") for n in range(KEY_BYTES + 1)), np.uint64).reshape(-1, 2)
_FACTORS = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F], np.uint64)  # odd, and far from round
_latin_1 = re.compile(r"[\x01-\xac\xae-\xff]*").fullmatch


def is_readable(text: str) -> bool:
    """Whether a ``LatinReader`` reads a text: it has only Latin-1, no address, no soft hyphen and no NUL."""
    return bool(_latin_1(text)) and len(text) < MOST_CHARACTERS and not may_have_addresses(text)


class LatinReader:
    """Token ids of texts, by a table with the most frequent short word of each hash; ``UNKNOWN_ID`` where no short word has it.

    The table also has the words themselves, so a word that only shares the hash is found out. It and long words are left to the vocabulary.
    """

    def __init__(self, vocabulary: Vocabulary, punctuation: bool) -> None:
        self._vocabulary, self._punctuation = vocabulary, punctuation
        short = [token if len(token) <= KEY_BYTES and _latin_1(token) else "" for token in vocabulary.tokens]
        self._keys = np.array([token.encode("latin-1") for token in short], f"S{KEY_BYTES}").view(np.uint64).reshape(-1, 2)
        self._bits = (4 * len(vocabulary)).bit_length()
        self._ids = np.full(1 << self._bits, UNKNOWN_ID, np.int32)
        ids = np.arange(len(SPECIAL_TOKENS), len(vocabulary), dtype=np.int32)[::-1]
        self._ids[self._hashes(self._keys[ids])] = ids

    def ids(self, texts: Sequence[str]) -> Iterator[Int32s]:
        """The ids of all tokens of each text, (L,)."""
        ends = np.cumsum([len(text) for text in texts])
        for group in np.split(np.arange(len(texts)), np.flatnonzero(np.diff(ends // MOST_CHARACTERS)) + 1):
            yield from self._ids_of([texts[row].lower() for row in group])

    def _ids_of(self, texts: Sequence[str]) -> list[Int32s]:
        texts = [LINE_BREAK.sub(" ", text) for text in texts]
        whole = "\n".join(["", *texts, "\n" * KEY_BYTES])
        letters = whole.encode("latin-1")
        kinds = np.frombuffer(letters.translate(_KINDS), np.uint8)
        inside = kinds == _LETTER
        inside[1:-1] |= (kinds[1:-1] == _APOSTROPHE) & inside[:-2] & inside[2:]
        marks = (kinds >= _MARK) & ~inside & self._punctuation
        starts_N = np.flatnonzero(marks[1:-1] | (inside[1:-1] > inside[:-2])) + 1
        lengths_N = np.flatnonzero(marks[1:-1] | (inside[1:-1] > inside[2:])) + 2 - starts_N
        keys_N2 = np.ndarray((len(letters) - KEY_BYTES + 1, 2), np.uint64, letters, strides=(1, KEY_BYTES // 2))[starts_N]
        keys_N2 &= _MASKS.take(lengths_N, axis=0, mode="clip")
        ids_N = self._ids.take(self._hashes(keys_N2))
        differs_N2 = self._keys.take(ids_N, axis=0) != keys_N2
        others = np.flatnonzero((differs_N2[:, 0] | differs_N2[:, 1]) & (ids_N != UNKNOWN_ID) | (lengths_N > KEY_BYTES))
        spans = zip(starts_N[others].tolist(), (starts_N + lengths_N)[others].tolist(), strict=True)
        ids_N[others] = self._vocabulary.ids([whole[start:end] for start, end in spans])
        return np.split(ids_N, np.searchsorted(starts_N, np.cumsum([len(text) + 1 for text in texts[:-1]]) + 1))

    def _hashes(self, keys_N2: npt.NDArray[np.uint64]) -> Int64s:
        mixed_N = keys_N2[:, 0] * _FACTORS[0] ^ keys_N2[:, 1] * _FACTORS[1]
        hashes_N: npt.NDArray[np.uint64] = (mixed_N ^ mixed_N >> np.uint64(32)) * _FACTORS[0] >> np.uint64(64 - self._bits)
        return hashes_N.astype(np.int64)
