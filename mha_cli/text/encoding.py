"""Text to tokens as the model reads them: tokenizer, vocabulary and truncation in one.

A token is an id; with ``text.subword_characters`` it is a row of 1 + W numbers, its id and its characters.
"""

import unicodedata
from collections.abc import Sequence
from functools import cached_property
from itertools import compress
from typing import NamedTuple

import numpy as np

from mha_cli.arrays import Int32s
from mha_cli.config.settings import TextConfig
from mha_cli.errors import JOINT
from mha_cli.text.latin_texts import LatinReader, is_readable
from mha_cli.text.pieces import PieceTokenizer
from mha_cli.text.tokenizer import make_splitter, make_tokenizer
from mha_cli.text.vocabulary import UNKNOWN_ID, Vocabulary, cut

MANY_TEXTS, MANY_CHARACTERS = 64, 4_000  # texts from which ``LatinReader`` is worth making; once it is, characters from which it is faster


class EncodedText(NamedTuple):
    """A text as the model reads it."""

    tokens: Int32s  # tokens that are kept, ``sequence_length`` at most, int32 (L,) or (L, 1 + W)
    num_tokens: int  # tokens of the whole text
    num_unknown: int  # unknown tokens among those kept
    num_marks: int  # known punctuation marks among those kept
    pieces: Int32s | None = None  # ids of the pieces that a pretrained encoder reads, int32 (P,); None without one

    @property
    def for_encoder(self) -> Int32s:
        """What the encoder reads: the pieces, or the tokens."""
        return self.tokens if self.pieces is None else self.pieces

    @property
    def input_length(self) -> int:
        """Tokens that are kept, or pieces, whichever are more."""
        return len(self.tokens) if self.pieces is None else max(len(self.tokens), len(self.pieces))


class TextPipeline:
    """From a text to the tokens that the model reads, and to the pieces that a pretrained encoder reads."""

    def __init__(self, settings: TextConfig, vocabulary: Vocabulary, pieces: PieceTokenizer | None = None) -> None:
        self.settings = settings
        self.pieces = pieces
        self.vocabulary = vocabulary
        self.tokenize = make_tokenizer(settings)
        self._split = make_splitter(settings)
        self._limits = settings.sequence_length, settings.truncation

    def encode(self, text: str) -> EncodedText:
        """The tokens of a text, cut to ``sequence_length``."""
        words = self.tokenize(text)
        return self._counted(text, self.tokens(cut(words, *self._limits)), len(words))

    def encode_all(self, texts: Sequence[str]) -> list[EncodedText]:
        """``encode`` of each text; many are read together."""
        is_made = "latin_reader" in vars(self) and sum(map(len, texts)) >= MANY_CHARACTERS
        if self.settings.subword_characters or not (is_made or len(texts) >= MANY_TEXTS):
            return list(map(self.encode, texts))
        readable = list(map(is_readable, texts))
        ids = self.latin_reader.ids(list(compress(texts, readable)))
        return [self._of_ids(text, next(ids)) if is_latin else self.encode(text) for text, is_latin in zip(texts, readable, strict=True)]

    @cached_property
    def latin_reader(self) -> LatinReader:
        """The reader of many texts."""
        return LatinReader(self.vocabulary, self.settings.punctuation)

    def _of_ids(self, text: str, ids: Int32s) -> EncodedText:
        return self._counted(text, cut(ids, *self._limits), len(ids))

    def _counted(self, text: str, tokens: Int32s, num_tokens: int) -> EncodedText:
        ids = ids_of(tokens)
        num_unknown, num_marks = int(np.count_nonzero(ids == UNKNOWN_ID)), int(np.count_nonzero(self.vocabulary.is_mark.take(ids)))
        return EncodedText(tokens, num_tokens, num_unknown, num_marks, None if self.pieces is None else self.pieces.ids(text))

    def tokens(self, words: Sequence[str]) -> Int32s:
        """Words from ``tokenize`` as numbers: their ids, (L,), or with subwords their ids and their characters, (L, 1 + W)."""
        ids = np.array(self.vocabulary.ids(words), dtype=np.int32)
        if not self.settings.subword_characters:
            return ids
        return np.concatenate([ids[:, None], characters_of(words, self.settings.subword_characters)], axis=1)

    def read_words(self, text: str) -> list[str]:
        """The words that the model reads, as their writer wrote them: one for every token of ``encode``."""
        return cut(self._split(text), *self._limits)

    def part_of_words(self, text: str) -> list[int]:
        """For each of ``read_words``, the number of the part of the text that it stands in, from 0."""
        return cut([number for number, part in enumerate(text.split(JOINT)) for _ in self._split(part)], *self._limits)


def characters_of(words: Sequence[str], num_characters: int) -> Int32s:
    """The code points of each word between ``<`` and ``>``, decomposed (NFD), (N, W); cut to W characters, or filled up with zeros.

    Decomposed, a Korean syllable is its two or three letters. Subwords of 3 to 5 syllables would be as long as whole words.

    Source: Bojanowski et al. 2017, "Enriching Word Vectors with Subword Information", section 3.2: the ends tell a prefix from an infix;
    Park et al. 2018, "Subword-level Word Vector Representations for Korean", section 3.1: letters instead of syllables.
    """
    decomposed = [unicodedata.normalize("NFD", word) for word in words]
    whole = "".join([f"<{word}>"[:num_characters].ljust(num_characters, "\0") for word in decomposed])
    return np.frombuffer(whole.encode("utf-32-le", "surrogatepass"), dtype="<i4").astype(np.int32).reshape(len(words), num_characters)


def ids_of(tokens: Int32s) -> Int32s:
    """The ids of tokens (P,) or (P, 1 + W), (P,)."""
    return tokens[:, 0] if tokens.ndim == 2 else tokens
