"""`mha batch`."""

from contextlib import closing
from typing import Annotated, Literal

from typer import Argument, Exit, Option

from mha_cli.cli import options
from mha_cli.cli.console import print_json, print_line
from mha_cli.cli.inputs import load_checkpoint
from mha_cli.cli.progress import progress
from mha_cli.errors import EXIT_FAILURE, plural
from mha_cli.records.reader import shown_warnings
from mha_cli.system.processor import prepare_to_compute


def batch(
    files: Annotated[list[str], Argument(metavar="INPUT", help="Files, folders, patterns such as 'part-*.csv', or URIs (s3://…).")],
    output: Annotated[str, Option("--output", "-o", metavar="FOLDER", help="Folder for the parts, one per file; or a URI.")],
    checkpoint: options.CheckpointOption = None,
    workers: Annotated[
        int | None, Option(min=1, max=10_000, metavar="N", help="Processes that compute.", show_default="one per core; with --shard one")
    ] = None,
    shard: Annotated[str | None, Option(metavar="I/N", help="Classify every N-th file only, from the I-th on.")] = None,
    *,
    reading: options.InputOptions,
    output_format: Annotated[Literal["jsonl", "parquet"], Option(help="Format of the parts.")] = "jsonl",
    as_json: options.JsonOption = False,
) -> None:
    """Classify many files, on one machine or many: one output file (part) each, one row per text."""
    prepare_to_compute()

    from mha_cli.batch.run import classify_archive  # NumPy: keep `mha --help` fast

    model, path = load_checkpoint(checkpoint)
    made = classify_archive(
        files,
        output,
        model,
        path,
        workers=workers,
        shard=shard,
        record_format=reading.record_format,
        text_column=reading.text_column,
        dialect=reading.dialect,
        part_format=output_format,
    )
    with progress() as callbacks, closing(made) as summaries:
        callbacks.count("looking for files")
        failed = set[str]()
        for summary in summaries:
            for name in summary.failed.keys() - failed:
                callbacks.note(f"failed: {summary.failed[name]}")
            failed |= summary.failed.keys()
            callbacks.count(f"files: {summary.done:,} of {summary.files:,}; {plural(summary.texts, 'text')}, {summary.rate:,.0f} texts/s")
        for warning in shown_warnings([warning for warnings in summary.warnings.values() for warning in warnings]):
            callbacks.note(warning)
    if as_json:
        print_json(summary)
    else:
        outcomes = {"written": summary.written, "there already": summary.earlier, "failed": len(summary.failed)}
        parts = ", ".join(f"{number:,} {word}" for word, number in outcomes.items() if number) or "none"
        rows = f"{summary.rows:,}, {summary.unreadable:,} of them unreadable"
        speed = f"{plural(summary.texts, 'text')} in {summary.seconds:,.1f} s, {summary.rate:,.0f} texts/s"
        print_line(f"files: {parts}; rows: {rows}; {speed}")
    if summary.failed:
        raise Exit(EXIT_FAILURE)
