"""Labelled texts as numbers: read once as a stream, then split, indexed and encoded with NumPy."""

from __future__ import annotations

import sys
from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from time import monotonic
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from mha_cli.arrays import Array, Bools, Floats, Int32s, Int64s
from mha_cli.config.decisions import Facts
from mha_cli.config.settings import TextConfig
from mha_cli.corpus.batches import Rows, padded
from mha_cli.corpus.data_issues import RARE, DataIssues, count_repeats, find_variants
from mha_cli.corpus.token_store import TokenStore
from mha_cli.errors import MhaError, listed, plural, printable
from mha_cli.records.reader import StreamWarnings
from mha_cli.sources.combined_labels import combined_in_words, find_combined
from mha_cli.sources.held_out import groups_by_names, held_out_groups, names_in
from mha_cli.sources.labelled_text import Label, LabelledText, place_of
from mha_cli.sources.labels import ODD_NAMES, ONE_CLASS, find_respelt, name_of
from mha_cli.sources.targets import Labels, are_several, class_sizes, names_in_labels, numbers_of_labels, rarest_classes
from mha_cli.system.callbacks import Callbacks
from mha_cli.text.encoding import TextPipeline, ids_of
from mha_cli.text.pieces import PieceTokenizer
from mha_cli.text.tokenizer import make_tokenizer
from mha_cli.text.vocabulary import FOREIGN, NO_WORDS, PADDING_ID, UNKNOWN_ID, Vocabulary, cut, most_frequent, warning_of_unknown

CHUNK_TOKENS = 1 << 20  # tokens that are looked at together
MOST_LABELS = 10_000  # labels of which a text may have several: tables have a column for each

Item = TypeVar("Item")


@dataclass(frozen=True)
class EncodedTexts:
    """Texts as the model reads them."""

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
    def longest_readings(self) -> Int64s:
        """Tokens or pieces of each text, whichever are more, (N,)."""
        return self.lengths if self.pieces is None else np.maximum(self.lengths, self.pieces.lengths)

    @property
    def num_unknown(self) -> int:
        """Tokens that the vocabulary does not have."""
        return self.count(UNKNOWN_ID)

    def count(self, ids: npt.ArrayLike) -> int:
        """Tokens that have one of the given ids."""
        starts = range(0, len(self.tokens), CHUNK_TOKENS)
        return sum(int(np.isin(ids_of(self.tokens[start : start + CHUNK_TOKENS]), ids).sum()) for start in starts)

    def warning(self, vocabulary: Vocabulary, way_out: str = FOREIGN) -> str:
        """A warning if many of the words are unknown, with what to do; else an empty string."""
        return warning_of_unknown(self.num_unknown, len(self.tokens) - self.count(np.flatnonzero(vocabulary.is_mark)), way_out)

    def padded(self, rows: Rows, values: Floats | None = None, length: int = 1) -> Array:
        """Tokens of some texts, or ``values`` of all tokens (P, …) there, as one array (B, L, …) padded with zeros; L ≥ ``length``."""
        numbers = self.tokens if values is None else values
        of_rows = [numbers[self.offsets[row] : self.offsets[row + 1]] for row in rows]
        return padded(of_rows, length, np.int32 if values is None else np.float32)

    def readings(self, rows: Rows) -> list[Int32s]:
        """What a classifier takes of some texts: padded pieces, if there are any, and padded tokens."""
        return [one.padded(rows) for one in (self.pieces, self) if one is not None]

    def subset(self, rows: Rows) -> EncodedTexts:
        """Some of the texts; ``num_truncated`` is then an upper bound, since cut texts are not marked."""
        tokens = TokenStore(self.tokens[self.offsets[row] : self.offsets[row + 1]] for row in rows)
        offsets = np.concatenate([[0], np.cumsum(self.lengths[rows])])
        pieces = None if self.pieces is None else self.pieces.subset(rows)
        weights = None if self.weights is None else self.weights[rows]
        return EncodedTexts(tokens, offsets, self.labels[rows], self.num_truncated, pieces, weights)

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


