"""Results as a person reads them: always on stdout."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from rich.box import SIMPLE
from rich.table import Table
from rich.text import Text

from mha_cli.cli.console import print_figures, print_line, stdout_console, table
from mha_cli.errors import plural, printable

if TYPE_CHECKING:
    from mha_cli.analysis.comparison import Comparison
    from mha_cli.analysis.evaluation import Evaluation, Range
    from mha_cli.analysis.shuffle import ShuffleResult
    from mha_cli.export.formats import Export
    from mha_cli.training.run import TrainingSummary
    from mha_cli.tuning.search import TuningSummary


MOST_CLASSES = 15
"""Classes that a table shows; of more, the worst."""


def training(summary: TrainingSummary, following: str) -> None:
    """The closing table of a training, and the command that may follow."""
    best = summary.best
    calibration = {}
    if "calibration_error_after" in summary.metrics:
        before, after = (summary.metrics[f"calibration_error_{when}"] for when in ("before", "after"))
        calibration = {"calibration error": f"{after:.4f}, without a scale and a shift {before:.4f}"}
    print_figures(
        "Training",
        {
            "checkpoint": str(summary.checkpoint),
            "epoch kept": f"{best.epoch} of {summary.epochs_run}",
            "validation accuracy": f"{best.validation_accuracy:.2%} of {plural(summary.num_validation, 'text')}",
            "validation loss": f"{best.validation_loss:.4f}",
            **calibration,
            "trained on": plural(summary.num_train, "text"),
            "weights": f"{summary.num_parameters:,}",
            "vocabulary": f"{summary.vocabulary_size:,} ids",
            "training time": f"{summary.seconds:.1f} s ({best.reviews_per_second:,.0f} texts/s, {summary.precision})",
        }.items(),
    )
    print_line(f"next: {following}")


def tuning(summary: TuningSummary, following: str) -> None:
    """The settings that were found, what they gain on the texts that chose them, and the command that may follow."""
    best, recipe = summary.best, summary.recipe
    searched = table(["setting"], ["recipe", "best", "matters"], "Settings")
    for name in sorted(best.settings, key=lambda name: -summary.importance.get(name, 0.0)):
        share = f"{summary.importance[name]:.0%}" if name in summary.importance else ""
        searched.add_row(name, *(_short(trial.settings[name]) for trial in (recipe, best)), share)
    stdout_console().print(searched)
    stopped = sum(trial.stopped for trial in summary.trials)
    gain = (best.accuracy or 0.0) - (recipe.accuracy or 0.0)
    luck = f"; perhaps luck in part: the same texts chose the best of {len(summary.trials)}" * (gain > 0)
    gained = "none: no trial was better than the recipe as it is" if best == recipe else f"{100 * gain:+.2f} points{luck}"
    print_figures(
        "Search",
        {
            "trials": f"{len(summary.trials)}, {stopped} of them stopped early, in {summary.seconds / 60:.1f} minutes",
            "recipe as it is": f"validation loss {recipe.loss:.4f}, accuracy {recipe.accuracy:.2%}",
            f"best, trial {best.number}": f"validation loss {best.loss:.4f}, accuracy {best.accuracy:.2%}",
            "standard error": f"{summary.standard_error:.2%} of an accuracy on {plural(summary.num_validation, 'text')}",
            "accuracy gained": gained,
            "settings": str(summary.config),
        }.items(),
    )
    if summary.training:
        training(summary.training, following)
    else:
        print_line(f"nothing new to train; next: {following}")


def evaluation(result: Evaluation) -> None:
    """Figures of a scored split, tables of the classes and of what is taken for what."""
    low, high = result.accuracy_interval
    top = {} if result.top_3_accuracy is None else {"top-3 accuracy": f"{result.top_3_accuracy:.2%}"}
    print_figures(
        f"{result.data}, split {result.split}",
        {
            "texts": f"{result.num_texts:,}",
            "accuracy": f"{result.accuracy:.2%} (95 % interval {low:.2%} to {high:.2%})",
            **top,
            "macro F1": f"{result.macro_f1:.4f}",
            "weighted F1": f"{result.weighted_f1:.4f}",
            "loss": f"{result.loss:.4f}",
            "ROC AUC": "not defined: a class does not occur" if result.roc_auc is None else f"{result.roc_auc:.4f}",
            "calibration error": f"{result.calibration_error:.4f}",
            "cut to length": plural(result.num_truncated, "text"),
            "unknown words": f"{result.unknown_share:.2%}",
            "speed": f"{result.num_texts / result.seconds:,.0f} texts/s",
        }.items(),
    )
    _print_classes(result)
    _print_thresholds(result)
    _print_confusions(result)
    _print_ranges("Answers with a probability of", result.by_probability, ".0%")
    _print_ranges("Texts of so many tokens", result.by_length, ",.0f")


def shuffle(results: list[ShuffleResult]) -> None:
    """A row a model, and the verdict on each in words."""
    first = results[0]
    num_shuffles = len(first.shuffled_accuracies)
    title = f"{printable(first.data)}, split {printable(first.split)}, {plural(first.num_texts, 'text')}, {plural(num_shuffles, 'shuffle')}"
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


def comparison(result: Comparison) -> None:
    """A row a model, and of each but the first how it differs from that."""
    title = f"{printable(result.data)}, split {printable(result.split)}, {plural(result.num_texts, 'text')}"
    models = table(["model"], ["accuracy", "95 % interval", "macro F1", "loss"], Text(title))
    for model in result.models:
        figures = (f"{model.accuracy:.2%}", " to ".join(f"{end:.2%}" for end in model.accuracy_interval), f"{model.macro_f1:.4f}")
        models.add_row(Text(printable(model.name, 200), overflow="fold"), *figures, f"{model.loss:.4f}")
    stdout_console().print(models)
    first, number = result.models[0].name, len(result.differences)
    for one in result.differences:
        low, high = (f"{100 * end:+.2f}" for end in one.accuracy_interval)
        f1_low, f1_high = (f"{end:+.4f}" for end in one.macro_f1_interval)
        p_value = f"p = {one.p_value:.4f}" if one.p_value >= 0.0001 else "p < 0.0001"
        print_figures(
            f"{one.name} against {first}",
            {
                "accuracy": f"{100 * one.accuracy:+.2f} points (95 % interval {low} to {high})",
                "macro F1": f"{one.macro_f1:+.4f} (95 % interval {f1_low} to {f1_high})",
                "right alone": f"on {plural(one.only_this_right, 'text')}; {first} on {one.only_first_right:,}",
                "same answer": f"to {one.same_answers:.2%} of the texts",
                "McNemar's test": p_value + (f", corrected for {number} comparisons" if number > 1 else ""),
                "verdict": one.verdict,
            }.items(),
        )


def export(result: Export) -> None:
    """The path of the export, and how near it comes to the checkpoint."""
    accuracy = result.accuracy
    scored = {"accuracy": "not scored; --data SOURCE scores checkpoint and export"}
    if accuracy is not None:
        scored = {
            "accuracy": f"{accuracy.export:.2%}; of the checkpoint {accuracy.checkpoint:.2%}",
            "scored on": f"{plural(accuracy.num_texts, 'text')}: {accuracy.data}",
            "other answers": f"to {accuracy.num_changed:,} of them",
        }
    print_figures(
        f"Export to {result.format}",
        {
            "written": result.path,
            "size": f"{result.num_bytes:,} bytes",
            "checked on": f"{plural(result.num_texts, 'text')}, alone and in padded batches; another class for {result.num_changed}",
            "largest difference": f"{result.largest_difference:.1e} of a probability (allowed: {result.tolerance:.0e})",
            **scored,
        }.items(),
    )


def _short(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else json.dumps(value)


def _print_classes(result: Evaluation) -> None:
    scores, title = result.classes, "Classes"
    if len(scores) > MOST_CLASSES:
        there = [score for score in scores if score.num_texts]
        scores = sorted(there, key=lambda score: (score.f1 or 0.0, -score.num_texts))[:MOST_CLASSES]
        title = f"The {len(scores)} classes of lowest F1, of {len(result.classes):,} (--json has all)"
    classes = table(["class"], ["precision", "recall", "F1", "texts"], title)
    for score in scores:
        shares = ("–" if share is None else f"{share:.4f}" for share in (score.precision, score.recall, score.f1))
        classes.add_row(Text(printable(score.name), overflow="fold"), *shares, f"{score.num_texts:,}")
    stdout_console().print(classes)


def _print_thresholds(result: Evaluation) -> None:
    """Print the thresholds, if there are any: of many classes those that are not good enough or find least."""
    if not (scores := result.thresholds):
        return
    answers, right = (sum(getattr(score, name) for score in scores) for name in ("num_answers", "num_right"))
    lines = [f"Thresholds: {answers / result.num_texts:.1%} of the texts are answered, {right / max(1, answers):.1%} of these rightly"]
    if missed := sum(score.reached is False for score in scores):
        lines.append(f"{missed:,} of {len(scores):,} classes cannot be as good as that")
    if len(scores) > MOST_CLASSES:
        scores = sorted(scores, key=lambda score: (score.reached is not False, score.recall or 0.0))[:MOST_CLASSES]
        lines.append(f"the {len(scores)} that find least, of {len(result.thresholds):,} (--json has all)")
    shares = ["precision\n(95 % interval)", "recall\n(95 % interval)"]
    drawn = table(["class"], ["threshold", *shares, "answers"], "\n".join(lines))
    for score in scores:
        threshold = "none" if score.reached is False else f"{score.threshold:.4f}"
        precision, recall = _share(score.precision, score.precision_interval), _share(score.recall, score.recall_interval)
        drawn.add_row(Text(printable(score.name), overflow="fold"), threshold, precision, recall, f"{score.num_answers:,}")
    stdout_console().print(drawn)


def _share(share: float | None, interval: tuple[float, float] | None) -> str:
    if share is None or interval is None:
        return "–"
    return f"{share:.1%} ({100 * interval[0]:.1f}–{100 * interval[1]:.1f})"


def _print_confusions(result: Evaluation) -> None:
    """Print the confusion matrix if there are few classes and the terminal has room for it; else the most frequent confusions."""
    console, names = stdout_console(), [printable(score.name) for score in result.classes]
    if len(names) <= MOST_CLASSES:
        unbounded = console.options.update(width=100_000)
        for gap in (" ", "\n"):  # broken by us: Rich makes the widest columns narrower, even than a word
            matrix = table(["true class"], [], "Confusion")
            for name in names:
                matrix.add_column(Text(f"as {name}".replace(" ", gap)), justify="right", no_wrap=True)
            for name, counts in zip(names, result.confusion, strict=True):
                matrix.add_row(Text(name), *(f"{count:,}" for count in counts))
            if console.measure(matrix, options=unbounded).maximum <= console.width:
                console.print(matrix)
                return
    if not result.confusions:
        return
    confusions = table(["true class → answer"], ["texts", "of true\nclass"], "Most frequent confusions")
    for one in result.confusions:
        pair = Text(f"{printable(one.true)} → {printable(one.predicted)}", overflow="fold")
        confusions.add_row(pair, f"{one.num_texts:,}", f"{one.share:.1%}")
    console.print(confusions)


def _print_ranges(title: str, ranges: list[Range], style: str) -> None:
    drawn = table([title], ["texts", "right"])
    for one in ranges:
        above = f"{one.above:{style}} to " if one.above else "up to "
        right = "–" if one.accuracy is None else f"{one.accuracy:.2%}"
        drawn.add_row(f"{above}{one.up_to:{style}}", f"{one.num_texts:,}", right)
    stdout_console().print(drawn)
