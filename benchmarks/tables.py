"""Results as tables: rows from JSON records, shown on a terminal or written as Markdown."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean, median, stdev
from typing import Any

import numpy as np
import numpy.typing as npt
from harness import QUIET, Record
from paired import Runs, compared_sets, mean_of

from mha_cli.runtime.intervals import bootstrap, interval

NOTHING = "–"
SOFTWARE_TITLES = {name.lower(): name for name in ("Python", "TensorFlow", "Keras", "torch", "scikit-learn", "fastText", "OpenVINO")}


@dataclass(frozen=True)
class Table:
    """A table of results.

    Args:
        title: sentence on what was measured, without its full stop.
        headings: names of the columns.
        rows: cells, one per heading; all but the first column are figures.
        machine: hardware and software.
        when: day of the measurement, and whether other programs ran.
    """

    title: str
    headings: tuple[str, ...]
    rows: list[tuple[str, ...]]
    machine: str
    when: str


def show(table: Table) -> None:
    """Print a table on the terminal."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table as RichTable

    drawn = RichTable(title=table.title, caption=f"{table.machine}, {table.when}")
    for number, heading in enumerate(table.headings):
        drawn.add_column(heading, justify="right" if number else "left", overflow="fold")
    for row in table.rows:
        drawn.add_row(*map(escape, row))
    Console(highlight=False).print(drawn)


def markdown(table: Table) -> str:
    """A table in Markdown below its title, its machine (unless empty) and its date."""
    lines = [table.headings, ("---", *("---:" for _ in table.headings[1:])), *table.rows]
    drawn = "\n".join("| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |" for line in lines)
    note = f"{table.machine}, {table.when}" if table.machine else table.when
    return f"**{table.title}.** {note}.\n\n{drawn}"


# What each benchmark says


def accuracy(records: Sequence[Record]) -> Table:
    """One row per system, most accurate first: test accuracy, accuracy of its parts, and wall time."""
    systems = by_system(records)
    fastest = min(mean(figures["wall_seconds"] for figures in runs) for runs in systems.values())
    rows = []
    for name, runs in sorted(systems.items(), key=lambda item: -mean(figures["accuracy"] for figures in item[1])):
        wall = mean(figures["wall_seconds"] for figures in runs)
        accuracies = [100 * figures["accuracy"] for figures in runs]
        parts = [_of_part(runs, part) for part in ("encoder", "encoder without heads", "scores")]
        rows.append((name, _mean_and_spread(accuracies), *parts, str(len(runs)), duration(wall), _ratio(wall, fastest)))
    title = "Test accuracy on the official IMDB split (25,000 reviews to learn from, 25,000 to score), mean ± standard deviation over seeds"
    parts = ("encoder alone", "without its heads", "linear model alone")
    headings = ("system", "test accuracy", *parts, "runs", "reading and training", "× the fastest")
    return Table(title, headings, rows, *circumstances(records))


def texts(records: Sequence[Record], ours: str = "mha text") -> Table:
    """One row per set: our recipe of that name and the best peer, the difference with its interval, and the means over the sets."""
    results = compared_sets(records, ours)
    pairs = [(result.ours, result.peers[result.best_peer()]) for result in results]
    draws = [bootstrap(result.ahead, seed) for seed, result in enumerate(results)]
    rows: list[tuple[str, ...]] = []
    for result, pair, drawn in zip(results, pairs, draws, strict=True):
        about = result.ours[0]
        sizes = (str(about["classes"]), f"{about['train_texts']:,} + {about['test_texts']:,}")
        own, best = (_mean_and_spread([100 * run["accuracy"] for run in runs]) for runs in pair)
        ahead = _difference(result.ahead.mean(), drawn)
        rows.append((result.name, *sizes, own, f"{best}, {result.best_peer()}", ahead, *_scores_and_seconds([pair])))
    ahead = _difference(mean(result.ahead.mean() for result in results), sum(draws) / len(draws))
    accuracies = (f"{100 * value:.2f} %" for value in _both(pairs, "accuracy"))
    rows.append(("mean", NOTHING, NOTHING, *accuracies, ahead, *_scores_and_seconds(pairs)))
    sizes = ("set", "classes", "texts to learn from + to score")
    headings = (*sizes, ours, "best peer", "ahead by (95 %)", "macro F1 of both", "seconds of both")
    part = records[0]["settings"]["part"].capitalize()
    sets = f"{part} accuracy of one recipe, unchanged, on {len(results)} sets of texts"
    shown = {ours, *(peer for result in results for peer in result.peers)}
    title = f"{sets}, mean ± standard deviation over seeds; * more than chance"
    return Table(title, headings, rows, *circumstances([record for record in records if record["settings"]["system"] in shown]))


