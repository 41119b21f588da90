"""Labelled texts to score trained models: a split of a data source, as a model reads it."""

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from mha_cli.arrays import Int64s
from mha_cli.checkpoint.file import Checkpoint
from mha_cli.config.settings import Config, FilesData, SampleData, TfdsData
from mha_cli.corpus.batches import Rows
from mha_cli.corpus.corpus import Corpus, counted
from mha_cli.corpus.encoded_texts import EncodedTexts, encode_labelled, of_known_classes
from mha_cli.errors import MhaError
from mha_cli.sources.files import FileTexts
from mha_cli.sources.labelled_text import LabelledText
from mha_cli.sources.labels import name_of, refuse_other_classes
from mha_cli.sources.later_texts import learnt_in_words
from mha_cli.sources.opening import DataSection, open_source
from mha_cli.sources.stored_texts import StoredTexts
from mha_cli.system.callbacks import SILENT, Callbacks


@dataclass(frozen=True)
class LabelledTexts:
    """A split of a data source as a model reads it."""

    data: str  # source in words
    split: str
    texts: EncodedTexts
    caveat: str = ""  # why figures on these texts are optimistic; empty for no reason
    source_texts: Iterable[LabelledText] = ()  # texts of the split that was read, to iterate again
    rows: Rows | None = None  # rows there, from 0, if the texts are the validation part; None for all

    def located(self, numbers: Int64s) -> list[LabelledText]:
        """Some of the texts with their locations, by their numbers from 0."""
        return texts_at(self.source_texts, numbers if self.rows is None else self.rows[numbers])


def labelled_texts(
    checkpoint: Checkpoint,
    data: DataSection,
    split: str | None = None,
    callbacks: Callbacks = SILENT,
    *,
    unseen: bool = False,
    with_none: bool = False,
) -> LabelledTexts:
    """Read a split of a data source, by default its test split, for a checkpoint's model.

    The split ``validation`` is the part held out in training; ``unseen`` refuses it if the model has learnt from it. Texts of no class that
    the model has no class for are left out, or ``with_none`` have the id after those of the classes.
    """
    source = open_source(data, callbacks, by_options=True)
    data = source.settings if isinstance(source, FileTexts) else data
    config, classes, rows, caveat = checkpoint.config, checkpoint.class_names, None, ""
    separator = data.label_separator if isinstance(data, FilesData) else None
    split = split or default_split(data)
    is_held_out, where = split == "validation" and split not in source.splits, f"{source.name}, split {split}"
    if is_held_out and config.learns_from_validation and unseen:
        part = f"{source.name}, validation part: the model has learnt from it in the end ({_refit(config)})"
        raise MhaError(part, "choose on texts that it has not learnt from: --split test, or --data FILE")
    given: Iterable[LabelledText] = source.read(source.splits[0] if is_held_out else split)
    if none := none_label(checkpoint):
        classes, given = (*classes, none), given if with_none else (text for text in given if text.label != none)
    source_texts = StoredTexts(given)
    texts = of_known_classes(source_texts, classes, config.is_multi_label, separator, config.label_levels)
    if is_held_out:
        pieces, by_names = checkpoint.text_pipeline.pieces, data.validation == "names"
        corpus = Corpus(texts, config.text, None, source.name, by_names, pieces, first_classes=classes)
        _, rows = corpus.split(data.validation_share, config.seed)
        encoded = corpus.encode(rows, checkpoint.vocabulary, config.text)
        if config.learns_from_validation:
            caveat = f"{source.name}, validation part: {_learnt(checkpoint, data)}"
    else:
        encoded = encode_labelled(counted(texts, where, callbacks), checkpoint.text_pipeline, classes, where)
        if _names_learnt_files(checkpoint, data, split):
            known = "the model was trained on a file of that name"
            caveat = f"{where}: {known}; if these are the same texts, the figures are optimistic"
    checkpoint.memory_estimate.refuse_too_long(int(encoded.input_lengths.max(initial=0)))
    if caveat:
        callbacks.note(caveat)
    if warning := encoded.warning(checkpoint.vocabulary):
        callbacks.note(f"{where}: {warning}")
    return LabelledTexts(source.name, split, encoded, caveat, source_texts, rows)


def none_label(checkpoint: Checkpoint) -> str | None:
    """The label of texts of no class if the model has no class for them; None otherwise."""
    label = name_of(checkpoint.config.data.none_label or "")
    return label if label and label not in checkpoint.class_names else None


