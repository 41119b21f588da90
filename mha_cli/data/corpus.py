"""Labelled reviews as numbers: read once as a stream, then split, indexed and encoded with NumPy."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from mha_cli.config.settings import TextConfig
from mha_cli.data.batches import Rows, padded
from mha_cli.data.names import groups_by_names, held_out_groups, names_in
from mha_cli.data.reviews import Review
from mha_cli.data.token_store import TokenStore
from mha_cli.errors import MhaError, printable
from mha_cli.text.encoding import TextEncoder
from mha_cli.text.tokenizer import make_tokenizer
from mha_cli.text.vocabulary import PADDING_ID, UNKNOWN_ID, Vocabulary, kept_slices, most_frequent

CHUNK_TOKENS = 1 << 20
"""Tokens that are looked at together."""

Item = TypeVar("Item")


@dataclass(frozen=True)
class EncodedReviews:
    """Reviews as the model reads them.

    Args:
        token_ids: ids of all reviews one after another; on disk, unless there are few.
        offsets: int64 (N + 1,); review i is ``token_ids[offsets[i]:offsets[i + 1]]``.
        labels: int32 (N,), class ids.
        num_truncated: reviews that were cut to length.
    """

    token_ids: TokenStore | npt.NDArray[np.int32]
    offsets: npt.NDArray[np.int64]
    labels: npt.NDArray[np.int32]
    num_truncated: int

    def __len__(self) -> int:
        """Number of reviews."""
        return len(self.labels)

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Tokens of each review, (N,)."""
        return np.diff(self.offsets)

    @property
    def num_unknown(self) -> int:
        """Tokens that the vocabulary does not have."""
        starts = range(0, len(self.token_ids), CHUNK_TOKENS)
        return sum(int((self.token_ids[start : start + CHUNK_TOKENS] == UNKNOWN_ID).sum()) for start in starts)

    def padded(self, rows: Rows, values: npt.NDArray[np.float32] | None = None) -> npt.NDArray[Any]:
        """Token ids of the given reviews, (len(rows), longest of them), filled up with zeros; at least one column wide.

        Args:
            rows: reviews to take.
            values: numbers for the tokens of all reviews, (P, …), to give in place of the ids.
        """
        numbers = self.token_ids if values is None else values
        of_rows = [numbers[self.offsets[row] : self.offsets[row + 1]] for row in rows]
        return padded(of_rows, dtype=np.int32 if values is None else np.float32)

    def subset(self, rows: Rows) -> EncodedReviews:
        """Some of the reviews; ``num_truncated`` is then no more than an upper bound, since cut reviews are not marked."""
        token_ids = TokenStore()
        for row in rows:
            token_ids.append(self.token_ids[self.offsets[row] : self.offsets[row + 1]])
        offsets = np.concatenate([[0], np.cumsum(self.lengths[rows])])
        return EncodedReviews(token_ids, offsets, self.labels[rows], self.num_truncated)

    def random_part(self, most: int | None, rng: np.random.Generator) -> EncodedReviews:
        """So many of the reviews, drawn at random, in their order; all of them for None and where there are no more, without a draw."""
        if not most or most >= len(self):
            return self
        return self.subset(np.sort(rng.choice(len(self), most, replace=False)))


