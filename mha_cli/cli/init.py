"""`mha init`."""

import os
import shlex
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from mha_cli.cli import options
from mha_cli.cli.console import print_figures, print_json, print_line
from mha_cli.cli.output import refuse_output
from mha_cli.cli.progress import progress
from mha_cli.cli.render import figure_rows, layout_rows
from mha_cli.config.recipes import find_config, name_of_data
from mha_cli.describe.new_config import new_config, test_part, test_share
from mha_cli.errors import MhaError, listed, shown_path
from mha_cli.system.whole_files import atomic_write


def init(
    files: Annotated[list[str], Argument(metavar="FILE", help="Labelled texts: tables, JSONL, fastText, Parquet, or a folder per class.")],
    output: Annotated[Path | None, options.output_option("Config to write.", "the name of the data, .yaml", "FILE")] = None,
    *,
    reading: options.LabelledFileOptions,
    force: Annotated[bool, Option("--force", help="Overwrite an existing config.")] = False,
    as_json: options.JsonOption = False,
) -> None:
    """Describe labelled texts, and write a config to train on them."""
    from mha_cli.describe.profile import profile_data

    path = output or Path(f"{name_of_data(files[0]) or 'data'}.yaml")
    if os.path.lexists(path) and not force:
        raise MhaError(f"{shown_path(path)}: exists", "name another file with --output, or write over it with --force")
    refuse_output("--output", path)
    with progress("reading") as callbacks:
        profile = profile_data(files, reading.text_column, reading.label_column, callbacks, reading.dialect)
    config = new_config(profile, find_config("text"))
    with atomic_write(path) as file:
        file.write(config.encode())
    if as_json:
        fields = asdict(profile)
        figures, dialect = fields.pop("texts"), profile.dialect._asdict()
        del fields["dialect"]
        print_json({"config": str(path), "test_share": test_share(profile), **fields, **dialect, **figures})
        return
    in_files = f" in {profile.num_files:,} files" if profile.num_files > 1 else ""
    rows = [*layout_rows(profile.layout), *figure_rows(profile.texts, in_files), ("test part", test_part(profile))]
    print_figures(listed(profile.data, 1), rows)
    print_line(f"written: {path}")
    print_line(f"next: {shlex.join(['mha', 'train', '--config', str(path)])}")
