"""`mha report`."""

import shlex
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from mha_cli.cli import options
from mha_cli.cli.console import print_line
from mha_cli.cli.data_option import DataOptions
from mha_cli.cli.doctor import installation, machine
from mha_cli.cli.inputs import load_checkpoint
from mha_cli.cli.output import refuse_output
from mha_cli.cli.progress import progress
from mha_cli.config.settings import Config
from mha_cli.errors import MhaError, need, shown_path
from mha_cli.runs import CHECKPOINT, read_history, run_name
from mha_cli.system.working_memory import refuse_confusion_matrix

NAME = "report.html"


def report(
    checkpoint: options.CheckpointArgument,
    output: Annotated[Path | None, options.output_option("Page to write.", f"{NAME} beside the checkpoint", "FILE")] = None,
    *,
    given: DataOptions,
    split: options.SplitOption = None,
) -> None:
    """Write a page on a run: figures, curves, confusions, mistakes and what decided them, word order, heads, settings."""
    from mha_cli.preparation.scored_texts import labelled_texts, word_order_split

    model, path = load_checkpoint(checkpoint)
    history = read_history(path)
    page = output or path.parent / NAME
    refuse_output("--output", page)
    if output is None and (page.is_symlink() or (page.exists() and not page.is_file())):  # a link in a foreign run may lead anywhere
        raise MhaError(f"{shown_path(page)}: is a link, or no file", "remove it, or name the page with --output")
    section = given.section(path, model.config)
    need("mha report", "report", "jinja2")
    with progress("reading") as callbacks:
        refuse_confusion_matrix(len(model.class_names))
        labelled = labelled_texts(model, section, split, callbacks)
        twins = word_order_split(section) if split is None else None
        word_order = labelled_texts(model, section, twins, callbacks) if twins else labelled
        callbacks.log("starting TensorFlow")
        from mha_cli.report.contents import report as report_on
        from mha_cli.report.diagnosis import diagnose
        from mha_cli.report.page import write_page

        contents = report_on(run_name(path), model, labelled, word_order, history, callbacks)
        facts = diagnose()
        made_with = {name: fact for name, fact in (*installation(facts), *machine(facts)) if name != "memory available"}  # never the same
        write_page(contents, made_with, _commands(path, model.config, split, given), page)
    print_line(f"written: {page}")


def _commands(checkpoint: Path, config: Config, split: str | None, given: DataOptions) -> list[str]:
    """The commands that write the same page again; the training comes first if its config and texts are at hand."""
    trained = checkpoint.name == CHECKPOINT and config.data.source != "memory"
    words = ["mha", "report", "again" if trained else checkpoint.name]
    for name, value in {"split": split, **asdict(given)}.items():
        for item in filter(None, value if isinstance(value, list) else [value]):
            words += [f"--{name.replace('_', '-')}", *([] if item is True else [item])]
    return [*(["mha train --config config.yaml --output again"] if trained else []), shlex.join(words)]