class Corpus:
    """Reviews as numbers of our own, before there is a vocabulary.

    Every distinct token gets a provisional number as it comes, so that one pass over the source is enough: the split is drawn, the tokens
    of the training part are counted and the final ids are put in afterwards.

    Args:
        reviews: labelled reviews, read once.
        settings: rules by which a text is split.
        class_names: names in the order of their ids; None takes them from the labels (numbers in their order, else alphabetical).
        where: source in words, for messages.
        by_names: split the reviews so that those which share rare names stay on one side.

    Attributes:
        class_names: names in the order of their ids.
        labels: int32 (N,), class ids.
        num_wordless: reviews without a word, which the next two numbers leave out.
        num_repeated: reviews whose text stands before them already, to the letter.
        num_two_labels: different texts that stand there with more than one label.
    """

    def __init__(
        self, reviews: Iterable[Review], settings: TextConfig, class_names: tuple[str, ...] | None, where: str, by_names: bool = False
    ) -> None:
        self._settings = settings
        self._where = where
        tokenize = make_tokenizer(settings)
        numbers: dict[str, int] = {}
        labels: dict[str, int] = {}
        self._tokens = TokenStore()
        offsets, label_numbers, text_hashes = array("q", [0]), array("i"), array("q")
        self._names: list[list[str]] | None = [] if by_names else None
        for review in reviews:
            if self._names is not None:
                self._names.append(list(map(sys.intern, names_in(review.text))))  # one string for all reviews that speak of the same
            self._tokens.append([numbers.setdefault(token, len(numbers)) for token in tokenize(review.text)])
            offsets.append(len(self._tokens))
            label_numbers.append(labels.setdefault(review.label, len(labels)))
            text_hashes.append(hash(review.text))
        self._distinct = list(numbers)
        self._offsets = np.frombuffer(offsets, dtype=np.int64)
        self.class_names = class_names if class_names is not None else _in_order(labels)
        self.labels = _class_ids(labels, self.class_names, where)[np.array(label_numbers, dtype=np.int32)]
        self._refuse_unlearnable()
        has_words = np.diff(self._offsets) > 0
        self.num_wordless = int((~has_words).sum())
        hashes, class_ids = np.frombuffer(text_hashes, dtype=np.int64)[has_words], self.labels[has_words]
        order = np.lexsort((class_ids, hashes))
        hashes, class_ids = hashes[order], class_ids[order]
        repeated = np.diff(hashes) == 0
        self.num_repeated = int(repeated.sum())
        self.num_two_labels = len(np.unique(hashes[1:][repeated & (np.diff(class_ids) != 0)]))
        self._text_hashes = hashes[np.append(True, ~repeated)]

    def __len__(self) -> int:
        """Number of reviews."""
        return len(self.labels)

    def count_known(self, texts: Iterable[str]) -> int:
        """How many of the texts are reviews of this corpus that have words, to the letter."""
        hashes = array("q", map(hash, texts))
        return int(np.isin(np.frombuffer(hashes, dtype=np.int64), self._text_hashes).sum()) if hashes else 0

    def _refuse_unlearnable(self) -> None:
        if not len(self):
            raise MhaError(f"{self._where}: no texts", "give data with at least two texts of each class")
        counts = np.bincount(self.labels, minlength=len(self.class_names))
        if len(self.class_names) < 2 or np.count_nonzero(counts) < 2:
            only = self.class_names[int(counts.argmax())]
            raise MhaError(
                f"{self._where}: every text has the class '{printable(only)}'", "a classifier needs texts of at least two classes"
            )
        num_single = int((counts == 1).sum())
        if num_single > max(2, len(self) / 2):
            raise MhaError(
                f"{self._where}: {num_single:,} of {len(self):,} texts have a class of their own", "is the label column the right one?"
            )
        rare, fewest = int(counts.argmin()), int(counts.min())
        if fewest < 2:
            raise MhaError(
                f"{self._where}: the class '{printable(self.class_names[rare])}' has {fewest} text{'s' * (fewest != 1)}",
                "each class needs at least 2, one to train on and one to validate with",
            )
        if not len(self._tokens):
            raise MhaError(f"{self._where}: none of the {len(self):,} texts has a word", "is the text column the right one?")

    def split(self, validation_share: float, seed: int) -> tuple[Rows, Rows]:
        """Rows to train on and rows to validate with: each class in proportion, or reviews that share names together.

        Args:
            validation_share: part of the reviews to validate with, in (0, 1).
            seed: seed of the split; same seed, same split.
        """
        if self._names is not None:
            return self._split_by_names(self._names, validation_share, seed)
        from sklearn.model_selection import train_test_split

        num_validation = max(round(len(self) * validation_share), len(self.class_names))
        train, validation = train_test_split(np.arange(len(self)), test_size=num_validation, stratify=self.labels, random_state=seed)
        return np.sort(train), np.sort(validation)

    def _split_by_names(self, names: list[list[str]], validation_share: float, seed: int) -> tuple[Rows, Rows]:
        validation = held_out_groups(groups_by_names(names), validation_share, seed)
        train = np.setdiff1d(np.arange(len(self)), validation)
        if any(len(np.unique(self.labels[rows])) < len(self.class_names) for rows in (train, validation)):
            raise MhaError(
                f"{self._where}: texts that share names cannot be parted so that each part has every class", "take data.validation=random"
            )
        return train, validation

    def vocabulary(self, rows: Rows) -> Vocabulary:
        """The most frequent tokens of the given reviews."""
        counts = np.zeros(len(self._distinct), dtype=np.int64)
        for row in rows:
            np.add.at(counts, self._tokens_of(row), 1)
        return most_frequent(self._distinct, counts, self._settings.vocabulary_size, self._settings.min_count)

    def encode(self, rows: Rows, vocabulary: Vocabulary) -> EncodedReviews:
        """The given reviews with the ids of a vocabulary, cut to length."""
        final_ids = np.array(vocabulary.ids(self._distinct), dtype=np.int32)
        return _join((final_ids[self._tokens_of(row)] for row in rows), self.labels[rows], self._settings)

    def _tokens_of(self, row: int) -> npt.NDArray[np.int32]:
        """Provisional numbers of the tokens of one review."""
        return self._tokens[self._offsets[row] : self._offsets[row + 1]]


