"""A recipe's validation score on reviews of films that it has not trained on.

    python benchmarks/films.py configs/imdb.yaml                          # an accuracy an epoch, and the linear model's
    python benchmarks/films.py configs/imdb.yaml --set training.epochs=5

IMDB's training and test split have no film in common, but two training reviews often speak of one film. A validation part drawn at
random therefore flatters: names tell the film, and the film the verdict. Here reviews that share rare capitalised words are taken to
speak of one film, and whole groups are held out. No review of the test split is read.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy.sparse import triu
from sklearn.feature_extraction.text import TfidfVectorizer

from mha_cli.config import Config, load_config
from mha_cli.data.corpus import Corpus
from mha_cli.data.reviews import Review
from mha_cli.data.sources import open_source
from mha_cli.training.preparation import PreparedData, one_hot

NAME = r"(?<![.!?]\s)\b[A-Z][a-zA-Z']{2,}\b"
"""A capitalised word that does not begin a sentence."""

SAME_FILM = 0.25
"""Cosine similarity of names from which two reviews are taken to speak of one film."""

MOST_OF_A_FILM = 60
"""IMDB has at most 30 reviews of a film and class."""

LEAST_OF_A_FILM = 4
HELD_OUT = 4_000


def films(texts: list[str]) -> npt.NDArray[np.int64]:
    """A number for the film of every review: reviews linked by similar names, the most similar first, in groups of limited size."""
    names = TfidfVectorizer(token_pattern=NAME, lowercase=False, min_df=2, max_df=MOST_OF_A_FILM, sublinear_tf=True).fit_transform(texts)
    similar = triu(names @ names.T, k=1).tocoo()
    strong = similar.data > SAME_FILM
    order = np.argsort(-similar.data[strong], kind="stable")
    film, size = list(range(len(texts))), [1] * len(texts)

    def film_of(review: int) -> int:
        while film[review] != review:
            film[review] = film[film[review]]
            review = film[review]
        return review

    for first, second in zip(similar.row[strong][order], similar.col[strong][order], strict=True):
        one, other = film_of(int(first)), film_of(int(second))
        if one != other and size[one] + size[other] <= MOST_OF_A_FILM:
            film[other] = one
            size[one] += size[other]
    return np.array([film_of(review) for review in range(len(texts))])


def held_out_films(of_review: npt.NDArray[np.int64], seed: int) -> npt.NDArray[np.int64]:
    """Rows of about ``HELD_OUT`` reviews: whole films, drawn at random from those with several reviews."""
    numbers, counts = np.unique(of_review, return_counts=True)
    rng = np.random.default_rng(seed)
    chosen = rng.permutation(numbers[counts >= LEAST_OF_A_FILM])
    sizes = np.cumsum([counts[np.searchsorted(numbers, film)] for film in chosen])
    return np.flatnonzero(np.isin(of_review, chosen[: int(np.searchsorted(sizes, HELD_OUT)) + 1]))


def prepare_by_film(config: Config) -> PreparedData:
    """The training split, with whole films held out for validation."""
    source = open_source(config.data)
    reviews: list[Review] = list(source.read(source.splits[0]))
    validation = held_out_films(films([review.text for review in reviews]), config.seed)
    train = np.setdiff1d(np.arange(len(reviews)), validation)
    corpus = Corpus(reviews, config.text, source.class_names, source.name)
    vocabulary = corpus.vocabulary(train)
    learnt = corpus.encode(train, vocabulary)
    targets = one_hot(learnt.labels, len(corpus.class_names))
    return PreparedData(learnt, targets, corpus.encode(validation, vocabulary), vocabulary, corpus.class_names)


def main() -> None:
    """Train a recipe and print its score after every epoch."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe", type=Path)
    parser.add_argument("--set", action="append", default=[], metavar="KEY.PATH=VALUE", dest="overrides")
    arguments = parser.parse_args()
    config = load_config(arguments.recipe, arguments.overrides)
    data = prepare_by_film(config)
    print(f"{len(data.train):,} reviews to learn from, {len(data.validation):,} of other films to validate with")

    from mha_cli.training.loop import Trainer, fit, mean_loss_and_accuracy, predict_probabilities
    from mha_cli.training.stacking import fit_stack, probabilities_of

    trainer = Trainer(config, data)
    scores, labels = trainer.validation_scores, data.validation.labels
    if config.model.score_ngrams:
        alone = fit_stack(np.zeros_like(scores), scores, labels).logits(np.zeros_like(scores), scores)
        loss, accuracy = mean_loss_and_accuracy(probabilities_of(alone), labels)
        print(f"n-gram scores alone: accuracy {accuracy:.4f}, loss {loss:.4f}")
    for record in fit(trainer, lambda _: None):
        encoder = predict_probabilities(trainer.forward, data.validation, len(data.class_names))
        loss, accuracy = mean_loss_and_accuracy(encoder, labels)
        print(
            f"epoch {record.epoch}: accuracy {record.validation_accuracy:.4f}, loss {record.validation_loss:.4f}; "
            f"encoder alone: accuracy {accuracy:.4f}, loss {loss:.4f}; on what it trains on {record.train_accuracy:.4f}; "
            f"{record.reviews_per_second:.0f} reviews/s",
            flush=True,
        )


if __name__ == "__main__":
    main()