def learnt_texts(data: DataSection, labelled: LabelledTexts, learnt: DataSection) -> str:
    """How many texts of test files a training has learnt from, in words; empty for none, or if its files are gone."""
    if isinstance(learnt, FilesData) and isinstance(data, FilesData) and labelled.split == "test" and data.test_paths:
        with suppress(MhaError):
            of_training = ((hash(text.text), text.label) for text in open_source(learnt).read("train") if text.text.strip())
            return learnt_in_words(labelled.source_texts, of_training)
    return ""


def texts_at(texts: Iterable[LabelledText], rows: Int64s) -> list[LabelledText]:
    """The texts of some rows, from 0, in the order of these."""
    wanted = set(rows.tolist())
    chosen = {row: text for row, text in enumerate(texts) if row in wanted}
    return [chosen[row] for row in rows.tolist()]


def same_texts(
    checkpoints: Sequence[Checkpoint], data: DataSection, split: str | None = None, callbacks: Callbacks = SILENT
) -> list[LabelledTexts]:
    """Read a split for several models, once for all models that read alike; ids of classes that a model lacks come after its own."""
    first, read, for_each = checkpoints[0], dict[object, LabelledTexts](), list[LabelledTexts]()
    every = sorted({name for model in checkpoints for name in model.class_names})
    for other in checkpoints:
        if sum(all(name in model.class_names for model in checkpoints) for name in every) < 2:
            refuse_other_classes(other.name, other.class_names, first.name, first.class_names)
        held_out_by = [(model.config.data, model.config.seed, model.class_names) for model in (first, other)]
        if split == "validation" and held_out_by[0] != held_out_by[1]:
            raise MhaError(f"{other.name}: holds out other texts in training than {first.name}", "say with --split which to take")
    for model in checkpoints:
        key = (model.config.text, model.class_names, model.vocabulary.tokens, model.tokenizer, split == "validation" and model.name)
        if key not in read:
            names = (*model.class_names, *(name for name in every if name not in model.class_names))
            read[key] = labelled_texts(replace(model, class_names=names), data, split, callbacks, unseen=True)
        model.memory_estimate.refuse_too_long(int(read[key].texts.input_lengths.max(initial=0)))
        for_each.append(read[key])
    return for_each


def refuse_unreadable(data: DataSection, split: str | None) -> None:
    """Read the first text of a split that is scored after a training, so that errors come before the training."""
    source, wanted = open_source(data), split or default_split(data)
    if wanted != "validation":
        next(iter(source.read(wanted)), None)


def default_split(data: DataSection) -> str:
    """The split that is scored when none is named."""
    return data.test_split if isinstance(data, TfdsData) else "test"


def word_order_split(data: DataSection) -> str | None:
    """The split on which a model shows whether it reads word order; None for the default one."""
    return "twins" if isinstance(data, SampleData) else None


def _learnt(checkpoint: Checkpoint, data: DataSection) -> str:
    setting = _refit(checkpoint.config)
    if data != checkpoint.config.data:
        known = f"if the model was trained on these texts, it has learnt from this part in the end ({setting})"
        return f"{known}, and the figures are optimistic"
    accuracy = checkpoint.metrics.get("validation_accuracy")
    before = f"; before, the accuracy was {accuracy:.2%}" if isinstance(accuracy, float) else ""
    return f"the model has learnt from it since ({setting}), so these figures are optimistic{before}"


def _refit(config: Config) -> str:
    """The setting by which a model has learnt from the validation part."""
    return "training.refit_linear" if config.refits_linear else "training.few_labels"


def _names_learnt_files(checkpoint: Checkpoint, data: DataSection, split: str) -> bool:
    """Whether a split has files with the names of files that the model was trained on."""
    trained = checkpoint.config.data
    if not (isinstance(trained, FilesData) and isinstance(data, FilesData)):
        return False
    alike = (data.train_paths, data.test_share, data.validation) == (trained.train_paths, trained.test_share, trained.validation)
    if split == "test" and not data.test_paths and alike:
        return False  # the part that was left out
    scored = data.test_paths if split == "test" and data.test_paths else data.train_paths
    return not set(map(os.path.abspath, scored)).isdisjoint(map(os.path.abspath, [*trained.train_paths, *trained.more]))
