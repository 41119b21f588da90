"""From a config to what the training loop needs: encoded reviews, a vocabulary and class names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mha_cli.config import Config, FilesData
from mha_cli.data.corpus import Corpus, EncodedReviews, counted, encode_texts
from mha_cli.data.reviews import ReviewSource
from mha_cli.data.sources import open_source
from mha_cli.errors import MhaError
from mha_cli.text.encoder import TextEncoder
from mha_cli.text.vocabulary import Vocabulary


@dataclass(frozen=True)
class PreparedData:
    """The training split, divided and encoded.

    Args:
        train: reviews to learn from, N.
        targets: (N, C), the probability of each class that they are to be given.
        validation: reviews that choose the best epoch, never learnt from.
        vocabulary: built from ``train`` only.
        class_names: names in the order of their ids.
        unlabelled: reviews without a class, for what needs none; None for none.
        num_guessed: reviews at the end of ``train`` whose class no person gave.
    """

    train: EncodedReviews
    targets: npt.NDArray[np.float32]
    validation: EncodedReviews
    vocabulary: Vocabulary
    class_names: tuple[str, ...]
    unlabelled: EncodedReviews | None = None
    num_guessed: int = 0

    @property
    def labelled(self) -> EncodedReviews:
        """The reviews to learn from whose class is known."""
        return self.train.subset(np.arange(len(self.train) - self.num_guessed)) if self.num_guessed else self.train


def prepare(config: Config, tell: Callable[[str], None] = lambda _: None) -> PreparedData:
    """Read the training split, hold out the validation part, build the vocabulary and encode both.

    Args:
        config: the run.
        tell: called with a line of text as reading goes on.
    """
    source = open_source(config.data, tell)
    unlabelled = source.unlabelled()  # first, since a path that is wrong is told at once
    split = source.splits[0]
    reviews = counted(source.read(split), lambda number: tell(f"reading {source.name}: {number:,} reviews"))
    corpus = Corpus(reviews, config.text, source.class_names, f"{source.name}, split {split}", config.data.validation == "names")
    if isinstance(config.data, FilesData):
        _tell_repeated(corpus, source, tell)
    train_rows, validation_rows = corpus.split(config.data.validation_share, config.seed)
    vocabulary = corpus.vocabulary(train_rows)
    train = corpus.encode(train_rows, vocabulary)
    return PreparedData(
        train=train,
        targets=one_hot(train.labels, len(corpus.class_names)),
        validation=corpus.encode(validation_rows, vocabulary),
        vocabulary=vocabulary,
        class_names=corpus.class_names,
        unlabelled=None if unlabelled is None else _encoded(unlabelled, source.name, config, vocabulary, tell),
    )


def _tell_repeated(corpus: Corpus, source: ReviewSource, tell: Callable[[str], None]) -> None:
    """Tell of reviews that stand in the training data twice, or in the test data too: scores on those say too much."""
    if corpus.num_repeated:
        tell(f"{source.name}: {corpus.num_repeated:,} of {len(corpus):,} reviews repeat an earlier one to the letter")
    for split in source.splits[1:]:
        with suppress(MhaError):  # what is wrong with test data is for `mha evaluate` to say
            known = corpus.count_known(review.text for review in source.read(split))
            if known:
                tell(f"{source.name}: {known:,} reviews of the {split} data are among the training data, to the letter")


def _encoded(texts: Iterator[str], name: str, config: Config, vocabulary: Vocabulary, tell: Callable[[str], None]) -> EncodedReviews:
    texts = counted(texts, lambda number: tell(f"reading {name}: {number:,} texts without labels"))
    return encode_texts(texts, TextEncoder(config.text, vocabulary))


def one_hot(labels: npt.NDArray[np.int32], num_classes: int) -> npt.NDArray[np.float32]:
    """(N, C): 1 for the class of the label and 0 for the others."""
    return np.eye(num_classes, dtype=np.float32)[labels]
