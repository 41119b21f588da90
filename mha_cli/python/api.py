"""``load``, ``train``, ``evaluate`` and ``next_texts``: the commands of these names, for texts in memory."""

from __future__ import annotations

import dataclasses
import os
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mha_cli.checkpoint.file import Checkpoint, read_checkpoint
from mha_cli.config.loading import config_from_dict, section_of
from mha_cli.config.recipes import find_config
from mha_cli.config.settings import DataSettings
from mha_cli.config.yaml_file import read_yaml
from mha_cli.errors import MhaError, printable
from mha_cli.preparation.training_on import with_open_settings
from mha_cli.records.record import Record
from mha_cli.runs import choose_checkpoint, run_directory
from mha_cli.runtime.classifier import Classifier
from mha_cli.sources.in_memory import MemoryTexts, UnlabelledTexts, texts_in
from mha_cli.system.callbacks import SILENT, Callbacks

if TYPE_CHECKING:
    from mha_cli.analysis.evaluation import Evaluation, LabelEvaluation
    from mha_cli.config.settings import Config


def load(path: str | os.PathLike[str] | None = None) -> Classifier:
    """A trained classifier, without TensorFlow.

    Args:
        path: checkpoint or run directory. None takes what `mha predict` takes: ``$MHA_CHECKPOINT``, the last trained run in ``runs``, or
            the model that comes with mha.
    """
    chosen, _ = choose_checkpoint(None if path is None else Path(path))
    return Classifier(read_checkpoint(chosen), threads=None)


def train(
    config: str | os.PathLike[str] | Mapping[str, Any],
    texts: Sequence[str],
    labels: Sequence[object] | None = None,
    *,
    weights: Sequence[float] | None = None,
    base: Classifier | None = None,
    output: str | os.PathLike[str] | None = None,
    log: Callable[[str], None] | None = None,
    **settings: Any,
) -> Classifier:
    """Train a classifier, as `mha train` does.

    Args:
        config: recipe by its name, path of a YAML config, or its content as a dict. Of its section ``data`` counts how validation texts are
            held out, ``merge_labels``, and ``none_label``.
        texts: texts to learn from and to validate with, N.
        labels: class of each, or a list of them; None to guess them by the words in the setting ``classes``.
        weights: how much each text counts: 2 as if it were there twice, 0 not at all; None for all alike.
        base: classifier to train on from; the config then is ``{}``, or holds what replaces settings of its own. Texts that it has learnt
            from are not to be given again, since their held-out part is not known.
        output: run directory to write; None leaves nothing behind.
        settings: settings by their names, such as ``epochs=3``, that replace the config's. Those of the linear model are one dict, as in
            ``linear={"max_ngram": 2}``; ``linear=None`` turns it off.
    """
    if not isinstance(base, Classifier | None):
        raise MhaError(f"base is {printable(repr(base), 60)}", "give a model, such as mha_cli.load(FOLDER)")
    resolved = given_config(config if base is None else _config_on(base.checkpoint, config), settings)
    if labels is None and not resolved.class_lines:
        raise MhaError("texts without labels", "give labels, or the words of the classes, as in classes={name: words}")
    given = UnlabelledTexts(texts) if labels is None else MemoryTexts(texts, labels, weights, resolved.data.merge_labels)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()) if output is None else output)
        run = stack.enter_context(run_directory(folder, resolved))
        from mha_cli.preparation.prepare import prepare

        callbacks = SILENT if log is None else Callbacks(note=log, on_epoch=lambda record: log(str(record)))
        data = prepare(resolved, callbacks, given, base.checkpoint if base else None)
        from mha_cli.system.tensorflow_setup import graphs_let_go  # TensorFlow: after everything that may be refused
        from mha_cli.training.run import train as run_training

        with graphs_let_go():  # a program may train many
            summary = run_training(data.config, run, callbacks, data)
        checkpoint = read_checkpoint(summary.checkpoint)
    return Classifier(dataclasses.replace(checkpoint, name=str(summary.checkpoint) if output else ""), threads=None)


