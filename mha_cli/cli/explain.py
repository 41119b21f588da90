"""`mha explain`."""

from dataclasses import replace
from typing import Annotated

from typer import Context, Option

from mha_cli.cli import options
from mha_cli.cli.console import print_json
from mha_cli.cli.inputs import InspectedText, model_and_text
from mha_cli.cli.output import refuse_output
from mha_cli.cli.progress import progress


def explain(
    context: Context,
    given: InspectedText,
    reading: options.InputOptions,
    label: Annotated[
        str | None, Option(metavar="CLASS", help="Class to explain, or node of labels in levels, instead of the answer.")
    ] = None,
    gradients: Annotated[bool, Option("--gradients", help="Add integrated gradients; this starts TensorFlow.")] = False,
    html: options.HtmlOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Show which words decided: how far the probability falls when a word is left out."""
    from mha_cli.cli import render_inspection
    from mha_cli.pages.inspection import write_explanation_page
    from mha_cli.runtime.inspection import explain as explain_text

    refuse_output("--html", html)
    model, text = model_and_text(context, given, reading)
    explanation = explain_text(model, text, label)
    if gradients:
        with progress("starting TensorFlow"):
            from mha_cli.analysis.inside.attribution import integrated_gradients

            values, _ = integrated_gradients(model, explanation.prediction.text, explanation.class_ids)
            explanation = replace(explanation, gradients=values)
    if html is not None:
        write_explanation_page(explanation, model, html)
    print_json(explanation.as_json()) if as_json else render_inspection.explanation(explanation)
