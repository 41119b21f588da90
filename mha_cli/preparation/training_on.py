"""Training on: a run that starts from the words, the classes and the weights of another one, its base."""

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from mha_cli.checkpoint.file import Checkpoint, read_config_and_metrics
from mha_cli.config.loading import config_from_dict, config_of, config_to_dict
from mha_cli.config.settings import Config, FilesData
from mha_cli.config.yaml_file import read_yaml
from mha_cli.corpus.batches import Rows
from mha_cli.corpus.corpus import Corpus
from mha_cli.errors import MhaError, listed, plural, printable, shown_path
from mha_cli.runs import CHECKPOINT, CONFIG, METRICS
from mha_cli.sources.labels import NAMED_CLASSES
from mha_cli.sources.raw_files import local_path, matching_paths

OPEN = (("text", "vocabulary_size"), ("training", "epochs"))  # settings that the texts decide anew
HELD_OUT_BY = ("validation_share", "validation", "merge_labels", "test_share")
TRAIN_ANEW = "train anew on all texts: the command of the base's training with --set data.more=[FILE]"


def config_to_train_on(run: Path, overrides: Sequence[str]) -> Config:
    """The config of a run, with overrides, to train on: the texts of ``data.train`` come after the run's, if these still exist."""
    if not (run / CONFIG).is_file() or not (run / CHECKPOINT).is_file():
        raise MhaError(f"--from {shown_path(run)}: no run with {CONFIG} and {CHECKPOINT}", "give a folder that mha train has written")
    document = read_yaml(run / CONFIG)
    base = config_of(document)
    if base.data != read_config_and_metrics(run / CHECKPOINT)[0].data:
        fault = f"--from {shown_path(run)}: its {CONFIG} and its checkpoint do not name the same data, so none of it is read"
        raise MhaError(fault, f"put the {CONFIG} of its training back")
    config = config_of(document, overrides)
    value = with_open_settings(config, overrides)
    value["training"]["base"] = str(run)
    if isinstance(config.data, FilesData) and isinstance(base.data, FilesData):
        first = base.data.train_paths + base.data.more
        added = [path for path in config.data.train_paths + config.data.more if path not in first]
        if first and all(map(_is_there, first)):
            value["data"] |= {"train": base.data.train, "more": base.data.more + added}
        elif added:
            value["data"] |= {"train": added, "more": []}
        separates = config.data.label_separator or config.data.label_columns
        if added and base.is_multi_label and not separates:  # a table may come after lists
            value["data"]["label_separator"] = base.cell_separator
    return config_from_dict(value, f"--from {shown_path(run)}")


def with_open_settings(config: Config, overrides: Sequence[str] = ()) -> dict[str, Any]:
    """A config as plain values with ``auto``, without the settings that the texts decide anew, unless an override sets them."""
    value = config.model_dump(mode="json") | {"auto": True}
    for section, name in OPEN:
        if not any(override.startswith(f"{section}.{name}=") for override in overrides):
            del value[section][name]
    return value


def stages_of(base: Checkpoint | None, config: Config) -> int:
    """Number of stages of the texts that the base was trained with; 0 if these texts are not read again."""
    if base is None:
        return 0
    data, earlier = config.data, base.config.data
    if isinstance(data, FilesData) and isinstance(earlier, FilesData):
        if data.train == earlier.train and data.more[: len(earlier.more)] == earlier.more:
            return 1 + len(earlier.more)
        if again := [path for path in data.train_paths + data.more if path in earlier.train_paths + earlier.more]:
            fault = f"training.base: {shown_path(again[0])} is among its files, and data.train and data.more do not begin with these"
            raise MhaError(fault, "use --from, so that held-out texts stay held out")
        return 0
    return int(data == earlier and data.source != "memory")


def in_words_beside(base: Checkpoint, corpus: Corpus, num_stages: int, validation: Rows) -> Iterator[str]:
    """Notes: which classes and labels are new, and whether the model may forget old texts."""
    name, path, data = shown_path(base.name) if base.name else "the base", Path(base.name), base.config.data
    if path.name == CHECKPOINT and path.with_name(CONFIG).is_file() and not path.with_name(METRICS).is_file():
        yield f"{name}: its training is not finished; its best epoch so far is the base"
    if further := corpus.class_names[len(base.class_names) :]:
        yield f"{name}: {plural(len(further), 'class')} more: {', '.join(map(printable, further[:5]))}"
    if gone := [printable(name) for name, size in corpus.sizes.items() if not size]:
        yield f"{name}: classes without texts now, which stay: {listed(gone, NAMED_CLASSES)}; figures leave out what no text has or gets"
    at = f" ({shown_path(listed([*data.train_paths, *data.more], 3))})" if isinstance(data, FilesData) else ""
    if num_stages:
        yield f"{name}: the texts that it was trained on{at} are read again"
    else:
        yield f"{name}: the texts that it was trained on{at} are not read again, so it may forget them, and classes without new texts most"
    num_texts = int((corpus.stages < num_stages).sum())
    before = base.metrics.get("labelled_texts", num_texts)
    if num_stages and corpus.weights is None and before != num_texts:  # weights may have left some out
        others = f"its files have {plural(num_texts, 'text')} now and had {before:,.0f}, so other texts are held out than before"
        yield f"{name}: {others}, and figures on them are optimistic; give later texts in a file of their own"
    changed = corpus.relabelled >= max(1, num_stages)
    if changed.any():
        yield f"{plural(int(changed.sum()), 'text')} with another label than before, {int(changed[validation].sum()):,} of them held out"


def refuse_other_settings(base: Checkpoint, config: Config, num_stages: int) -> None:
    """Refuse settings that the base's weights do not fit, or by which the training would learn from the base's held-out texts."""
    here, there = (config_to_dict(settings) for settings in (config.of_checkpoint(), base.config))
    pairs = {"": (here, there)} | {section: (here[section] or {}, there[section] or {}) for section in ("text", "model", "linear", "data")}
    names: dict[str, set[str]] = {"": {"seed"}, "data": {*HELD_OUT_BY}} if num_stages else {"": set(), "data": set()}
    for section, (now, before) in pairs.items():
        for name in names.get(section, {*now, *before} - {"vocabulary_size"}):
            if now.get(name) != before.get(name):
                setting = f"{section}.{name}".lstrip(".")
                value, wanted = (printable(json.dumps(settings.get(name), separators=(",", ":"))) for settings in (now, before))
                raise MhaError(f"{setting}={value}: the base has {wanted}", f"take {setting}={wanted}, or {TRAIN_ANEW}")
    if config.is_frozen and not num_stages:
        raise MhaError("training.base: a frozen encoder learns its classes from all texts at once", "give the base's texts as well")
    if num_stages and base.config.training.refits_encoder and not config.is_frozen:
        fault = "training.base: its encoder has learnt from its held-out texts in the end (training.few_labels)"
        raise MhaError(fault, TRAIN_ANEW)


def _is_there(given: str) -> bool:
    try:
        return all(os.path.exists(local_path(path) or os.curdir) for path in matching_paths(given))
    except MhaError:
        return False
