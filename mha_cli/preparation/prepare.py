"""From a data source to the inputs of a training: encoded texts, a vocabulary and class names. Nothing here needs TensorFlow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain, compress
from pathlib import Path

import numpy as np

from mha_cli.arrays import Array, Bools, Floats
from mha_cli.checkpoint.file import Checkpoint, read_checkpoint
from mha_cli.config.decisions import decide, in_words
from mha_cli.config.settings import Config
from mha_cli.corpus.corpus import Corpus, counted
from mha_cli.corpus.encoded_texts import EncodedTexts, encode_texts, join_texts
from mha_cli.errors import MhaError, listed, plural, printable, shown_path
from mha_cli.preparation.class_texts import GuessedTexts, class_texts
from mha_cli.preparation.made_texts import made_texts
from mha_cli.preparation.training_on import in_words_beside, refuse_other_settings, stages_of
from mha_cli.pretrained.folder import PretrainedEncoder, read_pretrained, with_pretrained
from mha_cli.pretrained.vectors import VECTOR_FORMATS, WordVectors, read_vectors
from mha_cli.runs import checkpoint_in
from mha_cli.sources.files import FileTexts
from mha_cli.sources.in_memory import MemoryTexts
from mha_cli.sources.labelled_text import LabelledText, TextSource
from mha_cli.sources.labels import NAMED_CLASSES, name_of, refuse_other_classes
from mha_cli.sources.later_texts import learnt_in_words
from mha_cli.sources.opening import open_source
from mha_cli.sources.stored_texts import StoredTexts
from mha_cli.sources.targets import are_several
from mha_cli.system.callbacks import SILENT, Callbacks
from mha_cli.text.encoding import TextPipeline
from mha_cli.text.vocabulary import NO_WORDS, Vocabulary

MOST_KNOWN = 0.1  # share of the validation part that may be among the texts learnt from without a note


@dataclass(frozen=True)
class PreparedData:
    """The training split, divided and encoded.

    ``held_out_before`` says which texts of ``validation`` were held out when ``base`` was trained, (E,); none if its texts are not read
    again.
    """

    config: Config  # settings of the run, with those that the data decided
    train: EncodedTexts
    validation: EncodedTexts
    vocabulary: Vocabulary  # words of ``train``, and of the validation part if the model learns from it
    class_names: tuple[str, ...]
    unlabelled: EncodedTexts | None = None  # texts for the teacher to label; for a run that teaches, with texts made of ``train``
    taught: Array | None = None  # the teacher's probabilities for the N texts of ``train``, float16 (N, C); None without a teacher
    num_guessed: int = 0  # texts at the end of ``train`` that have no label but the teacher's
    teacher: tuple[Checkpoint, EncodedTexts] | None = None  # run that teaches, with ``train`` and then ``unlabelled`` as it reads them
    pretrained: PretrainedEncoder | None = None  # encoder that the training starts from; None for one from scratch
    vectors: WordVectors | None = None  # of words of ``vocabulary``, which then has words of their file as well; None without a file
    base: Checkpoint | None = None  # model that is trained on; None for a training from the start
    held_out_before: Bools = field(default_factory=lambda: np.zeros(0, bool))
    num_lines: int = 0  # lines of the words of classes, which ``train`` ends with
    are_guessed: bool = False  # True where all labels are guesses, by the words of the classes

    @property
    def num_labelled(self) -> int:
        """Texts of the source, of both parts."""
        return len(self.train) - self.num_lines - self.num_guessed + len(self.validation)

    def with_validation(self) -> PreparedData:
        """The same with all labelled texts in ``train``."""
        return replace(self, train=join_texts(self.train, self.validation), taught=None)

    def starting_from(self, weights: Mapping[str, Floats]) -> PreparedData:
        """The same with further weights, by variable path, in the pretrained encoder that the training starts from."""
        assert self.pretrained
        return replace(self, pretrained=replace(self.pretrained, weights={**self.pretrained.weights, **weights}))


def prepare(
    config: Config, callbacks: Callbacks = SILENT, in_memory: TextSource | None = None, base: Checkpoint | None = None
) -> PreparedData:
    """Read the training split, or ``in_memory`` texts, hold out the validation part, build the vocabulary and encode both.

    ``base`` is the model to train on, by default that of the config.
    """
    if config.training.base:
        base = read_checkpoint(checkpoint_in(Path(config.training.base)))
    num_stages = stages_of(base, config)
    pretrained = None
    if config.model.pretrained:
        pretrained = read_pretrained(Path(config.model.pretrained))
        config = with_pretrained(config, pretrained)
        if config.text.prompt:
            callbacks.note(f'text.prompt: the encoder reads "{printable(config.text.prompt)}" before every text')
    if base:
        refuse_other_settings(base, config, num_stages)
    run = config.training.teacher
    teacher = None if run in (None, "linear") else read_checkpoint(checkpoint_in(Path(run)))
    if config.model.vectors and not Path(config.model.vectors).exists():  # they are read after the texts, which may take long
        raise MhaError(f"model.vectors: {shown_path(config.model.vectors)}: no such file or folder", VECTOR_FORMATS)
    source: TextSource = in_memory or open_source(config.data, callbacks)
    if isinstance(source, FileTexts):
        config = config.changed(data=source.settings)  # with the columns that were found
    unlabelled = source.unlabelled()  # first, since a path that is wrong is refused at once
    are_guessed = not source.has_labels
    if are_guessed:
        if config.data.none_label:
            raise MhaError("data.none_label: its threshold is chosen by held-out labels, and no text has one", "take null")
        source, unlabelled = GuessedTexts(source, config, callbacks), None
        if config.training.trainable_blocks == "auto":  # fine-tuning learns the errors of the guesses by heart
            config = config.changed(training={"trainable_blocks": 0})
    split = source.splits[0]
    texts: Iterable[LabelledText] = counted(source.read(split), source.name, callbacks)
    if teacher:  # which answers them later
        texts = StoredTexts(texts)
    where = source.name if in_memory or are_guessed else f"{source.name}, split {split}"
    pieces = None if pretrained is None else pretrained.piece_tokenizer(config.text)
    by_names, lines = config.data.validation == "names", config.class_lines if config.compares_words else []
    first_classes = (*(base.class_names if base else ()), *(name for name, _ in lines))
    corpus = Corpus(texts, config.text, source.class_names, where, by_names, pieces, first_classes=tuple(dict.fromkeys(first_classes)))
    config = config.for_labels(are_several(corpus.labels))
    for name, model in (("base", base), ("teacher", teacher)):
        if model and config.task != model.config.task:
            raise MhaError(f"{source.name}: {config.task} texts, and training.{name} is a {model.config.task} model", "take another model")
    if config.is_multi_label:
        callbacks.note(f"{source.name}: several labels per text, {corpus.labels.sum() / len(corpus):.1f} on average")
    if teacher:
        refuse_other_classes(f"training.teacher: {teacher.name}", teacher.class_names, where, corpus.class_names)
    for warning in _data_warnings(corpus, source, config):
        callbacks.note(warning)

    facts = corpus.facts()
    if base:
        is_new = (corpus.stages >= num_stages) | (corpus.relabelled >= max(1, num_stages))
        facts = corpus.facts(base.vocabulary, float(is_new.mean()))
    if config.auto:
        for line in in_words(config, facts):
            callbacks.note(line)
        config = decide(config, facts)

    train_rows, validation_rows = corpus.split(config.data.validation_share, config.seed)
    held_out_before = corpus.stages[validation_rows] < num_stages
    if base:
        for line in in_words_beside(base, corpus, num_stages, validation_rows):
            callbacks.note(line)
    rows = np.arange(len(corpus)) if config.learns_from_validation else train_rows
    vocabulary = corpus.vocabulary(rows, config.text.vocabulary_size, base.vocabulary if base else NO_WORDS)
    vectors = None
    if config.model.vectors:
        vectors = read_vectors(Path(config.model.vectors), vocabulary, config.text)
        callbacks.note(vectors.coverage(len(vocabulary)))
        vocabulary = vectors.vocabulary
    train, validation = (corpus.encode(rows, vocabulary, config.text) for rows in (train_rows, validation_rows))
    if lines:
        train = join_texts(train, class_texts(config, TextPipeline(config.text, vocabulary, pieces), corpus.class_names))
    num_known = corpus.count_known(corpus.hashes[validation_rows], train_rows)
    part = f"{source.name}, validation part"
    if num_known > MOST_KNOWN * len(validation):
        shared = f"texts that are also in the training part: {num_known:,} of {len(validation):,}"
        callbacks.note(f"{part}; {shared}; its figures are optimistic for other texts")
    if warning := validation.warning(vocabulary, "give more texts, or raise text.vocabulary_size"):
        callbacks.note(f"{part}: {warning}")

    made = list(made_texts([corpus.words(row) for row in train_rows], config.seed)) if teacher else []
    encoded = teaches = None
    if unlabelled is not None and not config.reads_unlabelled:
        callbacks.note(f"{source.name}: nothing reads the texts without labels; see training.teacher and linear.ngram_embeddings")
    elif unlabelled is not None or teacher:
        more = counted(chain(unlabelled or (), made), f"{source.name}, texts without labels", callbacks)
        encoded = encode_texts(more, TextPipeline(config.text, vocabulary, pieces))
    if teacher:
        labelled = compress((text.text for text in texts), np.isin(np.arange(len(corpus)), train_rows))
        words = (line for _, line in lines)
        teaches = teacher, encode_texts(chain(labelled, words, source.unlabelled() or (), made), teacher.text_pipeline)
    return PreparedData(
        config=config,
        train=train,
        validation=validation,
        vocabulary=vocabulary,
        class_names=corpus.class_names,
        unlabelled=encoded,
        teacher=teaches,
        pretrained=pretrained,
        vectors=vectors,
        base=base,
        held_out_before=held_out_before,
        num_lines=len(lines),
        are_guessed=are_guessed,
    )


def _data_warnings(corpus: Corpus, source: TextSource, config: Config) -> Iterator[str]:
    """Warnings: likely mistakes in the training data, test texts among them, and classes with a single text."""
    if isinstance(source, FileTexts | MemoryTexts):
        read = source.warnings
        issues = corpus.data_issues(read)
        if line := (issues if config.training.class_weights == "none" else replace(issues, rare=())).line():
            yield f"{source.name}, {plural(len(corpus), 'text')}; {line}"
        yield from read.lines
        for split in source.splits[1:]:
            try:
                if known := learnt_in_words(source.read(split), corpus.learnt):
                    yield f"{source.name}; {split} {known}"
            except MhaError as error:  # no reason not to train, but one to know of before the hours that it may take
                yield f"the {split} data cannot be read: {error}"
    if (none := config.data.none_label) and name_of(none) not in corpus.class_names:
        yield f"data.none_label: no training text has the label {printable(none)}, so the classes alone tell which texts have none"
    if isinstance(source, FileTexts) and config.is_multi_label:
        separator = config.cell_separator
        if unclear := [printable(name) for name in corpus.class_names if separator in name]:
            held = f"is part of class names: {listed(unclear, NAMED_CLASSES)}"
            yield f"{source.name}: '{printable(separator)}' separates labels in one cell and {held}; set another data.label_separator"
    if config.class_lines and not config.compares_words:
        yield "classes: their words are not read, since there is neither model.pretrained nor model.vectors to compare them with texts"
    elif alone := [printable(name) for name in dict(config.class_lines) if not corpus.sizes.get(name, 1)]:
        yield f"{source.name}: classes without a text, which only their words tell: {listed(alone, NAMED_CLASSES)}"
    if single := [printable(name) for name, size in corpus.sizes.items() if size == 1]:
        classes = f"{plural(len(single), 'class')} {'has' if len(single) == 1 else 'have'}"
        yield f"{source.name}: {classes} a single text, which is used for training only: {listed(single, NAMED_CLASSES)}"