def refuse_unlearnable(where: str, sizes: Mapping[str, int], has_words: bool, are_files: bool, num_texts: int) -> None:
    """Refuse texts that no classifier could learn from.

    Args:
        sizes: number of texts of each class.
        has_words: whether any text has a word.
        are_files: whether each text is a whole file, in the folder of its class.
    """
    num_single, num_labels = sum(size == 1 for size in sizes.values()), sum(sizes.values())
    if not sizes:
        raise MhaError(f"{where}: no text has a label", "a classifier needs texts of at least two classes")
    largest = max(sizes, key=sizes.__getitem__)
    if sizes[largest] == num_labels:
        found = "every text has" if num_labels == num_texts else f"the only label, of {num_labels:,} of {num_texts:,} texts, is"
        raise MhaError(f"{where}: {found} the class '{printable(largest)}'", "a classifier needs texts of at least two classes")
    if num_single > num_labels / 2:
        num_combined, example, separator = find_combined(sizes)
        hint = "check the label column"
        if are_files:
            hint = "each .txt file is one text: give every text a file of its own, or write a table with columns of texts and labels"
        if num_combined:
            hint = f"labels look like several in one ({combined_in_words(example, separator)}): set data.label_separator to it"
        found = plural(num_labels, "text" if num_labels == num_texts else "label")
        raise MhaError(f"{where}: {num_single:,} of {found} have a class of their own", hint)
    if missing := [name for name, size in sizes.items() if not size]:
        raise MhaError(f"{where}: the class '{printable(missing[0])}' has no text", "each class needs at least one to be learnt from")
    if not has_words:
        raise MhaError(f"{where}: none of the {plural(num_texts, 'text')} has a word", "is the text column the right one?")


class _PieceReader:
    """Texts as a pretrained encoder reads them, one after another; without its tokenizer nothing is kept."""

    def __init__(self, tokenizer: PieceTokenizer | None) -> None:
        self._tokenizer, self._ids, self._offsets = tokenizer, TokenStore(), array("q", [0])

    def read(self, text: str) -> str:
        """Keep the pieces of a text, and hand the text on."""
        if self._tokenizer is not None:
            self._ids.append(self._tokenizer.ids(text))
            self._offsets.append(len(self._ids))
        return text

    def encoded(self, labels: Labels) -> EncodedTexts | None:
        """All texts so far with their class ids; None without a tokenizer."""
        if self._tokenizer is None:
            return None
        return EncodedTexts(self._ids, np.array(self._offsets, np.int64), labels, 0)


