"""`mha evaluate`."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

from typer import Option

from mha_cli.cli import options, render
from mha_cli.cli.console import print_json
from mha_cli.cli.data_option import DataOptions
from mha_cli.cli.inputs import load_checkpoint
from mha_cli.cli.output import refuse_output
from mha_cli.cli.progress import progress
from mha_cli.errors import MhaError, printable
from mha_cli.runs import checkpoint_in, is_own
from mha_cli.system.processor import prepare_to_compute

if TYPE_CHECKING:
    from mha_cli.analysis.thresholds import Measure


def evaluate(
    checkpoint: options.CheckpointArgument,
    given: DataOptions,
    split: Annotated[str | None, options.split_option("test; to find thresholds validation, if the model has not learnt from it")] = None,
    find_threshold: Annotated[
        str | None, Option(metavar="MEASURE=P", help="Find thresholds for a precision or recall of P; f1 is for levels.")
    ] = None,
    output: Annotated[Path | None, options.output_option("Checkpoint to write with these thresholds, new or the scored one.")] = None,
    coverage: options.CoverageOption = None,
    always_encode: options.AlwaysEncodeOption = False,
    as_json: options.JsonOption = False,
) -> None:
    """Score a checkpoint on labelled texts, and find thresholds below which it withholds answers."""
    target = None if find_threshold is None else _target(find_threshold)
    if target is None:
        options.goes_with("--find-threshold", output=output)
    prepare_to_compute()

    from mha_cli.analysis.evaluation import Evaluation
    from mha_cli.analysis.evaluation import evaluate as score
    from mha_cli.checkpoint.file import write_checkpoint
    from mha_cli.preparation.scored_texts import labelled_texts, learnt_texts
    from mha_cli.runtime.label_sets import fit_label_sets

    model, path = load_checkpoint(checkpoint)
    if target and (target[0] == "f1") != bool(model.config.label_levels):
        way_out = "f1" if model.config.label_levels else "precision=P or recall=P"
        raise MhaError("--find-threshold: f1 is for labels in levels, and they have no other", f"write {way_out}")
    model = model.always_encoding if always_encode else model
    if output is not None:
        output = checkpoint_in(output)
        refuse_output("--output", output, new=not (os.path.exists(output) and output.samefile(path)))
    sets = None if coverage is None else fit_label_sets(model, coverage)
    section = given.section(path, model.config)
    if target and given.data is None and split is None and not model.config.learns_from_validation:
        split = "validation"  # the test part then measures the thresholds
    with progress("reading") as callbacks:
        labelled = labelled_texts(model, section, split, callbacks, unseen=target is not None, with_none=True)
        if not labelled.caveat and is_own(path, model.config) and (known := learnt_texts(section, labelled, model.config.data)):
            callbacks.note(f"{labelled.data}, split {labelled.split}: {known}")
        evaluation = score(model, labelled, callbacks, target, sets=sets)
        may_be_chosen = target or (model.thresholds and not model.config.is_multi_label)  # several labels have those of the training
        if given.data is None and split is None and model.config.learns_from_validation and may_be_chosen:
            chosen = "the thresholds are chosen" if target else "the thresholds may have been chosen"
            callbacks.note(f"{chosen} on these texts, so their precision and recall are optimistic; --data FILE scores others")
        if output is not None:
            scored = evaluation.thresholds if isinstance(evaluation, Evaluation) else evaluation.labels
            levels = evaluation.levels if isinstance(evaluation, Evaluation) else None
            thresholds, level_threshold = {score.name: score.threshold for score in scored}, levels.threshold if levels else 0.0
            changed = replace(model, thresholds=thresholds, level_threshold=level_threshold)
            write_checkpoint(output, changed, small=not model.keras_config)
            callbacks.note(f"{output}: written with these thresholds; mha predict applies them")
        elif target:
            callbacks.note("these thresholds are in no checkpoint yet: --output FILE writes one")
    if as_json:
        print_json(evaluation)
    elif isinstance(evaluation, Evaluation):
        render.evaluation(evaluation)
    else:
        render.label_evaluation(evaluation)


def _target(given: str) -> tuple[Measure, float]:
    """What --find-threshold asks for: a measure and its value."""
    if given == "f1":
        return "f1", 1.0
    name, _, value = given.partition("=")
    share = float(value) if value.replace(".", "", 1).isdecimal() else 0.0
    if name not in ("precision", "recall") or not 0 < share <= 1:
        raise MhaError(f"--find-threshold {printable(given, 60)}: names no precision or recall", "write precision=0.95 or recall=0.9")
    return cast("Measure", name), share