def few_labels(records: Sequence[Record], what: str = "Test accuracy with few labels") -> Table:
    """One row per system, the most accurate and incomplete ones last: mean and spread over draws for every column, and their mean."""
    found: dict[str, dict[tuple[int, str], list[float]]] = {}
    for one in records:
        settings = one["settings"]
        column = int(settings["part"].split()[0]), settings["set"]
        found.setdefault(settings["system"], {}).setdefault(column, []).append(100 * one["figures"]["accuracy"])
    columns = sorted({column for cells in found.values() for column in cells})
    rows = []
    for system, cells in sorted(found.items(), key=lambda row: (len(row[1]) < len(columns), mean(map(mean, row[1].values())))):
        over_all = f"{mean(map(mean, cells.values())):.2f} %" if len(cells) == len(columns) else NOTHING
        of_columns = (_mean_and_spread(cells[column]) if column in cells else NOTHING for column in columns)
        rows.append((system, str(min(map(len, cells.values()))), *of_columns, over_all))
    title = f"{what}, mean ± standard deviation over draws of the texts to learn from"
    headings = ("system", "draws", *(f"{name}, {size} per class" for size, name in columns), "mean")
    return Table(title, headings, rows, *circumstances(records))


def book(record: Record) -> Table:
    """One row per candidate: most reviews per second of training and of inference, and both as multiples of the listing and of torch.

    A candidate counts by its best round: what slows one down is the machine, and it does not hit all alike.
    """
    speeds = {job: {name: max(values) for name, values in record["figures"][job].items()} for job in ("training", "inference")}
    bases = [name for name in ("listing", "torch") if name in speeds["training"]]
    headings = ["candidate"]
    for job in speeds:
        headings += [f"reviews/s in {job}", *(f"× {base}" for base in bases)]
    rows = []
    for name in speeds["inference"]:
        cells = [name]
        for of_candidate in speeds.values():
            if name not in of_candidate:
                cells += [NOTHING] * (1 + len(bases))
                continue
            cells += [f"{of_candidate[name]:,.0f}", *(_ratio(of_candidate[name], of_candidate[base]) for base in bases)]
        rows.append(tuple(cells))
    settings = record["settings"]
    title = f"The book's model on {settings['reviews']:,} IMDB reviews of real length, each at its best of {settings['rounds']} rounds"
    return Table(title, tuple(headings), rows, *circumstances([record]))


def attention(record: Record) -> Table:
    """One row per length: tokens per second of the form that ``auto`` takes, and it as a multiple of Keras's layer and of torch's."""
    by_length: dict[int, list[str]] = {}
    for row in record["figures"]:
        own = row["ms"][f"mha {row['auto']}"]
        speed = f"{row['batch'] * row['length'] / own * 1e3:,.0f}"
        by_length.setdefault(row["length"], []).extend([speed, _ratio(row["ms"]["Keras"], own), _ratio(row["ms"]["torch"], own)])
    passes = list(dict.fromkeys(row["pass"] for row in record["figures"]))
    headings = ("length", *(heading for name in passes for heading in (f"tokens/s {name}", "× Keras", "× torch")))
    rows = [(f"{length:,}", *cells) for length, cells in by_length.items()]
    title = "The attention layer alone, float32, embed {embed_dim}, {num_heads} heads".format(**record["settings"])
    return Table(title, headings, rows, *circumstances([record]))


