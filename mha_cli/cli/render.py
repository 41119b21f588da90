"""Results as a person reads them: always on stdout."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.box import SIMPLE

from mha_cli.cli.console import print_figures, print_line, print_table, stdout_console, table
from mha_cli.errors import listed, plural, printable

if TYPE_CHECKING:
    from mha_cli.analysis.comparison import Comparison
    from mha_cli.analysis.evaluation import ClassScore, Evaluation, LabelEvaluation, NoneScores, Range
    from mha_cli.analysis.level_scores import LevelScores
    from mha_cli.analysis.set_scores import SetScores
    from mha_cli.analysis.shuffle import ShuffleResult
    from mha_cli.describe.profile import TextFigures
    from mha_cli.export.formats import Export
    from mha_cli.sources.layout import Layout
    from mha_cli.training.run_files import TrainingSummary


NOT_KNOWN = "not known: no text has a label; 100 that are drawn at random tell it to about 10 points, 400 to 5"
LISTED_CLASSES = 8
LEAST_SHARE = 0.001
TABLE_CLASSES = 15  # classes that a table shows; of more, the worst


def training(summary: TrainingSummary, following: str) -> None:
    """The closing table of a training, and the next command."""
    best = summary.best
    before, after = (summary.metrics.get(f"calibration_error_{when}") for when in ("before", "after"))
    calibration = {} if after is None else {"calibration error": f"{after:.4f}, without a scale and a shift {before:.4f}"}
    if (held_out := summary.metrics.get("accuracy_on_its_held_out_texts")) is not None:
        calibration["on the base's texts"] = f"{held_out:.2%} of those held out; the base {summary.metrics['accuracy_of_base']:.2%}"
    known = {
        "validation accuracy": f"{best.validation_accuracy:.2%} of {plural(summary.num_validation, 'text')}",
        "validation loss": f"{best.validation_loss:.4f}",
        **calibration,
    }
    figures = {
        "checkpoint": str(summary.checkpoint),
        "epoch kept": f"{best.epoch} of {summary.epochs_run}",
        **({"accuracy": NOT_KNOWN} if "guessed_texts" in summary.metrics else known),
        "trained on": plural(summary.num_train, "text"),
        "weights": f"{summary.num_parameters:,}",
        "vocabulary": f"{summary.vocabulary_size:,} ids",
        "training time": f"{summary.seconds:.1f} s ({best.texts_per_second:,.0f} texts/s, {summary.precision})",
    }
    print_figures("Training", figures.items())
    print_line(f"next: {following}")


def evaluation(result: Evaluation) -> None:
    """Figures, classes, thresholds, confusions and accuracy by ranges."""
    low, high = result.accuracy_interval
    top = {} if result.top_3_accuracy is None else {"top-3 accuracy": f"{result.top_3_accuracy:.2%}"}
    figures = {
        "texts": f"{result.num_texts:,}",
        "accuracy": f"{result.accuracy:.2%} (95 % interval {low:.2%} to {high:.2%})",
        **top,
        "macro F1": f"{result.macro_f1:.4f}",
        "weighted F1": f"{result.weighted_f1:.4f}",
        "loss": f"{result.loss:.4f}",
        "ROC AUC": "not defined: a class does not occur" if result.roc_auc is None else f"{result.roc_auc:.4f}",
        "calibration error": f"{result.calibration_error:.4f}",
        **_of_reading(result),
    }
    print_figures(f"{result.data}, split {result.split}", figures.items())
    if result.levels:
        _print_levels(result.levels)
    if result.sets:
        _print_sets(result.sets)
    if result.none:
        _print_none(result.none)
    _print_scores("class", "Classes", result.classes, TABLE_CLASSES)
    _print_thresholds(result)
    _print_confusions(result)
    _print_ranges("Answers with a probability of", result.by_probability, ".0%")
    _print_ranges("Texts of so many tokens", result.by_length, ",.0f")


def _print_levels(scores: LevelScores) -> None:
    accuracies = {f"accuracy of level {level}": f"{accuracy:.2%}" for level, accuracy in enumerate(scores.accuracy, 1)}
    answers = f"{scores.precision:.4f}, {scores.recall:.4f}, {scores.f1:.4f}"
    figures = {
        f"answers of {scores.threshold:.0%} or more": f"{answers} (hierarchical precision, recall, F1)",
        "most probable classes": f"{scores.f1_of_classes:.4f} (hierarchical F1)",
        "wrong classes": f"{scores.num_within:,} in the right branch, {scores.num_across:,} in another",
    }
    print_figures("Levels", (accuracies | figures).items())


def _print_sets(scores: SetScores) -> None:
    """Print the figures of all sets; of many classes, those that are covered least."""
    right = "" if scores.single_right is None else f", {scores.single_right:.1%} of these right"
    figures = {
        "texts covered": _share(scores.coverage, scores.coverage_interval),
        "labels per text": f"{scores.labels:.2f}",
        "a single label": f"{scores.single:.1%} of the texts{right}",
    }
    print_figures(f"Sets of labels for a coverage of {scores.asked:.1%}", figures.items())
    found = sorted((each for each in scores.classes if each.num_texts), key=lambda each: each.coverage or 0.0)[:TABLE_CLASSES]
    rows = [(each.name, f"{each.coverage:.1%}", f"{each.labels:.2f}", f"{each.num_texts:,}") for each in found]
    print_table(["class"], ["covered", "labels\nper text", "texts"], rows, "Sets by class, the least covered first")


def _print_none(scores: NoneScores) -> None:
    figures = {"texts of the classes": f"{scores.answered:.2%} get a label"}
    if scores.caught is not None:
        figures |= {
            "texts of no class": f"{scores.caught:.2%} of {scores.num_texts:,} get none",
            "accuracy with none": f"{scores.accuracy:.2%} of all texts",
            "ROC AUC": f"{scores.roc_auc:.4f}",
        }
    print_figures("None of these", figures.items())


def _of_reading(result: Evaluation | LabelEvaluation) -> dict[str, str]:
    figures = {
        "cut to length": plural(result.num_truncated, "text"),
        "unknown words": f"{result.unknown_share:.2%}",
        "speed": f"{result.num_texts / result.seconds:,.0f} texts/s",
    }
    return figures if result.encoded_share == 1.0 else figures | {"read by the encoder": f"{result.encoded_share:.1%} of the texts"}


def label_evaluation(result: LabelEvaluation) -> None:
    """Figures of several labels per text, and of each label."""
    (low, high), (exact_low, exact_high) = result.micro_f1_interval, result.exact_match_interval
    given, answered = result.labels_per_text
    figures = {
        "texts": f"{result.num_texts:,}",
        "micro F1": f"{result.micro_f1:.4f} (95 % interval {low:.4f} to {high:.4f})",
        "macro F1": f"{result.macro_f1:.4f}",
        "weighted F1": f"{result.weighted_f1:.4f}",
        "exactly right": f"{result.exact_match:.2%} (95 % interval {exact_low:.2%} to {exact_high:.2%})",
        "Hamming loss": f"{result.hamming_loss:.4f}",
        "ranking precision": f"{result.ranking_average_precision:.4f}",
        "loss": f"{result.loss:.4f}",
        "labels per text": f"{given:.2f}; answered {answered:.2f}",
        **_of_reading(result),
    }
    print_figures(f"{result.data}, split {result.split}", figures.items())
    scored = [score for score in result.labels if score.f1 is not None]
    if missed := sum(score.reached is False for score in scored):
        print_line(f"{missed:,} of {plural(len(scored), 'label')} miss the target at every threshold: theirs is 1 or 0")
    _print_scores("label", "Labels", result.labels, 2 * TABLE_CLASSES)


def shuffle(results: list[ShuffleResult]) -> None:
    """One row per model, then a verdict on each in words."""
    first = results[0]
    num_shuffles = len(first.shuffled_accuracies)
    title = f"{first.data}, split {first.split}, {plural(first.num_texts, 'text')}, {plural(num_shuffles, 'shuffle')}"
    rows = []
    for result in results:
        shuffled = f"{100 * result.shuffled_mean:.2f} ± {100 * result.shuffled_spread:.2f} %"
        shares = (f"{result.accuracy:.2%}", shuffled, f"{result.flip_share:.2%}", f"{result.largest_change:.1e}")
        rows.append((result.name, result.positions, *shares))
    figures = ("in order", "shuffled", "flipped", "largest\nchange")
    print_table(["model", "positions"], figures, rows, title, box=SIMPLE, pad_edge=False)  # narrow: six columns on a terminal of 80
    for result in results:
        print_line(f"{result.name}: {result.verdict}")


def comparison(result: Comparison) -> None:
    """One row per model, then how each differs from the first."""
    rows = []
    for model in result.models:
        interval = " to ".join(f"{end:.2%}" for end in model.accuracy_interval)
        rows.append((model.name, f"{model.accuracy:.2%}", interval, f"{model.macro_f1:.4f}", f"{model.loss:.4f}"))
    title = f"{result.data}, split {result.split}, {plural(result.num_texts, 'text')}"
    print_table(["model"], ["accuracy", "95 % interval", "macro F1", "loss"], rows, title)
    first, number = result.models[0].name, len(result.differences)
    for other in result.differences:
        low, high = (f"{100 * end:+.2f}" for end in other.accuracy_interval)
        f1_low, f1_high = (f"{end:+.4f}" for end in other.macro_f1_interval)
        p_value = f"p = {other.p_value:.4f}" if other.p_value >= 0.0001 else "p < 0.0001"
        figures = {
            "accuracy": f"{100 * other.accuracy:+.2f} points (95 % interval {low} to {high})",
            "macro F1": f"{other.macro_f1:+.4f} (95 % interval {f1_low} to {f1_high})",
            "right alone": f"on {plural(other.only_this_right, 'text')}; {first} on {other.only_first_right:,}",
            "same answer": f"to {other.same_answers:.2%} of the texts",
            "McNemar's test": p_value + (f", corrected for {number} comparisons" if number > 1 else ""),
            "verdict": other.verdict,
        }
        print_figures(f"{other.name} against {first}", figures.items())


def export(result: Export) -> None:
    """Path and size of the export, and its largest difference from the checkpoint."""
    accuracy = result.accuracy
    scored = {"accuracy": "not scored; --data SOURCE scores checkpoint and export"}
    if accuracy is not None:
        scored = {
            "accuracy": f"{accuracy.export:.2%}; of the checkpoint {accuracy.checkpoint:.2%}",
            "scored on": f"{plural(accuracy.num_texts, 'text')}: {accuracy.data}",
            "other answers": f"to {accuracy.num_changed:,} of them",
        }
    figures = {
        "written": result.path,
        "size": f"{result.num_bytes:,} bytes",
        "checked on": f"{plural(result.num_texts, 'text')}, alone and in padded batches; another class for {result.num_changed}",
        "largest difference": f"{result.largest_difference:.1e} of a probability (allowed: {result.tolerance:.0e})",
        **scored,
    }
    print_figures(f"Export to {result.format}", figures.items())


def _print_scores(noun: str, title: str, every: Sequence[ClassScore], most: int) -> None:
    """Print the scores of all classes or labels; of more than ``most``, those of the lowest F1."""
    scores = [score for score in every if score.f1 is not None]
    if len(scores) > most:
        with_texts = [score for score in scores if score.num_texts]
        scores = sorted(with_texts, key=lambda score: (score.f1 or 0.0, -score.num_texts))[:TABLE_CLASSES]
        title = f"The {plural(len(scores), noun)} of lowest F1, of {len(every):,} (--json has all)"
    names = {"threshold": "threshold", "precision": "precision", "recall": "recall", "f1": "F1", "average_precision": "average\nprecision"}
    headings = {name: heading for name, heading in names.items() if hasattr(every[0], name)}
    rows = []
    for score in scores:
        shares = [getattr(score, name) for name in headings]
        rows.append((printable(score.name), *("–" if share is None else f"{share:.4f}" for share in shares), f"{score.num_texts:,}"))
    print_table([noun], [*headings.values(), "texts"], rows, title)


def _print_thresholds(result: Evaluation) -> None:
    """Print the thresholds, if there are any; of many classes, those that miss the target or have the lowest recall."""
    if not (scores := result.thresholds):
        return
    answers, right = (sum(getattr(score, name) for score in scores) for name in ("num_answers", "num_right"))
    lines = [f"Thresholds: {answers / result.num_texts:.1%} of the texts are answered, {right / max(1, answers):.1%} of these rightly"]
    if missed := sum(score.reached is False for score in scores):
        lines.append(f"{missed:,} of {len(scores):,} classes miss the target at every threshold")
    if len(scores) > TABLE_CLASSES:
        scores = sorted(scores, key=lambda score: (score.reached is not False, score.recall or 0.0))[:TABLE_CLASSES]
        lines.append(f"the {len(scores)} that find least, of {len(result.thresholds):,} (--json has all)")
    rows = []
    for score in scores:
        threshold = "none" if score.reached is False or score.threshold == 1 else f"{score.threshold:.4f}"
        precision, recall = _share(score.precision, score.precision_interval), _share(score.recall, score.recall_interval)
        rows.append((printable(score.name), threshold, precision, recall, f"{score.num_answers:,}"))
    figures = ["threshold", "precision\n(95 % interval)", "recall\n(95 % interval)", "answers"]
    print_table(["class"], figures, rows, "\n".join(lines))


def _share(share: float | None, interval: tuple[float, float] | None) -> str:
    if share is None or interval is None:
        return "–"
    return f"{share:.1%} ({100 * interval[0]:.1f}–{100 * interval[1]:.1f})"


def _print_confusions(result: Evaluation) -> None:
    """Print the confusion matrix if there are few classes and the terminal has room for it; else the most frequent confusions."""
    console, names = stdout_console(), [printable(score.name) for score in result.classes]
    if len(names) <= TABLE_CLASSES:
        unbounded = console.options.update(width=100_000)
        rows = [(name, *(f"{count:,}" for count in counts)) for name, counts in zip(names, result.confusion, strict=True)]
        for gap in (" ", "\n"):  # Rich would break words of the widest columns
            matrix = table(["true class"], [f"as {name}".replace(" ", gap) for name in names], rows, "Confusion")
            if console.measure(matrix, options=unbounded).maximum <= console.width:
                console.print(matrix)
                return
    if result.confusions:
        rows = [
            (f"{printable(pair.true)} → {printable(pair.predicted)}", f"{pair.num_texts:,}", f"{pair.share:.1%}")
            for pair in result.confusions
        ]
        print_table(["true class → answer"], ["texts", "of true\nclass"], rows, "Most frequent confusions")


def _print_ranges(title: str, ranges: list[Range], style: str) -> None:
    rows = []
    for span in ranges:
        above = f"{span.above:{style}} to " if span.above else "up to "
        right = "–" if span.accuracy is None else f"{span.accuracy:.2%}"
        rows.append((f"{above}{span.up_to:{style}}", f"{span.num_texts:,}", right))
    print_table([title], ["texts", "right"], rows)


def layout_rows(layout: Layout) -> Iterator[tuple[str, str]]:
    """Format and columns of the texts, by name."""
    parts = [layout.format]
    if layout.separator is not None:
        parts += [f"{layout.separator}s between the columns", "a header line" if layout.header else "no header line"]
    yield "format", ", ".join(parts)
    if layout.columns:
        yield "columns", listed(layout.columns)
        yield "text column", f"{printable(layout.text_column, 200)} ({layout.text_reason})"
        if layout.label_columns:
            yield "label columns", f"{', '.join(layout.label_columns)} ({layout.label_reason})"
        else:
            yield "label column", f"{layout.label_column} ({layout.label_reason})"
    if layout.label_levels:
        yield "label levels", f"{layout.label_levels} (from coarse to fine)"
    if layout.label_separator:
        yield "label separator", f"{layout.label_separator} (several labels per text, such as {printable(layout.label_example, 40)})"


def figure_rows(texts: TextFigures, files: str = "") -> Iterator[tuple[str, str]]:
    """Figures of texts, by name; ``files`` follows their number."""
    yield "texts", f"{texts.num_texts:,}{files}"
    classes = [f"{printable(label)} ({number:,})" for label, number in texts.classes.items()]
    if len(classes) > LISTED_CLASSES:  # the most frequent, and the rarest
        classes[LISTED_CLASSES - 1 :] = [f"… {classes[-1]}"]
    yield "classes", f"{len(texts.classes):,}: {', '.join(classes)}"
    if texts.labels_per_text is not None:
        pairs = [f"{printable(pair)} ({number:,})" for pair, number in (texts.together or {}).items()]
        yield "labels per text", f"{texts.labels_per_text:.2f}; most often together: {', '.join(pairs) or 'none'}"
    lengths = texts.lengths
    yield "tokens per text", f"{lengths.median:,} (median), 90 % up to {lengths.ninety_percent:,}, longest {lengths.longest:,}"
    scripts = [f"{script} {100 * share:.3g} %" for script, share in texts.scripts.items() if share >= LEAST_SHARE]
    yield "scripts", ", ".join(scripts) or "none"
    yield "warnings", texts.line() or "nothing"
