"""`mha label`."""

from __future__ import annotations

import json
import os
import shlex
import sys
import warnings
from collections.abc import Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from mha_cli.cli import options
from mha_cli.cli.inputs import standard_input
from mha_cli.cli.output import refuse_output
from mha_cli.cli.progress import progress
from mha_cli.config.settings import LABEL_SEPARATOR, Config
from mha_cli.errors import JOINT, MhaError, listed, need, printable, shown_path
from mha_cli.records.reader import shown_warnings
from mha_cli.records.record import ALL, TEXT_COLUMN
from mha_cli.runtime.inputs import STANDARD_INPUT, read_inputs
from mha_cli.sources.labels import NAMED_CLASSES
from mha_cli.system.processor import prepare_to_compute

if TYPE_CHECKING:
    from mha_cli.labelling.learner import Suggestion
    from mha_cli.labelling.store import LabelStore
    from mha_cli.records.readers import Format


def label(
    files: Annotated[list[str], Argument(metavar="FILE", help="Texts to label, in any format that mha predict reads.")],
    output: Annotated[Path, options.output_option("CSV file of the labels, which the same command goes on with.", metavar="FILE")],
    classes: options.ClassesOption = None,
    pretrained: Annotated[Path | None, Option(metavar="FOLDER", help="Pretrained encoder: better suggestions, words help.")] = None,
    several: Annotated[bool, Option("--several", help="A text may have several labels, or none.")] = False,
    terminal: Annotated[bool, Option("--terminal", help="Label on this terminal, without a browser.")] = False,
    no_browser: Annotated[bool, Option("--no-browser", help="Print the page's address, and open no browser.")] = False,
    review: Annotated[bool, Option("--review", help="Look at labels again, the most doubtful first.")] = False,
    record_format: options.FormatOption = None,
    *,
    reading: options.LabelledFileOptions,
) -> None:
    """Label texts one by one, in a browser or on a terminal, while a model learns beside it."""
    options.exclusive("label", {"--terminal": terminal, "--no-browser": no_browser})
    refuse_output("--output", output)
    if output.suffix.lower() != ".csv":
        raise MhaError(f"--output {shown_path(output)}: no .csv file", "name one, which mha train can read")
    if not terminal:
        need("mha label without --terminal", "serve", "fastapi", "httptools", "uvicorn", "uvloop")
    elif sys.stdin is None or not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise MhaError("--terminal: standard input and output are no terminal", "run it in one, or leave --terminal out")
    prepare_to_compute()
    from mha_cli.labelling.session import Session
    from mha_cli.sources.class_words import read_class_words

    config = Config() if classes is None else Config().changed(classes=read_class_words(classes))
    words = {name: [line for other, line in config.class_lines if other == name] for name in config.classes}
    encoder = None
    if pretrained is not None:
        from mha_cli.runtime.encoder_features import EncoderFeatures

        encoder = EncoderFeatures(pretrained)
    warnings.filterwarnings("ignore", module="sklearn")  # few labels of many classes are usual here
    with progress("reading"):
        store = _store(files, record_format, reading, output, several)
    with closing(store):
        if clashing := [printable(name) for name in words if LABEL_SEPARATOR in name]:
            raise MhaError(f"--classes: {clashing[0]}: '{LABEL_SEPARATOR}' separates labels in one cell", "give the class another name")
        others = sorted({name for answer in store.answers.values() for name in answer.labels} - words.keys())
        if words and others:
            named = f"labels that --classes does not name: {listed([*map(printable, others)], NAMED_CLASSES)}"
            print(f"{shown_path(output)}: {named}; they are classes as well, unless they are misspelt", file=sys.stderr)
        names = [*words, *others]
        if len(names) < 2:
            found = f"only {printable(names[0])}" if names else "none"
            hint = "write a line `name: words` for each class into a YAML file, and name it with --classes"
            raise MhaError(f"a labelling needs two classes: {found} found", hint)
        session = Session(store, names, words, encoder, _doubted(store) if review else None)
        settings = [*_settings(store), *([f"model.pretrained={pretrained}"] if pretrained else [])]
        recipe = ["pretrained", *(["--classes", str(classes)] if classes else [])] if pretrained else ["text"]
        changes = [word for setting in settings for word in ("--set", setting)]
        way_on = printable(shlex.join(["mha", "train", "--config", *recipe, *changes]), 500)
        try:
            if terminal:
                from mha_cli.cli.label_terminal import label_on_terminal

                label_on_terminal(session)
            else:
                from mha_cli.serve.label_page import serve_labelling

                announce = partial(print, "label on this page, and end with Ctrl-C:", file=sys.stderr)
                serve_labelling(session, not no_browser, announce, way_on)
        finally:
            print(*session.progress().lines, *([way_on] if store.answers else []), sep="\n", file=sys.stderr)
            session.close()