class Corpus:
    """Labelled texts as numbers, counted and split before there is a vocabulary.

    Every distinct token gets a provisional number as it comes, so one pass over the source is enough: the split is drawn, the tokens
    of the training part are counted, and the ids of the vocabulary replace the provisional numbers.

    Args:
        class_names: names in the order of their ids; None takes them from the labels, numbers by value, else alphabetical.
        where: source in words, for messages.
        by_names: True if ``split`` keeps texts that share rare names on one side.
        pieces: tokenizer of a pretrained encoder, which reads the texts as well; None without one.
        learnable: False to accept texts that no classifier could learn from, such as a test split of one class.
        first_classes: names of the classes that come first without ``class_names``; these may lack texts.
    """

    def __init__(
        self,
        texts: Iterable[LabelledText],
        settings: TextConfig,
        class_names: tuple[str, ...] | None,
        where: str,
        by_names: bool = False,
        pieces: PieceTokenizer | None = None,
        learnable: bool = True,
        first_classes: tuple[str, ...] = (),
    ) -> None:
        self._where = where
        tokenize = make_tokenizer(settings)
        numbers: dict[str, int] = {}
        labels: dict[str | tuple[str, ...], int] = {}
        self._tokens = TokenStore()
        self._pieces = _PieceReader(pieces)
        offsets, label_numbers, text_hashes, weights = array("q", [0]), array("i"), array("q"), array("f")
        first_numbers, stages, relabelled = array("i"), array("i"), array("i")
        self._names: list[list[str]] | None = [] if by_names else None
        self._spellings = Counter[tuple[str, str]]()
        for one in texts:
            if self._names is not None:
                self._names.append(list(map(sys.intern, names_in(one.text))))  # one string for all texts that have the name
            self._tokens.append([numbers.setdefault(token, len(numbers)) for token in tokenize(one.text)])
            offsets.append(len(self._tokens))
            self._pieces.read(one.text)
            label_numbers.append(labels.setdefault(one.label, len(labels)))
            first_numbers.append(label_numbers[-1] if one.first_label is None else labels.setdefault(one.first_label, len(labels)))
            stages.append(one.stage)
            relabelled.append(one.relabelled)
            text_hashes.append(hash(one.text))
            weights.append(one.weight)
            if one.spelling:
                self._spellings[str(one.label), one.spelling] += 1
        if not label_numbers:
            raise MhaError(f"{where}: no texts", "give labelled texts of at least two classes")
        self._distinct = list(numbers)
        self._offsets = np.frombuffer(offsets, np.int64)
        self.lengths = np.diff(self._offsets)  # tokens of each text, (N,)
        self.hashes = np.frombuffer(text_hashes, np.int64)  # the same for equal texts, (N,)
        self.weights = None if set(weights) == {1.0} else np.array(weights, np.float32)  # how much each text counts, (N,); None for 1 each
        self.stages = np.array(stages, np.int32)  # file of ``data.more`` that each text comes from, (N,), from 1; 0 for the others
        self.relabelled = np.array(relabelled, np.int32)  # file of ``data.more`` that changed its label, (N,), from 1; 0 for none
        further = _in_order({*names_in_labels(labels)} - {*first_classes})
        self.class_names = class_names if class_names is not None else (*first_classes, *further)
        self._labels, self._label_numbers = list(labels), np.array(label_numbers, np.int32)
        if len(self.class_names) > MOST_LABELS and not all(isinstance(label, str) for label in labels):
            raise MhaError(f"{where}: {len(self.class_names):,} labels, more than {MOST_LABELS:,}", "are label column and separator right?")
        numbers_of = numbers_of_labels(list(labels), self.class_names)
        self.labels, self._first_labels = numbers_of[self._label_numbers], numbers_of[np.array(first_numbers, np.int32)]
        sizes = class_sizes(self.labels, len(self.class_names)).tolist()
        self.sizes = dict(zip(self.class_names, sizes, strict=True))  # texts of each class, by its name
        if learnable:
            learnt = {name: size for name, size in self.sizes.items() if size or name not in first_classes}
            refuse_unlearnable(where, learnt, bool(len(self._tokens)), one.line is None, len(self))

    def __len__(self) -> int:
        """Number of texts."""
        return len(self.labels)

    def data_issues(self, read: StreamWarnings) -> DataIssues:
        """Likely mistakes, with the counts of the reader of the texts."""
        has_words = self.lengths > 0
        num_repeated, num_two_labels = count_repeats(self.hashes[has_words], self._label_numbers[has_words])
        num_variants, variants = find_variants(self._spellings, self.sizes)
        mean_size = len(self) / max(1, sum(size > 0 for size in self.sizes.values()))
        num_combined, combined, separator = (0, "", "") if are_several(self.labels) else find_combined(self.sizes)
        return DataIssues(
            num_wordless=int((~has_words).sum()),
            num_repeated=num_repeated,
            num_two_labels=num_two_labels,
            num_respelt=len(find_respelt(self.sizes)),
            missing=tuple(name for name, size in self.sizes.items() if size and name in ODD_NAMES),
            rare=() if are_several(self.labels) else tuple(name for name, size in self.sizes.items() if 0 < size < RARE * mean_size),
            num_variants=num_variants,
            variants=variants,
            num_combined=num_combined,
            combined=combined,
            combined_separator=separator,
            num_blank=read.num_blank,
            num_quoted_rows=read.num_quoted_rows,
        )

    @property
    def learnt(self) -> Iterator[tuple[int, Label]]:
        """Hash and label of each text with words."""
        has_words = self.lengths > 0
        labels = map(self._labels.__getitem__, self._label_numbers[has_words].tolist())
        return zip(self.hashes[has_words].tolist(), labels, strict=True)

    def count_known(self, hashes: Iterable[int], rows: Rows | slice = slice(None)) -> int:
        """How many texts with these hashes are equal to a text of ``rows`` that has words."""
        return int(np.isin(np.fromiter(hashes, np.int64), self.hashes[rows][self.lengths[rows] > 0]).sum())

    def split(self, validation_share: float, seed: int) -> tuple[Rows, Rows]:
        """Rows to train on and rows to validate with: stratified by class, or texts that share names together.

        The only text of a class is trained on. Of several classes, a text's rarest counts. ``validation_share`` is in (0, 1). Neither later
        texts nor later labels change the part of the others.
        """
        first = np.flatnonzero(self.stages == 0)
        classes = rarest_classes(self._first_labels[first])
        rows = first[np.bincount(classes)[classes] > 1]
        if not len(rows):  # which one class per text is refused for
            raise MhaError(f"{self._where}: every text is the only one of its rarest label", "give several texts of each label")
        labels = classes[rows]
        if self._names is None:
            from sklearn.model_selection import train_test_split

            num_validation = max(round(len(rows) * validation_share), len(np.unique(labels)))
            _, drawn = train_test_split(rows, test_size=num_validation, stratify=labels, random_state=seed)
            validation = np.sort(drawn)
        else:
            validation = np.intersect1d(held_out_groups(groups_by_names(self._names), validation_share, seed), rows)
        for stage in range(1, int(self.stages.max()) + 1):
            validation = np.concatenate([validation, self._held_out_of_stage(stage, validation_share, seed)])
        train = np.setdiff1d(np.arange(len(self)), validation)
        if self._names is not None and any(len(np.setdiff1d(labels, classes[part])) for part in (train, validation)):
            fault = f"{self._where}: texts that share names cannot be split so that both parts have every class"
            raise MhaError(fault, "take data.validation=random")
        if self.weights is not None:
            train, validation = (part[self.weights[part] > 0] for part in (train, validation))
            if not (len(train) and len(validation)):
                raise MhaError(f"{self._where}: no text has a weight above 0 now", "0 leaves a text out; give the others a weight of 1")
        return train, validation

    def _held_out_of_stage(self, stage: int, share: float, seed: int) -> Rows:
        """Rows of a file of ``data.more`` to validate with: a share of each class, and of a class that is new there at least one."""
        rows, earlier = np.flatnonzero(self.stages == stage), self.stages < stage
        classes = rarest_classes(self._first_labels[rows])
        rng, drawn = np.random.default_rng((seed, stage)), list[int]()
        for class_id in np.unique(classes):
            own = rows[classes == class_id]
            is_new = len(own) > 1 and class_id not in rarest_classes(self._first_labels[earlier])
            drawn += rng.permutation(own)[: max(round(share * len(own)), is_new)].tolist()
        return np.sort(np.array(drawn, np.int64))

    def facts(self, known: Vocabulary = NO_WORDS, new_share: float = 1.0) -> Facts:
        """The numbers that decide settings; see ``Facts`` for the arguments."""
        words = [token for token in self._distinct if any(map(str.isalpha, token))]
        return Facts(
            num_texts=len(self),
            num_classes=len(self.class_names),
            num_tokens=int(self.lengths.sum()),
            num_words=len({*self._distinct, *known.tokens[len(NO_WORDS) :]}),
            characters=sum(map(len, words)) / max(1, len(words)),
            median_length=int(np.median(self.lengths)),
            usual_length=int(np.quantile(self.lengths, 0.98, method="inverted_cdf")),
            known_words=len(known) - len(NO_WORDS),
            new_share=new_share,
        )

    def characters(self) -> Counter[str]:
        """How often each character of a token occurs in all texts."""
        found = Counter[str]()
        for token, number in zip(self._distinct, self._count_tokens(np.arange(len(self)))[0].tolist(), strict=True):
            for character in token:
                found[character] += number
        return found

    def vocabulary(self, rows: Rows, size: int, first: Vocabulary = NO_WORDS) -> Vocabulary:
        """The tokens of ``first``, then the most frequent other ones of some texts, ``size`` ids at most."""
        counts = self._count_tokens(rows)[0]
        counts[np.array(first.ids(self._distinct)) != UNKNOWN_ID] = 0
        further = most_frequent(self._distinct, counts, size - len(first) + len(NO_WORDS))
        return Vocabulary(first.tokens[len(NO_WORDS) :] + further.tokens[len(NO_WORDS) :]) if len(first) > len(NO_WORDS) else further

    def unknown_share(self, vocabulary: Vocabulary, of_others: bool = False) -> float:
        """Share of all tokens that a vocabulary lacks; with ``of_others``, tokens of a single text are unknown, as for the other texts."""
        counts, num_texts = self._count_tokens(np.arange(len(self)))
        known = np.array(vocabulary.ids(self._distinct)) != UNKNOWN_ID
        if of_others:
            known &= num_texts > 1
        return 1 - int(counts[known].sum()) / int(counts.sum()) if len(self._distinct) else 0.0

    def encode(self, rows: Rows, vocabulary: Vocabulary, settings: TextConfig) -> EncodedTexts:
        """Some of the texts with the ids of a vocabulary, cut to length."""
        final = TextPipeline(settings, vocabulary).tokens(self._distinct)
        encoded = _join((final[self._tokens_of(row)] for row in rows), self.labels[rows], settings)
        pieces = self._pieces.encoded(self.labels)
        weights = None if self.weights is None else self.weights[rows]
        return replace(encoded, pieces=None if pieces is None else pieces.subset(rows), weights=weights)

    def words(self, row: int) -> list[str]:
        """The tokens of one text."""
        return [self._distinct[number] for number in self._tokens_of(row)]

    def _count_tokens(self, rows: Rows) -> tuple[Int64s, Int64s]:
        """Occurrences of each distinct token in some texts, and the number of these texts that have it."""
        counts, num_texts = np.zeros((2, len(self._distinct)), np.int64)
        for row in rows:
            tokens, numbers = np.unique(self._tokens_of(row), return_counts=True)
            counts[tokens] += numbers
            num_texts[tokens] += 1
        return counts, num_texts

    def _tokens_of(self, row: int) -> Int32s:
        """Provisional numbers of the tokens of one text."""
        return self._tokens[self._offsets[row] : self._offsets[row + 1]]


