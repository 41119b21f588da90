"""Texts as the model reads them: ids of a vocabulary, cut to length, on disk."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from mha_cli.arrays import Array, Floats, Int32s, Int64s
from mha_cli.config.settings import TextConfig
from mha_cli.corpus.batches import Rows, padded
from mha_cli.corpus.token_store import TokenStore
from mha_cli.errors import MhaError, listed, printable
from mha_cli.sources.labelled_text import Label, LabelledText, place_of
from mha_cli.sources.labels import ONE_CLASS, in_levels, levels_in, name_of
from mha_cli.sources.targets import Labels, numbers_of_labels
from mha_cli.text.encoding import TextPipeline, ids_of
from mha_cli.text.vocabulary import FOREIGN, UNKNOWN_ID, Vocabulary, cut, warning_of_unknown

CHUNK_TOKENS = 1 << 20  # tokens that are looked at together


@dataclass(frozen=True)
class EncodedTexts:
    """Texts as the model reads them: all tokens one after another, with the labels."""

    tokens: TokenStore | Int32s  # all texts one after another, (P,) or with subwords (P, 1 + W); on disk, unless few
    offsets: Int64s  # int64 (N + 1,); text i is ``tokens[offsets[i]:offsets[i + 1]]``
    labels: Labels  # class ids, (N,), or the classes that each text has, (N, C); see ``targets``
    num_truncated: int  # texts that were cut to length
    pieces: EncodedTexts | None = None  # the same texts as a pretrained encoder reads them; None without one
    weights: Floats | None = None  # how much each text counts in training, (N,); None for all alike

    def __len__(self) -> int:
        """Number of texts."""
        return len(self.labels)

    @property
    def lengths(self) -> Int64s:
        """Tokens of each text, (N,)."""
        return np.diff(self.offsets)

    @property
    def weights_or_ones(self) -> Floats:
        """How much each text counts in training, (N,)."""
        return np.ones(len(self), np.float32) if self.weights is None else self.weights

    @property
    def for_encoder(self) -> EncodedTexts:
        """The texts as the encoder reads them: in pieces, or as they are."""
        return self if self.pieces is None else self.pieces

    @property
    def input_lengths(self) -> Int64s:
        """Tokens or pieces of each text, whichever are more, (N,)."""
        return self.lengths if self.pieces is None else np.maximum(self.lengths, self.pieces.lengths)

    @property
    def num_unknown(self) -> int:
        """Tokens that the vocabulary does not have."""
        return self.count(UNKNOWN_ID)

    @property
    def have_characters(self) -> bool:
        """Whether tokens have characters, from which subwords are read."""
        return self.tokens[:0].ndim == 2

    def count(self, ids: npt.ArrayLike) -> int:
        """Tokens that have one of the given ids."""
        starts = range(0, len(self.tokens), CHUNK_TOKENS)
        return sum(int(np.isin(ids_of(self.tokens[start : start + CHUNK_TOKENS]), ids).sum()) for start in starts)

    def warning(self, vocabulary: Vocabulary, way_out: str = FOREIGN) -> str:
        """A warning if many words are unknown, with a way out; else an empty string."""
        return warning_of_unknown(self.num_unknown, len(self.tokens) - self.count(np.flatnonzero(vocabulary.is_mark)), way_out)

    def __getitem__(self, row: int) -> Int32s:
        """The tokens of a text, (L,) or (L, 1 + W)."""
        return self.tokens[self.offsets[row] : self.offsets[row + 1]]

    def padded(self, rows: Rows, values: Floats | None = None, length: int = 1) -> Array:
        """Tokens of some texts, or of ``values`` of all tokens, (P, …), as one array, (B, L, …), padded with zeros; L ≥ ``length``."""
        numbers = self.tokens if values is None else values
        of_rows = [numbers[self.offsets[row] : self.offsets[row + 1]] for row in rows]
        return padded(of_rows, length, np.int32 if values is None else np.float32)

    def inputs(self, rows: Rows) -> list[Int32s]:
        """The inputs of a classifier for some texts: padded pieces, if it has any, and padded tokens."""
        return [texts.padded(rows) for texts in (self.pieces, self) if texts is not None]

    def subset(self, rows: Rows) -> EncodedTexts:
        """Some of the texts; ``num_truncated`` is then an upper bound, since cut texts are not marked."""
        tokens = TokenStore(self[row] for row in rows)
        pieces = None if self.pieces is None else self.pieces.subset(rows)
        weights = None if self.weights is None else self.weights[rows]
        return EncodedTexts(tokens, tokens.offsets, self.labels[rows], self.num_truncated, pieces, weights)

    def arrays(self) -> Iterator[Array]:
        """All numbers of the texts, in parts, for a digest."""
        yield from (self.offsets, self.labels, self.weights_or_ones)
        yield from (self.tokens[start : start + CHUNK_TOKENS] for start in range(0, len(self.tokens), CHUNK_TOKENS))
        if self.pieces is not None:
            yield from self.pieces.arrays()

    def random_part(self, most: int | None, rng: np.random.Generator) -> EncodedTexts:
        """``most`` of the texts, drawn at random, in their order; all of them for None or if there are no more."""
        rows = self.random_rows(most, rng)
        return self if len(rows) == len(self) else self.subset(rows)

    def random_rows(self, most: int | None, rng: np.random.Generator) -> Int64s:
        """The numbers of the texts that ``random_part`` gives."""
        if not most or most >= len(self):
            return np.arange(len(self))
        return np.sort(rng.choice(len(self), most, replace=False))


def of_known_classes(
    texts: Iterable[LabelledText],
    class_names: Collection[str],
    is_multi_label: bool,
    separator: str | None = None,
    levels: str | None = None,
) -> Iterator[LabelledText]:
    """The same texts with the class names of a model: a tuple of names if its texts have several labels. ``separator`` is for messages.

    ``levels`` separates the levels of labels; white space around it does not count.
    """
    known = {name_of(name): name for name in class_names} | {name: name for name in class_names}
    if levels:
        texts = in_levels(texts, levels, {levels_in(name, levels): name for name in class_names})
    for text in texts:
        given = text.label if isinstance(text.label, tuple) else (text.label,)
        if unknown := [name for name in given if name not in known]:
            split = f", which '{printable(separator)}' separates in one cell" if separator else ""
            hint = f"the model knows {listed([*map(printable, class_names)])}{split}"
            raise MhaError(f"{place_of(text.file, text.line)}: the class is '{printable(unknown[0])}'", hint)
        labels = tuple([known[name] for name in given])
        if not is_multi_label and isinstance(text.label, tuple):
            raise MhaError(f"{place_of(text.file, text.line)}: the label is a list", ONE_CLASS)
        yield text._replace(label=labels if is_multi_label else labels[0])


def encode_labelled(texts: Iterable[LabelledText], pipeline: TextPipeline, class_names: tuple[str, ...], where: str) -> EncodedTexts:
    """Labelled texts as a trained model reads them; see ``of_known_classes``."""
    labels = list[Label]()

    def without_labels() -> Iterator[str]:
        for text in texts:
            labels.append(text.label)
            yield text.text

    encoded = encode_texts(without_labels(), pipeline)
    if not len(encoded):
        raise MhaError(f"{where}: no texts", "give labelled texts to score")
    class_labels = numbers_of_labels(labels, class_names)
    pieces = None if encoded.pieces is None else replace(encoded.pieces, labels=class_labels)
    return replace(encoded, labels=class_labels, pieces=pieces)


def encode_texts(texts: Iterable[str], pipeline: TextPipeline) -> EncodedTexts:
    """Texts without a class as a model reads them; their labels are zeros."""
    pieces = TokenStore()

    def words() -> Iterator[Int32s]:
        for text in texts:
            if pipeline.pieces is not None:
                pieces.append(pipeline.pieces.ids(text))
            yield pipeline.tokens(pipeline.tokenize(text))

    encoded = encoded_rows(words(), None, pipeline.settings)
    return encoded if pipeline.pieces is None else replace(encoded, pieces=EncodedTexts(pieces, pieces.offsets, encoded.labels, 0))


def encoded_rows(texts: Iterable[Int32s], labels: Labels | None, settings: TextConfig) -> EncodedTexts:
    """Texts of tokens, each cut to length, with their labels, by default zeros."""
    stored, num_truncated = TokenStore(), 0
    for tokens in texts:
        stored.append(cut(tokens, settings.sequence_length, settings.truncation))
        num_truncated += len(tokens) > settings.sequence_length
    offsets = stored.offsets
    return EncodedTexts(stored, offsets, np.zeros(len(offsets) - 1, np.int32) if labels is None else labels, num_truncated)


def join_texts(first: EncodedTexts, second: EncodedTexts) -> EncodedTexts:
    """All texts of the first, then all of the second."""
    tokens = TokenStore(texts[row] for texts in (first, second) for row in range(len(texts)))
    return EncodedTexts(
        tokens,
        tokens.offsets,
        np.concatenate([first.labels, second.labels]),
        first.num_truncated + second.num_truncated,
        None if first.pieces is None or second.pieces is None else join_texts(first.pieces, second.pieces),
        None if first.weights is second.weights is None else np.concatenate([first.weights_or_ones, second.weights_or_ones]),
    )
