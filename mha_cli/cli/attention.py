"""`mha attention`."""

import sys
from pathlib import Path
from typing import Annotated

from typer import Context, Option

from mha_cli.cli import options
from mha_cli.cli.console import print_json
from mha_cli.cli.inputs import InspectedText, model_and_text
from mha_cli.cli.output import refuse_output, refuse_picture, save_picture
from mha_cli.errors import printable, shown_path


def attention(
    context: Context,
    given: InspectedText,
    reading: options.InputOptions,
    block: Annotated[int, Option(min=0, help="Encoder block, from 0.")] = 0,
    head: Annotated[int | None, Option(min=0, help="Head of the block, from 0.", show_default="the mean over all heads")] = None,
    html: options.HtmlOption = None,
    png: Annotated[Path | None, Option(help="Draw every head of the block, or --head, into this PNG, SVG or PDF.")] = None,
    as_json: options.JsonOption = False,
) -> None:
    """Show which words look at which, head by head."""
    from mha_cli.cli import render_inspection
    from mha_cli.pages.inspection import write_attention_page
    from mha_cli.plots.figures import attention_figure
    from mha_cli.runtime.inspection import view_attention

    refuse_output("--html", html)
    refuse_picture(png, "--png")
    model, text = model_and_text(context, given, reading)
    view = view_attention(model, text)
    view.of(block, head)  # refused before anything is written
    if html is not None:
        write_attention_page(view, model, html)
    if png is not None:
        missing = save_picture(attention_figure(view, block, head), png)
        if boxed := sum(not missing.isdisjoint(printable(word)) for word in view.words):
            complaint = f"{boxed} of the {len(view.words)} words have letters that Matplotlib's font lacks, drawn as boxes"
            print(f"{shown_path(png)}: {complaint}; --html shows all letters", file=sys.stderr)
    print_json(view.as_json()) if as_json else render_inspection.attention(view, block, head)
