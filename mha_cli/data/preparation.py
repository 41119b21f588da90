"""From a data source to what training and scoring need: encoded reviews, a vocabulary and class names. TensorFlow comes later."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mha_cli.checkpoint.file import Checkpoint
from mha_cli.config.settings import Config, SampleData, TfdsData
from mha_cli.data.corpus import Corpus, EncodedReviews, counted, encode_reviews, encode_texts
from mha_cli.data.files import FileReviews
from mha_cli.data.sources import DataSection, open_source
from mha_cli.errors import MhaError
from mha_cli.system.watcher import SILENT, Watcher
from mha_cli.text.encoding import TextEncoder
from mha_cli.text.vocabulary import Vocabulary, doubt_of_unknown


@dataclass(frozen=True)
class PreparedData:
    """The training split, divided and encoded.

    Args:
        train: reviews to learn from, N.
        targets: probability of each class that they are to be given, (N, C).
        validation: reviews that choose the best epoch, never learnt from.
        vocabulary: ids of the words of ``train``.
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


def prepare(config: Config, watcher: Watcher = SILENT) -> PreparedData:
    """Read the training split, hold out the validation part, build the vocabulary and encode both.

    Args:
        config: settings of the run.
        watcher: reporter of what goes on.
    """
    source = open_source(config.data, watcher.log)
    unlabelled = source.unlabelled()  # first, since a path that is wrong is refused at once
    split = source.splits[0]
    reviews = counted(source.read(split), lambda number: watcher.log(f"reading {source.name}: {number:,} texts"))
    corpus = Corpus(reviews, config.text, source.class_names, f"{source.name}, split {split}", config.data.validation == "names")
    if isinstance(source, FileReviews):
        _note_oddities(corpus, source, watcher)
    train_rows, validation_rows = corpus.split(config.data.validation_share, config.seed)
    vocabulary = corpus.vocabulary(train_rows)
    train, validation = (corpus.encode(rows, vocabulary) for rows in (train_rows, validation_rows))
    encoded = None
    if unlabelled is not None:
        texts = counted(unlabelled, lambda number: watcher.log(f"reading {source.name}: {number:,} texts without labels"))
        encoded = encode_texts(texts, TextEncoder(config.text, vocabulary))
    return PreparedData(
        train=train,
        targets=one_hot(train.labels, len(corpus.class_names)),
        validation=validation,
        vocabulary=vocabulary,
        class_names=corpus.class_names,
        unlabelled=encoded,
    )


def _note_oddities(corpus: Corpus, source: FileReviews, watcher: Watcher) -> None:
    """Note what seldom is meant in training data, and of reviews that stand in the test data too: scores on those say too much."""
    counts = {
        "without a word": corpus.num_wordless,
        "repeated to the letter": corpus.num_repeated,
        "texts with two labels": corpus.num_two_labels,
        "blank lines left out": source.num_blank,
    }
    found = ", ".join(f"{what}: {number:,}" for what, number in counts.items() if number)
    if found:
        watcher.note(f"{source.name}, {len(corpus):,} texts; {found}")
    for split in source.splits[1:]:
        try:
            known = corpus.count_known(review.text for review in source.read(split))
        except MhaError as error:  # no reason not to train, but one to know of before the hours that it may take
            watcher.note(f"the {split} data cannot be read: {error}")
        else:
            if known:
                watcher.note(f"{source.name}: {known:,} texts of the {split} data are among the training data, to the letter")


def one_hot(labels: npt.NDArray[np.int32], num_classes: int) -> npt.NDArray[np.float32]:
    """(N, C): 1 for the class of the label and 0 for the others."""
    return np.eye(num_classes, dtype=np.float32)[labels]


@dataclass(frozen=True)
class LabelledReviews:
    """A split of a data source as a model reads it.

    Args:
        data: source in words.
        split: split of the source.
        reviews: reviews, at least one.
    """

    data: str
    split: str
    reviews: EncodedReviews


def labelled_reviews(checkpoint: Checkpoint, data: DataSection, split: str | None = None, watcher: Watcher = SILENT) -> LabelledReviews:
    """Read a split of a data source for a checkpoint's model.

    Args:
        checkpoint: model that reads the split.
        data: source of the reviews.
        split: split of the source; its test split by default. ``validation`` is the part held out in training.
        watcher: reporter of what goes on.

    Raises:
        MhaError: the data cannot be read, or a review takes more memory than there is to be taken.
    """
    source = open_source(data, watcher.log, by_options=True)
    config = checkpoint.config
    if split == "validation" and split not in source.splits:
        corpus = Corpus(source.read(source.splits[0]), config.text, checkpoint.class_names, source.name, data.validation == "names")
        _, rows = corpus.split(data.validation_share, config.seed)
        encoded = corpus.encode(rows, checkpoint.vocabulary)
    else:
        split = split or default_split(data)
        reviews = counted(source.read(split), lambda number: watcher.log(f"reading {source.name}, split {split}: {number:,} texts"))
        encoder = TextEncoder(config.text, checkpoint.vocabulary)
        encoded = encode_reviews(reviews, encoder, checkpoint.class_names, f"{source.name}, split {split}")
    checkpoint.forward_pass.refuse_too_long(int(encoded.lengths.max(initial=0)))
    if doubt := doubt_of_unknown(encoded.num_unknown, len(encoded.token_ids)):
        watcher.note(f"{source.name}, split {split}: {doubt}")
    return LabelledReviews(source.name, split, encoded)


def default_split(data: DataSection) -> str:
    """The split that is scored when none is named."""
    return data.test_split if isinstance(data, TfdsData) else "test"


def word_order_split(data: DataSection) -> str | None:
    """The split on which a model shows whether it reads word order; None for the default one."""
    return "twins" if isinstance(data, SampleData) else None
