"""`mha data`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from mha_cli.checkpoint.runs import CONFIG
from mha_cli.cli import options
from mha_cli.cli.console import print_json, print_line, print_table
from mha_cli.cli.progress import status
from mha_cli.cli.render import figure_rows, layout_rows
from mha_cli.config.loading import load_config
from mha_cli.config.recipes import find_config, recipe_names
from mha_cli.config.settings import Config
from mha_cli.data.layout import Layout, find_layout
from mha_cli.data.paths import matching_paths
from mha_cli.errors import MhaError, printable
from mha_cli.records.reader import Dialect

if TYPE_CHECKING:
    from mha_cli.data.profile import DataOverview, SplitOverview
    from mha_cli.linear.label_issues import LabelIssueReport

EXAMPLES = """mha data reviews.csv

mha data text --set data.train=reviews.csv --set data.test=more.csv \\
    --set data.label_column=stars

mha data reviews.csv --label-issues 20 > label_issues.tsv"""

_BAR = 20
"""Characters of the longest bar."""

_TEXT = 100
"""Characters of a text that are shown."""

_OF_FILES = ("data.train", "data.text_column", "data.label_column")
"""Settings that do not go with files of texts."""


def data(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="CONFIG|FILE",
            help="A recipe, a YAML file or a run directory, for its training and test data; or labelled texts as for `mha init`: "
            "files (CSV, TSV, JSONL, fastText, Parquet), or folders with one sub-folder per class.",
        ),
    ],
    label_issues: Annotated[
        int | None,
        typer.Option(
            "--label-issues",
            min=1,
            metavar="N",
            help="List instead the N training texts whose labels are contradicted most by a model of the other texts, one per line: "
            "place, label, its probability, the likelier label, its probability, text.",
        ),
    ] = None,
    overrides: options.SetOption = None,
    text_column: options.GuessedTextColumnOption = None,
    label_column: options.GuessedLabelColumnOption = None,
    encoding: options.EncodingOption = None,
    no_quoting: options.NoQuotingOption = False,
    as_json: options.JsonOption = False,
) -> None:
    """Look at labelled texts: counts, lengths, repeats, unknown words; or list the labels that may be wrong."""
    config, layout = _config_of(files, text_column, label_column, Dialect(encoding, not no_quoting), overrides or [])
    with status("reading") as callbacks:
        if label_issues is None:
            from mha_cli.data.profile import look_over

            found: Any = look_over(config, layout is not None, callbacks)
        else:
            from mha_cli.linear.label_issues import find_label_issues

            found = find_label_issues(config, label_issues, layout is not None, callbacks)
    if as_json:
        print_json({"layout": layout, **asdict(found)})
    else:
        (_print_overview if label_issues is None else _print_label_issues)(found, layout)


def _config_of(
    given: Sequence[str], text_column: str | None, label_column: str | None, dialect: Dialect, overrides: Sequence[str]
) -> tuple[Config, Layout | None]:
    """The config of a recipe, a YAML file or a run; for files of texts, the recipe ``text`` and the layout of the first file."""
    name, *others = given
    if os.path.isfile(os.path.join(name, CONFIG)):
        name = os.path.join(name, CONFIG)
    if name in recipe_names() or name.endswith((".yaml", ".yml")):
        if others:
            raise MhaError(f"{printable(name, 200)}: a config is read alone", "name its data in it, or with --set data.train=FILE")
        read_as = {"text_column": text_column, "label_column": label_column, "encoding": dialect.encoding}
        for option, value in read_as.items():
            if value is not None:
                raise MhaError(f"--{option.replace('_', '-')} goes with files alone", f"write --set data.{option}={printable(value)}")
        if not dialect.quoting:
            raise MhaError("--no-quoting goes with files alone", "write --set data.quoting=false")
        return load_config(find_config(name), overrides), None
    for override in overrides:
        if (key := override.partition("=")[0].strip()) in _OF_FILES:
            raise MhaError(f"--set {key} goes with a config, not with files", "name the files, and --text-column and --label-column")
    layout = find_layout(matching_paths(name)[0], text_column, label_column, dialect)
    config = load_config(find_config("text"), ["data.train=FILE", *overrides])
    columns = {"train": [*given], "text_column": layout.text_column, "label_column": layout.label_column, **dialect._asdict()}
    return config.model_copy(update={"data": config.data.model_copy(update=columns)}), layout


def _print_overview(overview: DataOverview, layout: Layout | None) -> None:
    splits = [split for split in (overview.train, overview.test) if split is not None]
    told = [dict(_rows(split, overview)) for split in splits]
    if layout is not None:
        told[0] = {**dict(layout_rows(layout)), **told[0]}
    headings = [f"split {printable(split.split)}" for split in splits]
    names = dict.fromkeys(name for rows in told for name in rows)
    figures = [(name, *(rows.get(name, "") for rows in told)) for name in names]
    print_table(["", *headings], [], figures, overview.data, show_header=len(splits) > 1)
    largest = max(number / split.texts.num_texts for split in splits for number in split.histogram.values())
    lengths = []
    for bound in sorted({bound for split in splits for bound in split.histogram}):
        shares = [split.histogram.get(bound, 0) / split.texts.num_texts for split in splits]
        lengths.append((f"up to {bound:,}", *(f"{share:6.1%} {'█' * round(_BAR * share / largest)}" for share in shares)))
    print_table(["tokens", *headings], [], lengths)


def _rows(split: SplitOverview, overview: DataOverview) -> Iterator[tuple[str, str]]:
    yield from figure_rows(split.texts)
    if split.num_in_training is not None:
        yield "in training too", f"{split.num_in_training:,}"
    if split.num_new_classes:
        yield "of other classes", f"{split.num_new_classes:,}"
    cut_share = split.num_cut / split.texts.num_texts
    yield f"cut to {overview.sequence_length:,} tokens", f"{split.num_cut:,} ({cut_share:.1%})"
    yield "unknown words", f"{split.unknown_share:.1%}, {overview.vocabulary_size:,} ids in the vocabulary"


def _print_label_issues(report: LabelIssueReport, layout: Layout | None) -> None:
    stderr = Console(stderr=True)
    if layout is not None and layout.columns:
        columns = (f"{name} {value}" for name, value in layout_rows(layout) if name.endswith(" column"))
        print_line(f"{report.data}: {', '.join(columns)}", stderr)
    agreement = f"{report.accuracy:.1%} of {report.num_texts:,} labels are what a model of the other texts answers"
    print_line(f"{report.data}: {agreement}; contradicted: {report.num_contradicted:,}", stderr)
    for one in report.label_issues:
        place = printable(one.file, 200) + (f":{one.line}" if one.line else "")
        answers = ((one.label, one.probability), (one.suggested, one.suggested_probability))
        cells = [cell for label, probability in answers for cell in (printable(label), f"{probability:.4f}")]
        print("\t".join([place, *cells, printable(" ".join(one.text.split()), _TEXT)]))
