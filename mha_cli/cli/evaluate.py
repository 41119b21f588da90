"""`mha evaluate`."""

from __future__ import annotations

from mha_cli.cli.options import CheckpointArgument, DataOption, JsonOption, LabelColumnOption, SplitOption, TextColumnOption

EXAMPLES = """[bold]Examples[/bold]

mha evaluate runs/imdb

mha evaluate runs/imdb/checkpoint.keras --data mine.csv \\
    --text-column review --label-column verdict

mha evaluate runs/sample --split twins --json"""


def evaluate(
    checkpoint: CheckpointArgument,
    data: DataOption = None,
    split: SplitOption = None,
    text_column: TextColumnOption = None,
    label_column: LabelColumnOption = None,
    as_json: JsonOption = False,
) -> None:
    """Score a checkpoint on labelled texts."""
    from mha_cli.checkpoint.file import read_checkpoint
    from mha_cli.checkpoint.runs import checkpoint_in
    from mha_cli.cli import render
    from mha_cli.cli.console import print_json
    from mha_cli.cli.data_option import data_section
    from mha_cli.cli.progress import status
    from mha_cli.data.preparation import labelled_reviews
    from mha_cli.system.working_memory import refuse_confusion_matrix

    path = checkpoint_in(checkpoint)
    model = read_checkpoint(path)
    section = data_section(data, path, model.config, text_column, label_column)
    with status("reading") as watcher:
        labelled = labelled_reviews(model, section, split, watcher)
        refuse_confusion_matrix(len(model.class_names))  # asked again by what scores; asked here too, it comes before TensorFlow is there
        watcher.log("starting TensorFlow")
        from mha_cli.analysis.evaluation import evaluate as score

        evaluation = score(model, labelled, watcher)
    print_json(evaluation) if as_json else render.evaluation(evaluation)
