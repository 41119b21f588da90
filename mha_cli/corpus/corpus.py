"""Labelled texts as numbers: read once as a stream, then split, indexed and encoded with NumPy."""

import sys
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from time import monotonic
from typing import TypeVar

import numpy as np

from mha_cli.arrays import Int32s, Int64s
from mha_cli.config.decisions import Facts
from mha_cli.config.settings import TextConfig
from mha_cli.corpus.batches import Rows
from mha_cli.corpus.data_issues import RARE, DataIssues, count_repeats, refuse_unlearnable
from mha_cli.corpus.encoded_texts import EncodedTexts, encoded_rows
from mha_cli.corpus.token_store import TokenStore
from mha_cli.errors import MhaError, plural
from mha_cli.records.reader import StreamWarnings
from mha_cli.sources.combined_labels import find_combined
from mha_cli.sources.held_out import groups_by_names, held_out_groups, names_in
from mha_cli.sources.labelled_text import Label, LabelledText
from mha_cli.sources.labels import ODD_NAMES, find_respelt
from mha_cli.sources.targets import are_several, class_sizes, names_in_labels, numbers_of_labels, rarest_classes
from mha_cli.system.callbacks import Callbacks
from mha_cli.text.encoding import TextPipeline
from mha_cli.text.pieces import PieceTokenizer
from mha_cli.text.tokenizer import make_tokenizer
from mha_cli.text.vocabulary import NO_WORDS, UNKNOWN_ID, Vocabulary, most_frequent

_ROW = np.dtype(
    [("hash", "i8"), ("label", "i4"), ("first_label", "i4"), ("stage", "i4"), ("relabelled", "i4"), ("weight", "f4"), ("is_file", "?")]
)
MOST_LABELS = 10_000  # labels of which a text may have several: tables have a column for each


Item = TypeVar("Item")