def attention_memory(record: Record) -> Table:
    """One row per form: peak memory above idle of one forward and backward pass, and how much more it is than that of ``auto``."""
    peaks = record["figures"]["megabytes"]
    rows = [(name, f"{peak:,.0f}", _ratio(peak, peaks["mha auto"])) for name, peak in peaks.items()]
    title = f"Peak memory of the attention layer above idle, one review of {record['settings']['length']:,} tokens, forward and backward"
    return Table(title, ("form", "MB", "× mha auto"), rows, *circumstances([record]))


def growth(record: Record) -> Table:
    """One row per size of the data: time and peak memory of ``mha train``, and how they grow."""
    peaks, seconds = record["figures"]["megabytes"], record["figures"]["seconds"]
    first_peak, first_seconds = next(iter(peaks.values())), next(iter(seconds.values()))
    rows = [
        (f"{int(texts):,}", f"{seconds[texts]:,.0f}", _ratio(seconds[texts], first_seconds), f"{peak:,.0f}", _ratio(peak, first_peak))
        for texts, peak in peaks.items()
    ]
    headings = ("texts", "seconds", "× the first", "MB", "× the first")
    title = f"Time and peak memory of `mha train` on a CSV file, {record['settings']['model']}"
    return Table(title, headings, rows, *circumstances([record]))


def stream_memory(record: Record) -> Table:
    """One row per number of answers: the most memory of ``mha predict`` until then, and how it grows."""
    peaks = record["figures"]["megabytes"]
    base = next(iter(peaks.values()))
    rows = [(f"{int(lines):,}", f"{peak:,.0f}", _ratio(peak, base)) for lines, peak in peaks.items()]
    title = "Most memory of `mha predict`, all its processes together, while {lines:,} lines of {line_bytes:.0f} bytes run through it"
    return Table(title.format(**record["settings"]), ("lines answered", "MB", "× the first"), rows, *circumstances([record]))


def predict(record: Record) -> Table:
    """One row per command: wall time from start to end, and what Keras takes for the same."""
    reviews = record["settings"]["reviews"]
    seconds = {name: median(found) for name, found in record["figures"]["seconds"].items()}
    rows = []
    for name, found in seconds.items():
        keras = seconds["Keras, stream" if "stream" in name else "Keras, one text"]
        rate = f"{reviews / found:,.0f}" if "stream" in name else NOTHING
        rows.append((name, f"{found:.2f}", rate, NOTHING if name == "mha --help" else _ratio(keras, found)))
    headings = ("command", "seconds", "reviews/s", "× as fast as Keras")
    title = f"Model {record['settings']['model']}: one text, and {reviews:,} reviews, each from a new process"
    return Table(title, headings, rows, *circumstances([record]))


def batch(record: Record) -> Table:
    """One row per command: seconds, rates, both also without the start-up, and peak memory with the data and with more."""
    settings, figures = record["settings"], record["figures"]
    rows = []
    for name, found in figures["seconds"].items():
        whole, start_up = median(found), median(figures["start_up"][name])
        rates = (f"{settings['reviews'] / whole:,.0f}", f"{settings['reviews'] / (whole - start_up):,.0f}")
        peaks = [f"{peak:,.0f}" for peak in figures["megabytes"].get(name, ())] or [NOTHING, NOTHING]
        rows.append((name, f"{whole:.2f}", f"{start_up:.2f}", *rates, *peaks))
    title = "{reviews:,} reviews in {files:,} files, each command from a new process".format(**settings)
    headings = ("command", "seconds", "with one review", "reviews/s", "without start-up", "MB", f"MB, {settings['times']} × the data")
    return Table(title, headings, rows, *circumstances([record]))