def of_known_classes(
    texts: Iterable[LabelledText], class_names: Collection[str], is_multi_label: bool, separator: str | None = None
) -> Iterator[LabelledText]:
    """The same texts with the class names of a model; each with a list of them if the model gives several, which a ``separator`` split."""
    known = {name_of(name): name for name in class_names} | {name: name for name in class_names}
    for one in texts:
        given = one.label if isinstance(one.label, tuple) else (one.label,)
        if unknown := [name for name in given if name not in known]:
            split = f", which '{printable(separator)}' separates in one cell" if separator else ""
            hint = f"the model knows {listed([*map(printable, class_names)])}{split}"
            raise MhaError(f"{place_of(one.file, one.line)}: the class is '{printable(unknown[0])}'", hint)
        labels = tuple([known[name] for name in given])
        if not is_multi_label and isinstance(one.label, tuple):
            raise MhaError(f"{place_of(one.file, one.line)}: the label is a list", ONE_CLASS)
        yield one._replace(label=labels if is_multi_label else labels[0])


def encode_labelled(texts: Iterable[LabelledText], encoder: TextPipeline, class_names: tuple[str, ...], where: str) -> EncodedTexts:
    """Labelled texts as a trained model reads them; see ``of_known_classes``."""
    labels = list[str | tuple[str, ...]]()

    def labels_taken() -> Iterator[str]:
        for one in texts:
            labels.append(one.label)
            yield one.text

    encoded = encode_texts(labels_taken(), encoder)
    if not len(encoded):
        raise MhaError(f"{where}: no texts", "give labelled texts to score")
    class_labels = numbers_of_labels(labels, class_names)
    pieces = None if encoded.pieces is None else replace(encoded.pieces, labels=class_labels)
    return replace(encoded, labels=class_labels, pieces=pieces)