def encode_reviews(reviews: Iterable[Review], encoder: TextEncoder, class_names: tuple[str, ...], where: str) -> EncodedReviews:
    """Labelled reviews as a trained model reads them.

    Raises:
        MhaError: no reviews, or one of a class that the model does not know.
    """
    class_ids = {name: class_id for class_id, name in enumerate(class_names)}
    labels = array("i")

    def token_ids() -> Iterator[npt.NDArray[np.int32]]:
        for number, review in enumerate(reviews, start=1):
            if review.label not in class_ids:
                raise MhaError(
                    f"{where}: text {number} has the class '{printable(review.label)}'",
                    f"the model knows {', '.join(printable(name) for name in class_names)}",
                )
            labels.append(class_ids[review.label])
            yield np.array(encoder.vocabulary.ids(encoder.tokenize(review.text)), dtype=np.int32)

    encoded = _join(token_ids(), labels, encoder.settings)
    if not len(encoded):
        raise MhaError(f"{where}: no texts", "give labelled texts to score")
    return encoded


def encode_texts(texts: Iterable[str], encoder: TextEncoder) -> EncodedReviews:
    """Texts without a class as a model reads them; their labels are zeros."""
    ids = (np.array(encoder.vocabulary.ids(encoder.tokenize(text)), dtype=np.int32) for text in texts)
    return _join(ids, None, encoder.settings)


def join_reviews(first: EncodedReviews, second: EncodedReviews) -> EncodedReviews:
    """All reviews of the first, then all of the second."""
    token_ids = TokenStore()
    for reviews in (first, second):
        for start, stop in pairwise(reviews.offsets):
            token_ids.append(reviews.token_ids[start:stop])
    return EncodedReviews(
        token_ids,
        np.concatenate([first.offsets, first.offsets[-1] + second.offsets[1:]]),
        np.concatenate([first.labels, second.labels]),
        first.num_truncated + second.num_truncated,
    )


def counted(reviews: Iterable[Item], log: Callable[[int], None], every: int = 500) -> Iterator[Item]:
    """The same reviews; how many have passed is logged now and then."""
    number = 0
    for number, review in enumerate(reviews, start=1):
        yield review
        if number % every == 0:
            log(number)
    log(number)


def _join(reviews: Iterable[npt.NDArray[np.int32]], labels: npt.ArrayLike | array[int] | None, settings: TextConfig) -> EncodedReviews:
    """Cut every review to length and lay them one after another."""
    token_ids, offsets, num_truncated = TokenStore(), array("q", [0]), 0
    for ids in reviews:
        first, second = kept_slices(len(ids), settings.sequence_length, settings.truncation)
        token_ids.append(ids[first])
        token_ids.append(ids[second])
        offsets.append(len(token_ids))
        num_truncated += len(ids) > settings.sequence_length
    class_ids = np.zeros(len(offsets) - 1, np.int32) if labels is None else np.array(labels, np.int32)
    return EncodedReviews(token_ids, np.frombuffer(offsets, dtype=np.int64), class_ids, num_truncated)


def _in_order(labels: Collection[str]) -> tuple[str, ...]:
    """Class names in the order of their ids: numbers by value, else alphabetical."""
    try:
        return tuple(sorted(labels, key=int))
    except ValueError:
        return tuple(sorted(labels))


def _class_ids(labels: dict[str, int], class_names: tuple[str, ...], where: str) -> npt.NDArray[np.int32]:
    """The class id of every label number."""
    for label in labels:
        if label not in class_names:
            raise MhaError(
                f"{where}: a text has the class '{printable(label)}'", f"the classes are {', '.join(map(printable, class_names))}"
            )
    return np.array([class_names.index(label) for label in labels], dtype=np.int32)


def drop_words(token_ids: npt.NDArray[np.int32], share: float, rng: np.random.Generator) -> npt.NDArray[np.int32]:
    """The same reviews with a share of their words turned into the unknown token; padding stays.

    Args:
        token_ids: batch (B, L).
        share: probability of each word, in [0, 1).
        rng: source of chance.
    """
    dropped = (rng.random(token_ids.shape, dtype=np.float32) < share) & (token_ids != PADDING_ID)
    return np.where(dropped, np.int32(UNKNOWN_ID), token_ids)