def serve(record: Record) -> Table:
    """One row per load: reviews a second, the time of one, and what ``mha predict`` does in a second."""
    settings, figures = record["settings"], record["figures"]
    rates = {name: settings["reviews"] / median(found) for name, found in figures["seconds"].items()}
    rows = [(name, f"{rate:,.0f}", NOTHING, NOTHING, _ratio(rate, rates["mha predict --workers 1"])) for name, rate in rates.items()]
    for load, rounds in figures["loads"].items():
        rate = settings["reviews"] / median(found["seconds"] for found in rounds)
        times = (f"{median(found[share] for found in rounds):.1f}" for share in ("p50", "p99"))
        rows.append((f"mha serve, {load}", f"{rate:,.0f}", *times, _ratio(rate, rates["mha predict --workers 1"])))
    (before, after), rounds = figures["megabytes"], settings["rounds"] + 1
    title = f"{settings['reviews']:,} reviews, answered as by `mha predict`"
    title += f"; the server holds {before:,.0f} MB after one round and {after:,.0f} MB after {rounds}"
    return Table(title, ("command", "reviews/s", "p50, ms", "p99, ms", "× mha predict --workers 1"), rows, *circumstances([record]))


def by_system(records: Sequence[Record]) -> dict[str, list[dict[str, Any]]]:
    """The figures of every run of each system."""
    systems: dict[str, list[dict[str, Any]]] = {}
    for record in records:
        systems.setdefault(record["settings"]["system"], []).append(record["figures"])
    return systems


# Cells


def duration(seconds: float) -> str:
    """Seconds as a person says them."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def circumstances(records: Sequence[Record]) -> tuple[str, str]:
    """Machine and software of the records, all of them where they differ; their days, and whether other programs ran."""
    days = ", ".join(dict.fromkeys(str(record["date"]) for record in records))
    busy = [(record["busy_share"] or 0.0) > QUIET for record in records]
    beside = ", beside other programs" if all(busy) else ", partly beside other programs" if any(busy) else ""
    return _machines(records), days + beside


def _machines(records: Sequence[Record]) -> str:
    """Every kind of machine once, with all the versions that were used on it; a run does not name what it did not need."""
    kinds: dict[str, dict[str, list[str]]] = {}
    for machine in (record["machine"] for record in records):
        hardware = f"{machine['cpu']}, {machine['cores']} cores ({', '.join(machine['instructions'])}), {machine['memory_gib']} GiB"
        software = kinds.setdefault(hardware, {name: [] for name in SOFTWARE_TITLES})
        for name, version in {"python": machine["python"], **machine["packages"]}.items():
            if name in software and version not in software[name]:
                software[name].append(version)
    return "; ".join(
        ", ".join([hardware, *(f"{SOFTWARE_TITLES[name]} {' and '.join(versions)}" for name, versions in software.items() if versions)])
        for hardware, software in kinds.items()
    )


def _of_part(runs: Runs, part: str) -> str:
    """The mean accuracy of a part of a classifier over its runs; nothing where it has none or was not taken apart."""
    accuracies = [100 * run["parts"][part] for run in runs if part in run.get("parts", {})]
    return f"{mean(accuracies):.2f} %" if accuracies else NOTHING


def _mean_and_spread(values: Sequence[float]) -> str:
    return f"{mean(values):.2f} ± {stdev(values):.2f} %" if len(values) > 1 else f"{values[0]:.2f} %"


def _difference(value: float, draws: npt.NDArray[np.float64]) -> str:
    """A difference in points with its interval, and a mark where that does not hold 0."""
    low, high = interval(draws)
    return f"{100 * value:+.2f} ({100 * low:+.2f} to {100 * high:+.2f})" + " *" * (low > 0 or high < 0)


def _both(pairs: Sequence[tuple[Runs, Runs]], figure: str) -> list[float]:
    """The mean over sets of a figure, of ours and of the peers."""
    return [mean(mean_of(runs, figure) for runs in side) for side in zip(*pairs, strict=True)]


def _scores_and_seconds(pairs: Sequence[tuple[Runs, Runs]]) -> tuple[str, str]:
    """Macro F1 in % and seconds of training, each of ours and of the peer."""
    scores = (f"{100 * value:.1f}" for value in _both(pairs, "macro_f1"))
    seconds = (f"{value:.1f}" if value < 10 else f"{value:,.0f}" for value in _both(pairs, "wall_seconds"))
    return ", ".join(scores), ", ".join(seconds)


def _ratio(value: float, base: float) -> str:
    return f"{value / base:.2f}" if value / base < 10 else f"{value / base:.0f}"