def evaluate(model: Classifier, texts: Sequence[str], labels: Sequence[object]) -> Evaluation | LabelEvaluation:
    """Score a classifier on texts and the names of their classes, N each, or lists of these, as `mha evaluate` does."""
    from mha_cli.corpus.encoded_texts import encode_labelled, of_known_classes
    from mha_cli.preparation.scored_texts import LabelledTexts, none_label

    given = MemoryTexts(texts, labels, merge=model.checkpoint.config.data.merge_labels, columns=model.checkpoint.text_columns)
    config = model.checkpoint.config
    names = (*model.classes, *filter(None, [none_label(model.checkpoint)]))
    texts_of_classes = of_known_classes(given.read(), names, config.is_multi_label, levels=config.label_levels)
    encoded = encode_labelled(texts_of_classes, model.text_pipeline, names, given.name)
    model.checkpoint.memory_estimate.refuse_too_long(int(encoded.lengths.max(initial=0)))
    from mha_cli.analysis.evaluation import evaluate as score

    return score(model.checkpoint, LabelledTexts(given.name, "memory", encoded))


def next_texts(
    model: Classifier | None, texts: Sequence[str], number: int, known: Iterable[str] = (), pretrained: str | os.PathLike[str] | None = None
) -> list[int]:
    """The numbers, from 0, of the texts to label next, the most useful first, as `mha data` chooses them.

    Args:
        model: classifier whom the labels would teach most. None for the first texts: the most typical ones.
        number: texts to choose, if there are so many.
        known: texts that have a label already, which are not chosen.
        pretrained: without a model, the folder of a pretrained encoder to compare texts by; None compares their words.
    """
    if model is None:
        from mha_cli.labelling.first_texts import typical_texts

        return typical_texts(texts_in(texts), number, known, None if pretrained is None else Path(pretrained))
    from mha_cli.labelling.next_texts import NextTexts, same_text
    from mha_cli.runtime.stream import Answering

    columns = model.checkpoint.text_columns
    chosen = NextTexts(model, number, {*map(same_text, texts_in(known, columns))})
    Answering(model).run((Record(text, b"", line=row) for row, text in enumerate(texts_in(texts, columns))), chosen.add)
    return [record.line for record in chosen.chosen()]


def given_config(config: str | os.PathLike[str] | Mapping[str, Any], settings: Mapping[str, Any]) -> Config:
    """The config of a training on given texts; arguments as of ``train``."""
    name = "config" if isinstance(config, Mapping) else os.fspath(config)
    value = {**config} if isinstance(config, Mapping) else read_yaml(find_config(name)).value
    if not all(isinstance(value.get(section) or {}, Mapping) for section in ("data", "text", "model", "linear", "training")):
        return config_from_dict(value, name)  # which refuses it
    data = value.get("data") or {}
    value["data"] = {"source": "memory"} | {key: data[key] for key in DataSettings.model_fields if key in data}
    for key, setting in settings.items():
        section = section_of(key)
        value |= {section: {**(value.get(section) or {}), key: _plain(setting)}} if section else {key: _plain(setting)}
    return config_from_dict(value, name)


def _config_on(base: Checkpoint, config: object) -> dict[str, Any]:
    """The config of a training on: the base's, with open settings, and what a dict gives in their place."""
    if not isinstance(config, Mapping):
        raise MhaError("base brings its own config", "give {} as the config, or a dict of what replaces its settings")
    value = with_open_settings(base.config)
    for name, given in config.items():
        value[name] = {**(value.get(name) or {}), **given} if isinstance(given, Mapping) else given
    return value


def _plain(setting: Any) -> Any:
    """NumPy's numbers as Python's and paths as text, in dicts as well."""
    if isinstance(setting, Mapping):
        return {key: _plain(value) for key, value in setting.items()}
    if isinstance(setting, os.PathLike):
        return os.fspath(setting)
    return setting.item() if isinstance(setting, np.generic) else setting