def _store(files: Sequence[str], form: Format | None, reading: options.LabelledFileOptions, output: Path, several: bool) -> LabelStore:
    """The texts of files, and the file of their labels."""
    from mha_cli.labelling.store import LabelStore
    from mha_cli.sources.layout import find_text_column
    from mha_cli.sources.raw_files import byte_order_mark_of, matching_paths

    remarks, column = list[str](), reading.text_column or TEXT_COLUMN
    inputs = [path for given in files if given != STANDARD_INPUT for path in matching_paths(given)]
    if output.exists() and any(os.path.exists(path) and os.path.samefile(path, output) for path in inputs):
        raise MhaError(f"--output {shown_path(output)}: is the file of the texts", "name another file, which will hold the labelled ones")
    if inputs:
        column = find_text_column(inputs[0], reading.text_column, reading.dialect)
    records = read_inputs(files, form, reading.text_column, [ALL], column, standard_input(), reading.dialect, remarks.append)
    store = LabelStore(output, records, column, reading.label_column or "label", several, byte_order_mark_of(files))
    for remark in shown_warnings(remarks):
        print(remark, file=sys.stderr)
    if not store.texts:
        store.close()
        raise MhaError(f"{printable(' '.join(files), 200)}: holds no text", "give texts to label")
    return store


def _doubted(store: LabelStore) -> Mapping[int, Suggestion]:
    """The labelled texts, the most doubtful labels first, with the labels that a model of the other texts gives."""
    from mha_cli.analysis.label_issues import find_label_issues
    from mha_cli.config.loading import load_config
    from mha_cli.config.recipes import find_config

    if not store.answers:
        raise MhaError("--review: no text has a label", "label some first, or name their column with --label-column")
    store.write(*next(iter(store.answers.items())))  # labels of the input as well
    with progress("looking for doubtful labels") as callbacks:
        config = load_config(find_config("text"), _settings(store))
        issues = find_label_issues(config, sys.maxsize, callbacks=callbacks).label_issues
    doubted: dict[int, Suggestion] = {}
    for issue in issues:
        if (row := store.find(issue.text)) is not None and row not in doubted:
            labels, probability = store.answers[row].labels, max(issue.probability, issue.suggested_probability)
            if issue.probability < issue.suggested_probability:
                labels = tuple(sorted({*labels} ^ {issue.label, issue.suggested} - {""}))
            doubted[row] = tuple((name, probability) for name in labels)
    return doubted


def _settings(store: LabelStore) -> list[str]:
    """What a config has to say about the file of labels."""
    text_column = json.dumps(store.text_columns, ensure_ascii=False) if JOINT in store.text_column else store.text_column
    settings = {"data.train": str(store.path), "data.text_column": text_column, "data.label_column": store.label_column}
    if store.several:
        settings["data.label_separator"] = LABEL_SEPARATOR
    usual = {"data.text_column": TEXT_COLUMN, "data.label_column": "label"}
    return [f"{name}={value}" for name, value in settings.items() if usual.get(name) != value]
