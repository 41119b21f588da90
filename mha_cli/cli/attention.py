"""`mha attention`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mha_cli.cli.options import CheckpointOption, HtmlOption, JsonOption

EXAMPLES = """[bold]Examples[/bold]

mha attention "The acting was superb, not dreadful."

mha attention "The acting was superb, not dreadful." --head 1 --png head.png

mha attention "The acting was superb, not dreadful." --html attention.html"""


def attention(
    text: Annotated[str, typer.Argument(help="The review to look into.", show_default=False)],
    checkpoint: CheckpointOption = None,
    block: Annotated[int, typer.Option("--block", min=0, help="Encoder block, from 0.")] = 0,
    head: Annotated[
        int | None, typer.Option("--head", min=0, help="Head of the block, from 0.", show_default="the mean over all heads")
    ] = None,
    html: HtmlOption = None,
    png: Annotated[Path | None, typer.Option("--png", help="Draw every head of the block into this PNG, SVG or PDF file.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Show which words look at which, head by head."""
    from mha_cli.cli import look
    from mha_cli.cli.predict import decodable, load_checkpoint

    if png is not None:
        from mha_cli.cli.plots import refuse_unknown_format

        refuse_unknown_format(png, "--png")
    from mha_cli.runtime.inspection import view_attention

    view = view_attention(load_checkpoint(checkpoint), decodable(text))
    view.of(block, head)  # refused before anything is written
    if html is not None:
        look.write_attention_page(view, html)
    if png is not None:
        from mha_cli.cli.plots import plot_attention

        plot_attention(view, block, head, png)
    look.attention(view, block, head, as_json=as_json)
