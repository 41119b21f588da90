"""`mha data`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.console import Console
from typer import Argument, Option

from mha_cli.cli import options
from mha_cli.cli.console import print_figures, print_json, print_line, print_table
from mha_cli.cli.progress import progress
from mha_cli.cli.render import figure_rows, layout_rows
from mha_cli.config.loading import load_config
from mha_cli.config.recipes import find_config, recipe_names
from mha_cli.config.settings import LABEL_SEPARATOR, Config
from mha_cli.errors import MhaError, plural, printable
from mha_cli.runs import CONFIG, is_own
from mha_cli.sources.labelled_text import Label, place_of
from mha_cli.sources.layout import Layout, find_layout
from mha_cli.sources.raw_files import matching_paths

if TYPE_CHECKING:
    from mha_cli.analysis.agreement import Agreement
    from mha_cli.analysis.label_issues import LabelIssueReport
    from mha_cli.describe.profile import DataOverview, SplitOverview
    from mha_cli.records.readers import Format

BAR_WIDTH, SHOWN_CHARACTERS = 20, 100  # characters of the longest bar, and of a text


def data(
    files: Annotated[list[str], Argument(metavar="CONFIG|FILE", help="Recipe, YAML file or run directory; or texts, as for `mha init`.")],
    label_issues: Annotated[int | None, Option(min=1, metavar="N", help="List the N labels that a model contradicts most.")] = None,
    agreement: Annotated[str | None, Option(metavar="FILE", help="Compare the labels with those of another person.")] = None,
    number: Annotated[int | None, Option("--next", min=1, max=500, metavar="N", help="Choose N texts to label next, from FILE.")] = None,
    checkpoint: Annotated[Path | None, options.checkpoint_option("with --next the most typical texts, without a model")] = None,
    pretrained: Annotated[Path | None, Option(metavar="FOLDER", help="With --next: encoder of texts.", show_default="their words")] = None,
    output: Annotated[Path | None, options.output_option("With --next: .csv or .jsonl file.", "standard output, as CSV", "FILE")] = None,
    record_format: options.FormatOption = None,
    overrides: options.SetOption = None,
    *,
    reading: options.LabelledFileOptions,
    as_json: options.JsonOption = False,
) -> None:
    """Look at texts: counts, lengths, repeats; or find labels that may be wrong, texts to label, or how two people differ."""
    if number is not None:
        from mha_cli.cli.next_texts import write_next_texts

        options.exclusive("data", {"--next": number, "--label-issues": label_issues, "--agreement": agreement, "--set": overrides})
        options.exclusive("data", {"--checkpoint": checkpoint, "--pretrained": pretrained})
        return write_next_texts(files, number, checkpoint, pretrained, record_format, reading, output, as_json)
    if checkpoint is not None:
        given = {"--checkpoint": checkpoint, "--label-issues": label_issues, "--agreement": agreement, "--set": overrides}
        options.exclusive("data", given)
        options.goes_with("--next", pretrained=pretrained, output=output)
        options.goes_with("labelled texts", label_column=reading.label_column)
        return _show_change(files, checkpoint, record_format, reading, as_json)
    options.exclusive("data", {"--label-issues": label_issues, "--agreement": agreement})
    options.goes_with("--next", pretrained=pretrained, output=output)
    options.goes_with("--next or --checkpoint", format=record_format)
    config, layout = _config_of(files, reading, overrides or [])
    by_options = layout is not None
    with progress("reading") as callbacks:
        found: Any
        show: Callable[[Any, Layout | None], None]
        if agreement is not None:
            from mha_cli.analysis.agreement import find_agreement

            other, _ = _config_of([agreement], reading, overrides or [])
            found, show = find_agreement(config, other, by_options, callbacks), _print_agreement
        elif label_issues is not None:
            from mha_cli.analysis.label_issues import find_label_issues

            found, show = find_label_issues(config, label_issues, by_options, callbacks), _print_label_issues
        else:
            from mha_cli.describe.profile import data_overview

            found, show = data_overview(config, by_options, callbacks), _print_overview
    if as_json:
        print_json({"layout": layout, **asdict(found)})
    else:
        show(found, layout)


def _config_of(given: Sequence[str], reading: options.LabelledFileOptions, overrides: Sequence[str]) -> tuple[Config, Layout | None]:
    """The config of a recipe, a YAML file or a run; for files of texts, the recipe ``text`` and the layout of the first file."""
    name, *others = given
    if os.path.isfile(os.path.join(name, CONFIG)):
        name = os.path.join(name, CONFIG)
    if name in recipe_names() or name.endswith((".yaml", ".yml")):
        if others:
            raise MhaError(f"{printable(name, 200)}: a config is read alone", "name its data in it, or with --set data.train=FILE")
        options.goes_with("files, not with a config", **asdict(reading))
        return load_config(find_config(name), overrides), None
    for override in overrides:
        if (key := override.partition("=")[0].strip()) in ("data.train", "data.text_column", "data.label_column"):
            raise MhaError(f"--set {key} goes with a config, not with files", "name the files, and --text-column and --label-column")
    layout = find_layout(matching_paths(name)[0], reading.text_column, reading.label_column, reading.dialect)
    config = load_config(find_config("text"), ["data.train=FILE", *overrides])
    label = {"label_columns": [*layout.label_columns]} if layout.label_columns else {"label_column": layout.label_column}
    columns: dict[str, object] = {"train": [*given], "text_column": layout.text_column, **label}
    columns |= {"label_separator": layout.label_separator, **reading.dialect._asdict()}
    columns |= config.data.model_dump(include={"label_separator"}, exclude_none=True)
    return config.changed(data=columns), layout


def _show_change(files: list[str], checkpoint: Path, record_format: Format | None, reading: options.ReadsTables, as_json: bool) -> None:
    """Whether texts without labels look like those that a model learned from."""
    from mha_cli.analysis.change import WORDS, find_change
    from mha_cli.cli.inputs import load_checkpoint, standard_input
    from mha_cli.runtime.inputs import read_inputs
    from mha_cli.system.processor import prepare_to_compute

    prepare_to_compute()
    model, path = load_checkpoint(checkpoint)
    with progress("reading") as callbacks:
        columns = reading.text_column, (), model.text_column
        records = read_inputs(files, record_format, *columns, standard_input(), reading.dialect, callbacks.note)
        found = find_change(model, is_own(path, model.config), (record.text for record in records), callbacks)
    if as_json:
        return print_json({"different": found.different, **asdict(found)})
    rows = [("texts", f"{found.num_old:,}", f"{found.num_new:,}", "", ""), ("copies, left out", "", f"{found.num_copies:,}", "", "")]
    for one in (*found.comparisons, *found.classes):
        old, interval = "" if one.old is None else f"{one.old:.3g}", "{:.3g} to {:.3g}".format(*one.interval) if one.interval else ""
        rows.append((one.name, old, f"{one.new:.3g}", interval, "< 0.001" if one.p_value < 0.0005 else f"{one.p_value:.3f}"))
    print_table([""], ["old texts", "new texts", "95 % interval", "p"], rows)
    if WORDS in (different := found.different):
        print_figures("", [("words of new texts", " ".join(found.new_words)), ("words of old texts", " ".join(found.old_words))])
    told = f"the new texts differ from the old ones: {', '.join(different)}"
    print_line(told if different else f"none of {plural(len(found.comparisons), 'test')} tells the new texts from the old ones")


def _print_overview(overview: DataOverview, layout: Layout | None) -> None:
    splits = [split for split in (overview.train, overview.test) if split is not None]
    columns = [dict(_rows(split, overview)) for split in splits]
    if layout is not None:
        columns[0] = dict(layout_rows(layout)) | columns[0]
    headings = [f"split {printable(split.split)}" for split in splits]
    figures = [(name, *(rows.get(name, "") for rows in columns)) for name in columns[0] | columns[-1]]
    print_table(["", *headings], [], figures, overview.data, show_header=len(splits) > 1)
    largest = max(number / split.texts.num_texts for split in splits for number in split.histogram.values())
    lengths = []
    for bound in sorted({bound for split in splits for bound in split.histogram}):
        shares = [split.histogram.get(bound, 0) / split.texts.num_texts for split in splits]
        lengths.append((f"up to {bound:,}", *(f"{share:6.1%} {'█' * round(BAR_WIDTH * share / largest)}" for share in shares)))
    print_table(["tokens", *headings], [], lengths)


def _rows(split: SplitOverview, overview: DataOverview) -> Iterator[tuple[str, str]]:
    yield from figure_rows(split.texts)
    if split.num_in_training is not None:
        yield "in training too", f"{split.num_in_training:,}"
    if split.num_new_classes:
        yield "of other classes", f"{split.num_new_classes:,}"
    yield f"cut to {overview.sequence_length:,} tokens", f"{split.num_cut:,} ({split.num_cut / split.texts.num_texts:.1%})"
    yield "unknown words", f"{split.unknown_share:.1%}, {overview.vocabulary_size:,} ids in the vocabulary"


def _print_label_issues(report: LabelIssueReport, layout: Layout | None) -> None:
    stderr = Console(stderr=True)
    if layout is not None and layout.columns:
        columns = (f"{name} {value}" for name, value in layout_rows(layout) if name.endswith(" column"))
        print_line(f"{report.data}: {', '.join(columns)}", stderr)
    agreement = f"{report.accuracy:.1%} of the labels of {report.num_texts:,} texts are what a model of the others answers"
    print_line(f"{report.data}: {agreement}; contradicted: {report.num_contradicted:,}", stderr)
    for issue in report.label_issues:
        location = printable(issue.file, 200) + (f":{issue.line}" if issue.line else "")
        answers = ((issue.label, issue.probability), (issue.suggested, issue.suggested_probability))
        cells = [cell for label, probability in answers for cell in (printable(label), f"{probability:.4f}")]
        print("\t".join([location, *cells, printable(" ".join(issue.text.split()), SHOWN_CHARACTERS)]))


def _print_agreement(found: Agreement, _layout: Layout | None) -> None:
    def shown(kappa: float | None) -> str:
        return "undefined: one label throughout" if kappa is None else f"{kappa:.3f}"

    def shown_label(label: Label) -> str:
        return label if isinstance(label, str) else LABEL_SEPARATOR.join(label)

    figures = [
        ("texts in both", f"{found.num_texts:,}"),
        ("equal labels", f"{found.num_equal:,} ({found.num_equal / found.num_texts:.1%})"),
        ("Cohen's kappa" + (", mean of the labels" if found.kappa_of_labels else ""), shown(found.kappa)),
        *((f"kappa of {label}", shown(kappa)) for label, kappa in found.kappa_of_labels.items()),
        (f"only in {found.data}", f"{found.num_only_here:,}"),
        (f"only in {found.other}", f"{found.num_only_other:,}"),
    ]
    print_figures("", figures)
    rows = []
    for one in found.differences:
        places = place_of(one.file, one.line), place_of(one.other_file, one.other_line)
        text = " ".join(one.text.split())[:SHOWN_CHARACTERS]
        rows.append((places[0], shown_label(one.label), places[1], shown_label(one.other_label), text))
    if rows:
        print_table([found.data, "label", found.other, "label", "text"], [], rows, "different labels")