class Corpus:
    """Labelled texts as numbers, counted and split before there is a vocabulary.

    Every distinct token gets a provisional number as it comes, so one pass over the source is enough: the split is drawn, the tokens
    of the training part are counted, and the ids of the vocabulary replace the provisional numbers.

    Args:
        class_names: names in the order of their ids; None takes them from the labels, numbers by value, else alphabetical.
        by_names: True if ``split`` keeps texts that share rare names on one side.
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
        tokenize, numbers, label_numbers = make_tokenizer(settings), dict[str, int](), dict[Label, int]()
        self._where, self._tokens, self._pieces = where, TokenStore(), None if pieces is None else TokenStore()
        self._names: list[list[str]] | None = [] if by_names else None

        def row_of(text: LabelledText) -> tuple[int | float, ...]:
            self._tokens.append([numbers.setdefault(token, len(numbers)) for token in tokenize(text.text)])
            if self._pieces is not None and pieces is not None:
                self._pieces.append(pieces.ids(text.text))
            if self._names is not None:
                self._names.append(list(map(sys.intern, names_in(text.text))))  # one string for all texts that have the name
            label = label_numbers.setdefault(text.label, len(label_numbers))
            first_label = label if text.first_label is None else label_numbers.setdefault(text.first_label, len(label_numbers))
            return hash(text.text), label, first_label, text.stage, text.relabelled, text.weight, text.line is None

        rows = np.fromiter(map(row_of, texts), _ROW)
        if not len(rows):
            raise MhaError(f"{where}: no texts", "give labelled texts of at least two classes")
        self._distinct, self._labels = list(numbers), list(label_numbers)
        self._offsets = self._tokens.offsets
        self.lengths = np.diff(self._offsets)  # tokens of each text, (N,)
        self.hashes = rows["hash"]  # the same for equal texts, (N,)
        self.weights = None if (rows["weight"] == 1).all() else rows["weight"].copy()  # how much each text counts, (N,); None for 1 each
        self.stages = rows["stage"]  # file of ``data.more`` that each text comes from, (N,), from 1; 0 for the others
        self.relabelled = rows["relabelled"]  # file of ``data.more`` that changed its label, (N,), from 1; 0 for none
        further = _in_order({*names_in_labels(self._labels)} - {*first_classes})
        self.class_names = class_names if class_names is not None else (*first_classes, *further)
        if len(self.class_names) > MOST_LABELS and not all(isinstance(label, str) for label in self._labels):
            raise MhaError(f"{where}: {len(self.class_names):,} labels, more than {MOST_LABELS:,}", "are label column and separator right?")
        numbers_of = numbers_of_labels(self._labels, self.class_names)
        self._label_numbers = rows["label"]
        self.labels, self._first_labels = numbers_of[self._label_numbers], numbers_of[rows["first_label"]]
        sizes = class_sizes(self.labels, len(self.class_names)).tolist()
        self.sizes = dict(zip(self.class_names, sizes, strict=True))  # texts of each class, by its name
        if learnable:
            learnt = {name: size for name, size in self.sizes.items() if size or name not in first_classes}
            refuse_unlearnable(where, learnt, bool(len(self._tokens)), bool(rows["is_file"][-1]), len(self))

    def __len__(self) -> int:
        """Number of texts."""
        return len(self.labels)

    def data_issues(self, read: StreamWarnings) -> DataIssues:
        """Likely mistakes in the texts, and what the reader of their source has counted."""
        has_words = self.lengths > 0
        num_repeated, num_two_labels = count_repeats(self.hashes[has_words], self._label_numbers[has_words])
        mean_size = len(self) / max(1, sum(size > 0 for size in self.sizes.values()))
        num_combined, combined, separator = (0, "", "") if are_several(self.labels) else find_combined(self.sizes)
        return DataIssues(
            num_wordless=int((~has_words).sum()),
            num_repeated=num_repeated,
            num_two_labels=num_two_labels,
            num_respelt=len(find_respelt(self.sizes)),
            missing=tuple(name for name, size in self.sizes.items() if size and name in ODD_NAMES),
            rare=() if are_several(self.labels) else tuple(name for name, size in self.sizes.items() if 0 < size < RARE * mean_size),
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
        """How many of these hashes are those of a text with words in ``rows``."""
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
        """Rows of a file of ``data.more`` to validate with: a share of each class, and at least one text of a new class."""
        rows, earlier = np.flatnonzero(self.stages == stage), self.stages < stage
        classes = rarest_classes(self._first_labels[rows])
        rng, drawn = np.random.default_rng((seed, stage)), list[int]()
        for class_id in np.unique(classes):
            of_class = rows[classes == class_id]
            is_new = len(of_class) > 1 and class_id not in rarest_classes(self._first_labels[earlier])
            drawn += rng.permutation(of_class)[: max(round(share * len(of_class)), is_new)].tolist()
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
        counts = Counter[str]()
        for token, number in zip(self._distinct, self._count_tokens(np.arange(len(self)))[0].tolist(), strict=True):
            for character in token:
                counts[character] += number
        return counts

    def vocabulary(self, rows: Rows, size: int, first: Vocabulary = NO_WORDS) -> Vocabulary:
        """The tokens of ``first``, then the most frequent other tokens of some texts; ``size`` ids at most."""
        counts = self._count_tokens(rows)[0]
        counts[np.array(first.ids(self._distinct)) != UNKNOWN_ID] = 0
        further = most_frequent(self._distinct, counts, size - len(first) + len(NO_WORDS))
        return Vocabulary(first.tokens[len(NO_WORDS) :] + further.tokens[len(NO_WORDS) :]) if len(first) > len(NO_WORDS) else further

    def unknown_share(self, vocabulary: Vocabulary, of_others: bool = False) -> float:
        """Share of all tokens that a vocabulary lacks; with ``of_others``, also tokens of a single text: the other texts lack them."""
        counts, num_texts = self._count_tokens(np.arange(len(self)))
        known = np.array(vocabulary.ids(self._distinct)) != UNKNOWN_ID
        if of_others:
            known &= num_texts > 1
        return 1 - int(counts[known].sum()) / int(counts.sum()) if len(self._distinct) else 0.0

    def encode(self, rows: Rows, vocabulary: Vocabulary, settings: TextConfig) -> EncodedTexts:
        """Some of the texts with the ids of a vocabulary, cut to length."""
        final = TextPipeline(settings, vocabulary).tokens(self._distinct)
        encoded = encoded_rows((final[self._tokens_of(row)] for row in rows), self.labels[rows], settings)
        weights, pieces = None if self.weights is None else self.weights[rows], None
        if self._pieces is not None:
            pieces = EncodedTexts(self._pieces, self._pieces.offsets, self.labels, 0).subset(rows)
        return replace(encoded, pieces=pieces, weights=weights)

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


def counted(texts: Iterable[Item], name: str, callbacks: Callbacks, every: int = 500) -> Iterator[Item]:
    """The texts of a source; their number is reported after every ``every`` texts, and after every second."""
    number, last = 0, monotonic()
    for number, text in enumerate(texts, start=1):
        yield text
        if number % every == 0 or monotonic() - last > 1:
            last = monotonic()
            callbacks.count(f"reading {name}: {plural(number, 'text')}")
    callbacks.count(f"reading {name}: {plural(number, 'text')}")


def _in_order(labels: Collection[str]) -> tuple[str, ...]:
    """Class names in the order of their ids: numbers by value, else alphabetical."""
    try:
        return tuple(sorted(labels, key=int))
    except ValueError:
        return tuple(sorted(labels))
