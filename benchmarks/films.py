"""A recipe's validation score on reviews of films that it has not trained on.

    python benchmarks/films.py configs/imdb.yaml                          # an epoch a line, after the linear model
    python benchmarks/films.py configs/imdb.yaml --set training.epochs=5

IMDB's training and test split have no film in common, but two training reviews often speak of one film. A validation part drawn at
random therefore flatters: names tell the film, and the film the verdict. Here reviews that share rare capitalised words are taken to
speak of one film, and whole groups are held out. No review of the test split is read. What is alone has
the scale and the shift that are best for these reviews.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from mha_cli.config.loading import load_config
from mha_cli.data.preparation import prepare

HELD_OUT = 0.16
"""Of the training reviews: about 4,000 of IMDB's."""


def main() -> None:
    """Train a recipe and print its score after every epoch."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe", type=Path)
    parser.add_argument("--set", action="append", default=[], metavar="KEY.PATH=VALUE", dest="overrides")
    arguments = parser.parse_args()
    config = load_config(arguments.recipe, ["data.validation=names", f"data.validation_share={HELD_OUT}", *arguments.overrides])
    data = prepare(config)
    print(f"{len(data.train):,} reviews to learn from, {len(data.validation):,} of other films to validate with")

    from mha_cli.linear.stacking import Floats, fit_stack, probabilities_of
    from mha_cli.runtime.metrics import mean_loss_and_accuracy
    from mha_cli.training.distribution import Distribution
    from mha_cli.training.loop import fit
    from mha_cli.training.run import fit_all_scores
    from mha_cli.training.trainer import Trainer
    from mha_cli.training.validation import Validation

    to_learn, fitted, _ = fit_all_scores(config, data, print, Distribution())
    validation, labels = Validation(config, data, fitted), data.validation.labels

    def alone(logits: Floats) -> str:
        loss, accuracy = mean_loss_and_accuracy(probabilities_of(fit_stack(logits, None, labels).logits(logits)), labels)
        return f"alone: accuracy {accuracy:.4f}, loss {loss:.4f}"

    scores = validation.scores_NU
    if scores is not None:
        print(f"n-gram scores {alone(scores)}")
    trainer = Trainer(config, to_learn)
    for record in fit(trainer, validation):
        print(
            f"epoch {record.epoch}: accuracy {record.validation_accuracy:.4f}, loss {record.validation_loss:.4f}; "
            f"encoder {alone(trainer.logits(data.validation))}; "
            f"on what it trains on {record.train_accuracy:.4f}; "
            f"{record.reviews_per_second:.0f} reviews/s",
            flush=True,
        )


if __name__ == "__main__":
    main()