def encode_texts(texts: Iterable[str], encoder: TextPipeline) -> EncodedTexts:
    """Texts without a class as a model reads them; their labels are zeros."""
    reader = _PieceReader(encoder.pieces)
    encoded = _join((encoder.tokens(encoder.tokenize(reader.read(text))) for text in texts), None, encoder.settings)
    return replace(encoded, pieces=reader.encoded(encoded.labels))


def join_texts(first: EncodedTexts, second: EncodedTexts) -> EncodedTexts:
    """All texts of the first, then all of the second."""
    return EncodedTexts(
        TokenStore(texts.tokens[start:stop] for texts in (first, second) for start, stop in pairwise(texts.offsets)),
        np.concatenate([first.offsets, first.offsets[-1] + second.offsets[1:]]),
        np.concatenate([first.labels, second.labels]),
        first.num_truncated + second.num_truncated,
        None if first.pieces is None or second.pieces is None else join_texts(first.pieces, second.pieces),
        None if first.weights is second.weights is None else np.concatenate([first.weights_or_ones, second.weights_or_ones]),
    )


def counted(texts: Iterable[Item], name: str, callbacks: Callbacks, every: int = 500) -> Iterator[Item]:
    """The texts of a source; their number so far is told after every ``every`` texts, and after every second."""
    number, last = 0, monotonic()
    for number, one in enumerate(texts, start=1):
        yield one
        if number % every == 0 or monotonic() - last > 1:
            last = monotonic()
            callbacks.count(f"reading {name}: {plural(number, 'text')}")
    callbacks.count(f"reading {name}: {plural(number, 'text')}")


