"""From a config to what the training loop needs: encoded reviews, a vocabulary and class names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mha_cli.config import Config
from mha_cli.data.corpus import Corpus, EncodedReviews, counted
from mha_cli.data.sources import open_source
from mha_cli.text.vocabulary import Vocabulary


@dataclass(frozen=True)
class PreparedData:
    """The training split, divided and encoded.

    Args:
        train: reviews to learn from.
        validation: reviews that choose the best epoch, never learnt from.
        vocabulary: built from ``train`` only.
        class_names: names in the order of their ids.
    """

    train: EncodedReviews
    validation: EncodedReviews
    vocabulary: Vocabulary
    class_names: tuple[str, ...]


def prepare(config: Config, tell: Callable[[str], None] = lambda _: None) -> PreparedData:
    """Read the training split, hold out the validation part, build the vocabulary and encode both.

    Args:
        config: the run.
        tell: called with a line of text as reading goes on.
    """
    source = open_source(config.data, tell)
    split = source.splits[0]
    reviews = counted(source.read(split), lambda number: tell(f"reading {source.name}: {number:,} reviews"))
    corpus = Corpus(reviews, config.text, source.class_names, f"{source.name}, split {split}")
    train_rows, validation_rows = corpus.split(config.data.validation_share, config.seed)
    vocabulary = corpus.vocabulary(train_rows)
    return PreparedData(
        train=corpus.encode(train_rows, vocabulary),
        validation=corpus.encode(validation_rows, vocabulary),
        vocabulary=vocabulary,
        class_names=corpus.class_names,
    )
