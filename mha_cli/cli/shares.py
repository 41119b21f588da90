"""`mha shares`."""

from __future__ import annotations

import sys
from collections import Counter
from itertools import count as count_from
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from mha_cli.cli import options
from mha_cli.cli.console import print_json, print_table
from mha_cli.cli.data_option import HeldOutOption, with_held_out
from mha_cli.cli.inputs import load_checkpoint, standard_input
from mha_cli.cli.output import counter, refuse_output
from mha_cli.cli.progress import progress
from mha_cli.errors import MhaError, plural, printable
from mha_cli.records.reader import shown_warnings
from mha_cli.runtime.inputs import read_inputs
from mha_cli.system.processor import prepare_to_compute

if TYPE_CHECKING:
    from mha_cli.runtime.shares import ClassShare, GroupShares
    from mha_cli.runtime.stream import Predicted

BAR_WIDTH, SHOWN_CLASSES = 20, 5  # characters of the longest bar; classes of a table of groups


def shares(
    files: Annotated[list[str], Argument(metavar="FILE", help="New texts; - reads standard input.")],
    checkpoint: options.CheckpointOption = None,
    by: Annotated[
        str | None, Option(metavar="COLUMN[:PERIOD]", help="Group by a column; day, week, month or year groups its dates.")
    ] = None,
    held_out: HeldOutOption = None,
    *,
    reading: options.InputOptions,
    html: options.HtmlOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Estimate how many texts have each class, with 95 % intervals: more exact than counting answers."""
    refuse_output("--html", html)
    prepare_to_compute()
    from mha_cli.checkpoint.held_out import held_out_of
    from mha_cli.runtime.classifier import Classifier
    from mha_cli.runtime.engine import Engine
    from mha_cli.runtime.shares import DRAWS, Grouping, ShareEstimator
    from mha_cli.runtime.stream import Answering, usual_workers
    from mha_cli.runtime.sureness import Sureness

    model, path = load_checkpoint(checkpoint)
    model = with_held_out(model, path, held_out)
    sureness = Sureness(held_out_of(model), model.class_names)
    estimator, warnings, grouping = ShareEstimator(model), list[str](), Grouping.parse(by) if by else None
    answering = Answering(Classifier(model, Engine(model, "auto")), usual_workers())
    columns, calls = (reading.text_column, [grouping.column] if grouping else [], model.text_column), (warnings.append, answering.on_wait)
    records = read_inputs(files, reading.record_format, *columns, standard_input(), reading.dialect, *calls, field_option="--by")
    with counter(shown=True) as count:

        def add(batch: list[Predicted]) -> None:
            sureness.add([prediction for _, prediction in batch])
            for number, (record, prediction) in enumerate(batch, answering.num_texts - len(batch) + 1):
                group = grouping.group_of(record.fields[0], number) if grouping else None
                estimator.add([[*prediction.probabilities.values()]], group)
            count(len(batch))

        answering.run(records, add)
    if not answering.num_texts:
        raise MhaError(f"{printable(' '.join(files), 200)}: holds no text", "give texts")
    with progress("estimating") as callbacks:
        done = count_from(1)
        found = estimator.groups(lambda: callbacks.count(f"draw {next(done):,}, {DRAWS} or more of each group"))
    assumed = "assumed: the texts of each class look as they did in training, and only the shares have changed"
    print(*filter(None, [*shown_warnings(warnings), assumed, sureness.warning]), sep="\n", file=sys.stderr)
    if html is not None:
        from mha_cli.pages.inspection import write_shares_page

        write_shares_page(found, model, html)
    if as_json:
        print_json(found)
    elif by:
        _print_groups(found, by)
    else:
        _print_shares(found[0])


def _print_shares(found: GroupShares) -> None:
    """Print a row with a bar for each class."""
    rows, largest = [], found.classes[0].share
    for each in found.classes:
        bar = f"{each.share:6.1%} {'█' * round(BAR_WIDTH * each.share / largest)}"
        rows.append(
            (
                each.name,
                bar,
                " to ".join(f"{end:.1%}" for end in each.interval),
                f"{each.counted:,}",
                f"{each.counted / found.num_texts:.1%}",
            )
        )
    figures = ["95 % interval", "answers", "of the\ntexts"]
    print_table(["class", "share"], figures, rows, f"Shares of the classes, {plural(found.num_texts, 'text')}")


def _print_groups(groups: list[GroupShares], by: str) -> None:
    """Print a row for each group, with the classes that have the most texts."""
    sizes = Counter[str]()
    for group in groups:
        sizes.update({each.name: each.share * group.num_texts for each in group.classes})
    names, rows = [name for name, _ in sizes.most_common(SHOWN_CLASSES)], []
    for group in groups:
        of_class = {each.name: _with_interval(each) for each in group.classes}
        rows.append((str(group.group), f"{group.num_texts:,}", *map(of_class.__getitem__, names)))
    title = "Shares of the classes in %, with 95 % intervals"
    if len(sizes) > len(names):
        title += f"; the {len(names)} most frequent of {len(sizes):,} (--json has all)"
    print_table([printable(by)], ["texts", *map(printable, names)], rows, title)


def _with_interval(each: ClassShare) -> str:
    low, high = each.interval
    return f"{100 * each.share:.1f} ({100 * low:.0f}–{100 * high:.0f})"