def _join(texts: Iterable[Int32s], labels: Labels | None, settings: TextConfig) -> EncodedTexts:
    """Cut every text to length and lay them one after another."""
    stored, offsets, num_truncated = TokenStore(), array("q", [0]), 0
    for tokens in texts:
        stored.append(cut(tokens, settings.sequence_length, settings.truncation))
        offsets.append(len(stored))
        num_truncated += len(tokens) > settings.sequence_length
    class_ids = np.zeros(len(offsets) - 1, np.int32) if labels is None else labels
    return EncodedTexts(stored, np.frombuffer(offsets, dtype=np.int64), class_ids, num_truncated)


def _in_order(labels: Collection[str]) -> tuple[str, ...]:
    """Class names in the order of their ids: numbers by value, else alphabetical."""
    try:
        return tuple(sorted(labels, key=int))
    except ValueError:
        return tuple(sorted(labels))


def drop_words(tokens: Int32s, dropped_BL: Bools) -> Int32s:
    """The same batch, (B, L) or (B, L, 1 + W), with the unknown token for dropped words; their characters and padding stay."""
    kept = tokens.copy()
    ids = kept[..., 0] if tokens.ndim == 3 else kept
    ids[dropped_BL & (ids != PADDING_ID)] = UNKNOWN_ID
    return kept
