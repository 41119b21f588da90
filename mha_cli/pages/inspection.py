"""The pages of `mha attention`, `mha explain`, `mha shares`, `mha serve` and `mha label`."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path, PurePath
from typing import Any

from mha_cli.checkpoint.file import Checkpoint
from mha_cli.errors import listed, printable
from mha_cli.runtime.inspection import AttentionView, Explanation, ReadWords, entropy_line, mean_entropy, near_uniform
from mha_cli.runtime.levels import levels_of
from mha_cli.runtime.shares import GroupShares
from mha_cli.system.whole_files import atomic_write

MAX_CLASSES = 20  # names of classes among the figures of a model
MAX_WORDS = 200  # characters of the words of a class


def write_attention_page(view: AttentionView, model: Checkpoint, path: Path) -> None:
    """Write a page of the attention that each word gets and, for a chosen word, where it looks, per head."""
    _write_page("attention.html", path, {**_page_data(view, model), **view.entropies(), "weights": view.rounded_weights(5)})


def write_explanation_page(result: Explanation, model: Checkpoint, path: Path) -> None:
    """Write a page with the text coloured by each measure, side by side."""
    entropy, num_words = mean_entropy(result.attention), len(result.words)
    measures = {"occlusion": result.occlusion, "gradients": result.gradients, "attention": result.attention}
    uniform = "Close to uniform: " * near_uniform(entropy, num_words) + entropy_line(entropy, num_words)
    _write_page("explanation.html", path, {**_page_data(result, model), **measures, "entropy": uniform})


def write_shares_page(groups: Sequence[GroupShares], model: Checkpoint, path: Path) -> None:
    """Write a page with the share of every class, over the groups if there are several."""
    _write_page("shares.html", path, {"groups": [asdict(group) for group in groups], "model": model_figures(model)})


def model_figures(model: Checkpoint) -> dict[str, str]:
    """The details of a model, which may come from a stranger, for a page."""
    accuracy = model.metrics.get("validation_accuracy", -1)
    settings, linear, text = model.config.model, model.config.linear, model.config.text
    pieces = f"{text.max_pieces:,} pieces and " if settings.num_pieces else ""
    return {
        "model": "/".join(PurePath(model.name).parts[-2:]),  # without its parent folders, since a page may be passed on
        "classes": listed([printable(name, 40) for name in model.class_names], MAX_CLASSES),
        "validation accuracy": f"{accuracy:.2%}, according to the checkpoint" if 0 <= accuracy <= 1 else "not in the checkpoint",
        "encoder": f"blocks: {settings.num_blocks}; heads: {sum(settings.heads)}; width: {settings.embed_dim}",
        "positions": settings.positions,
        "reads": f"at most {pieces}{text.sequence_length:,} words; {len(model.vocabulary):,} ids",
        "n-grams": f"embeddings up to {settings.max_ngram}, linear model up to {linear.max_ngram if linear else 0}",
        "weights": f"{model.num_weights:,}",
    }


def _page_data(seen: ReadWords, model: Checkpoint) -> dict[str, Any]:
    """The data of both pages."""
    return {**seen.answer_and_words(), "model": model_figures(model), "notes": seen.notes}


def live_page(model: Checkpoint) -> str:
    """A page with a text field, for a server that answers ``explain``."""
    words = dict(reversed(model.config.class_lines))  # the first line of each class
    levels = levels_of(model)
    branches = levels.branches if levels else model.class_names
    classes = [(name, printable(words.get(name, ""), MAX_WORDS), branch) for name, branch in zip(model.class_names, branches, strict=True)]
    return _page("live.html", {"classes": classes, "model": model_figures(model)})


def label_page() -> str:
    """A page on which texts are labelled, for a server that gives them one by one."""
    return _page("label.html", {})


def _write_page(template: str, path: Path, data: dict[str, Any]) -> None:
    with atomic_write(path) as file:
        file.write(_page(template, data).encode())


def _page(template: str, data: dict[str, Any]) -> str:
    """A page with the shared style and script, and its data as JSON that cannot end the surrounding script."""
    page, style, script = (files(__package__).joinpath(name).read_text(encoding="utf-8") for name in (template, "shared.css", "shared.js"))
    safe = json.dumps(data).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return page.replace("/*STYLE*/", style).replace("/*SHARED*/", script).replace("/*DATA*/null", safe)
