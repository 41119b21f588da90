"""`mha heads`."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from typer import Option

from mha_cli.cli import options
from mha_cli.cli.console import print_json
from mha_cli.cli.data_option import DataOptions
from mha_cli.cli.inputs import load_checkpoint
from mha_cli.cli.output import refuse_output, refuse_picture, save_picture
from mha_cli.cli.progress import progress
from mha_cli.errors import MhaError, plural
from mha_cli.runs import is_own


def heads(
    checkpoint: options.CheckpointArgument,
    given: DataOptions,
    split: Annotated[str | None, options.split_option("validation; of --data its test split")] = None,
    max_texts: options.MaxTextsOption = None,
    prune: Annotated[int | None, Option(min=1, metavar="K", help="Remove the K least important heads.")] = None,
    output: Annotated[Path | None, options.output_option("File of the pruned checkpoint.")] = None,
    retrain: Annotated[int, Option(min=0, metavar="EPOCHS", help="Train the pruned model further.")] = 0,
    plot: options.PlotOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Show how much each attention head matters, and remove those that matter least."""
    if (prune is None) != (output is None):
        raise MhaError("--prune and --output go together", "give the number of heads to remove and the file to write")
    if prune is None:
        options.goes_with("--prune", retrain=retrain)
    from mha_cli.cli import render_inspection
    from mha_cli.plots.figures import heads_figure
    from mha_cli.preparation.scored_texts import labelled_texts

    refuse_output("--output", output, new=True)
    refuse_picture(plot)
    model, path = load_checkpoint(checkpoint)
    num_heads, num_blocks = sum(model.config.model.heads), model.config.model.num_blocks
    if prune is not None and prune > num_heads - num_blocks:
        message = f"--prune {prune}: the model has {plural(num_heads, 'head')} in {plural(num_blocks, 'block')}"
        raise MhaError(message, f"at most {num_heads - num_blocks} can be removed, since every block keeps one")
    if prune is not None and (model.config.model.num_key_value_heads or model.config.model.positions == "linear_biases"):
        problem = f"--prune {prune}: a head's keys, or its slope, depend on the number of heads"
        raise MhaError(problem, "only models with num_key_value_heads=null and without linear_biases can be pruned")
    if prune is not None and not retrain and model.config.data.none_label:
        raise MhaError(f"--prune {prune}: data.none_label needs what the smaller model answers to held-out texts", "add --retrain 1")
    section = given.section(path, model.config)
    learnt_from = model.config.data if is_own(path, model.config) else section
    if given.data is None and split is None:
        split = "validation"  # the test split must not choose heads
    with progress() as callbacks:
        labelled = labelled_texts(model, section, split, callbacks)
        callbacks.log("starting TensorFlow")
        from mha_cli.analysis.inside.head_scores import score_heads
        from mha_cli.analysis.inside.pruning import prune as prune_heads

        report, scored = score_heads(model, labelled, max_texts, callbacks)
        pruning = prune_heads(model, report, scored, prune, output, retrain, learnt_from, callbacks) if prune and output else None
    if plot is not None:
        save_picture(heads_figure(report), plot)
    print_json({**asdict(report), "pruning": pruning}) if as_json else render_inspection.heads(report, pruning)
