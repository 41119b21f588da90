"""Results as a person reads them: always on stdout."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.box import SIMPLE
from rich.table import Table
from rich.text import Text

from mha_cli.cli.console import print_line, stdout_console, table
from mha_cli.errors import printable

if TYPE_CHECKING:
    from mha_cli.analysis.evaluation import Evaluation, Range
    from mha_cli.analysis.shuffle import ShuffleResult
    from mha_cli.export.formats import Export
    from mha_cli.training.run import TrainingSummary


def training(summary: TrainingSummary, following: str) -> None:
    """The closing table of a training, and the command that may follow."""
    best = summary.best
    rate = summary.num_train * summary.epochs_run / summary.seconds
    _print_figures(
        "Training",
        {
            "checkpoint": str(summary.checkpoint),
            "best epoch": f"{best.epoch} of {summary.epochs_run}",
            "validation accuracy": f"{best.validation_accuracy:.2%} of {summary.num_validation:,} texts",
            "validation loss": f"{best.validation_loss:.4f}",
            "trained on": f"{summary.num_train:,} texts",
            "weights": f"{summary.num_parameters:,}",
            "vocabulary": f"{summary.vocabulary_size:,} ids",
            "training time": f"{summary.seconds:.1f} s ({rate:,.0f} texts/s, {summary.precision})",
        },
    )
    print_line(f"next: {following}")


def evaluation(result: Evaluation) -> None:
    """Figures of a scored split, a table of the classes and the confusion matrix."""
    low, high = result.accuracy_interval
    _print_figures(
        f"{result.data}, split {result.split}",
        {
            "texts": f"{result.num_reviews:,}",
            "accuracy": f"{result.accuracy:.2%} (95 % interval {low:.2%} to {high:.2%})",
            "loss": f"{result.loss:.4f}",
            "ROC AUC": "not defined: a class does not occur" if result.roc_auc is None else f"{result.roc_auc:.4f}",
            "calibration error": f"{result.calibration_error:.4f}",
            "cut to length": f"{result.num_truncated:,} texts",
            "unknown words": f"{result.unknown_share:.2%}",
            "speed": f"{result.num_reviews / result.seconds:,.0f} texts/s",
        },
    )
    classes = table(["class"], ["precision", "recall", "F1", "texts"], "Classes")
    for score in result.classes:
        figures = (f"{score.precision:.4f}", f"{score.recall:.4f}", f"{score.f1:.4f}", f"{score.num_reviews:,}")
        classes.add_row(Text(printable(score.name)), *figures)
    stdout_console().print(classes)
    confusion = table(["true class"], [Text(f"as {printable(score.name)}") for score in result.classes], "Confusion")
    for score, counts in zip(result.classes, result.confusion, strict=True):
        confusion.add_row(Text(printable(score.name)), *(f"{count:,}" for count in counts))
    stdout_console().print(confusion)
    _print_ranges("Answers with a probability of", result.by_probability, ".0%")
    _print_ranges("Texts of so many tokens", result.by_length, ",.0f")


def shuffle(results: list[ShuffleResult]) -> None:
    """A row a model, and the verdict on each in words."""
    first = results[0]
    num_shuffles = len(first.shuffled_accuracies)
    title = f"{printable(first.data)}, split {printable(first.split)}, {first.num_reviews:,} texts, {num_shuffles} shuffles"
    drawn = Table("model", "positions", title=Text(title), box=SIMPLE, pad_edge=False)  # narrow: six columns on a terminal of 80
    for heading in ("in order", "shuffled", "flipped", "largest\nchange"):
        drawn.add_column(heading, justify="right", no_wrap=True)
    for result in results:
        drawn.add_row(
            Text(printable(result.name, 200), overflow="fold"),
            result.positions,
            f"{result.accuracy:.2%}",
            f"{100 * result.shuffled_mean:.2f} ± {100 * result.shuffled_spread:.2f} %",
            f"{result.flip_share:.2%}",
            f"{result.largest_change:.1e}",
        )
    stdout_console().print(drawn)
    for result in results:
        print_line(f"{result.name}: {result.verdict}")


def export(result: Export) -> None:
    """The path of the export, and how near it comes to the checkpoint."""
    accuracy = result.accuracy
    scored = {"accuracy": "not scored; --data SOURCE scores checkpoint and export"}
    if accuracy is not None:
        scored = {
            "accuracy": f"{accuracy.export:.2%}; of the checkpoint {accuracy.checkpoint:.2%}",
            "scored on": f"{accuracy.num_reviews:,} texts: {accuracy.data}",
            "other answers": f"to {accuracy.num_changed:,} of them",
        }
    _print_figures(
        f"Export to {result.format}",
        {
            "written": result.path,
            "size": f"{result.num_bytes:,} bytes",
            "checked on": f"{result.num_texts} texts, alone and in padded batches; another class for {result.num_changed}",
            "largest difference": f"{result.largest_difference:.1e} of a probability (allowed: {result.tolerance:.0e})",
            **scored,
        },
    )


def _print_ranges(title: str, ranges: list[Range], style: str) -> None:
    drawn = table([title], ["texts", "right"])
    for one in ranges:
        above = f"{one.above:{style}} to " if one.above else "up to "
        right = "–" if one.accuracy is None else f"{one.accuracy:.2%}"
        drawn.add_row(f"{above}{one.up_to:{style}}", f"{one.num_reviews:,}", right)
    stdout_console().print(drawn)


def _print_figures(title: str, figures: dict[str, str]) -> None:
    drawn = Table(title=Text(printable(title)), show_header=False)
    for name, figure in figures.items():
        drawn.add_row(name, Text(printable(figure, 1000), overflow="fold"))
    stdout_console().print(drawn)
