"""The contents of a report, from one checkpoint and labelled texts."""

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from mha_cli.analysis.evaluation import Evaluation, LabelEvaluation, evaluate, scored
from mha_cli.analysis.inside.head_scores import HeadReport, score_heads
from mha_cli.analysis.shuffle import ShuffleResult, compare
from mha_cli.arrays import Float64s
from mha_cli.checkpoint.file import Checkpoint
from mha_cli.errors import MhaError
from mha_cli.preparation.scored_texts import LabelledTexts
from mha_cli.runtime.inspection import explain
from mha_cli.runtime.metrics import answers_among, confidence_bins
from mha_cli.sources.labelled_text import LabelledText
from mha_cli.system.callbacks import SILENT, Callbacks, EpochRecord

MOST_MISTAKES = 10  # wrong answers that are shown
MOST_WORDS = 1_000  # words of a text that is explained: every word takes a forward pass over all the others
SHOWN_WORDS = 80  # words of a text that are shown
SHUFFLES, SHUFFLED_TEXTS = 3, 1_000  # shuffles of every text, and texts in the random part that is shuffled

MOST_FOR_HEADS, PASSES_FOR_HEADS, PRODUCTS_FOR_HEADS = 500, 32_000, 5e11
"""Texts in the random part that is scored without each head, and the most forward passes and multiplications that this may take."""

FEWEST_FOR_HEADS = 100  # if fewer texts are allowed, the gradient is measured alone: one text would be more than a point of accuracy


@dataclass(frozen=True)
class Mistake:
    """A wrong answer."""

    place: str  # file, or source and split, and the line or the number of the text in it
    true: str  # class of the text, or its labels
    answer: str  # class, or one of several labels
    missed: bool  # whether the text has this label and did not get it
    probability: float  # probability of the answer, in [0, 1]
    words: list[str]  # consecutive words to show: all that the model reads, or of a longer text those that decide most
    falls: list[float] | None  # fall of the answer's probability without each word; None for a text that is too long to explain
    num_before: int  # words that the model reads before these
    num_after: int  # and after them


@dataclass(frozen=True)
class Report:
    """The contents of a report."""

    name: str  # name of the run, or of the file
    checkpoint: Checkpoint
    history: list[EpochRecord]  # epochs of the training; empty if unknown
    evaluation: Evaluation | LabelEvaluation
    reliability: Float64s  # answers by their probability, from ``confidence_bins``
    mistakes: list[Mistake]  # wrong answers, the most confident first
    shuffle: ShuffleResult  # word-order test on a random part
    heads: HeadReport  # importance of every head, on a random part; by the gradient alone if silencing each takes long
    caveat: str = ""  # reason why the figures may be optimistic, or empty


def report(
    name: str,
    checkpoint: Checkpoint,
    labelled: LabelledTexts,
    word_order: LabelledTexts,
    history: Sequence[EpochRecord] = (),
    callbacks: Callbacks = SILENT,
) -> Report:
    """Score a checkpoint on ``labelled``, explain its worst mistakes, shuffle the words of ``word_order``, silence heads."""
    probabilities, *_ = found = scored(checkpoint, labelled, callbacks)
    labels, names, is_multi_label = labelled.texts.labels, checkpoint.class_names, checkpoint.config.is_multi_label
    if is_multi_label:  # of each text, the label about which the model is wrong with the most confidence
        given = answers_among(probabilities, is_multi_label, checkpoint.label_thresholds)
        confidences = np.where(given == labels, -1.0, np.where(given, probabilities, 1.0 - probabilities))
        wrong = np.flatnonzero((given != labels).any(axis=1))
        in_bins = confidence_bins(np.stack([1.0 - probabilities.ravel(), probabilities.ravel()], axis=1), labels.ravel().astype(np.int32))
    else:
        confidences, in_bins = probabilities, confidence_bins(probabilities, labels)
        wrong = np.flatnonzero(probabilities.argmax(axis=1) != labels)
    decided, confidence = confidences.argmax(axis=1), confidences.max(axis=1)
    worst = wrong[np.argsort(-confidence[wrong], kind="stable")][:MOST_MISTAKES]
    mistakes = []
    for number, (row, text) in enumerate(zip(worst, labelled.located(worst), strict=True), 1):
        callbacks.log(f"explaining mistake {number} of {len(worst)}")
        missed = is_multi_label and not given[row, decided[row]]
        mistakes.append(_mistake(checkpoint, text, names[decided[row]], missed, float(confidence[row])))
    (shuffle,) = compare([(name, checkpoint, word_order)], SHUFFLES, SHUFFLED_TEXTS, callbacks=callbacks)
    return Report(
        name=name,
        checkpoint=checkpoint,
        history=[*history],
        evaluation=evaluate(checkpoint, labelled, found=found),
        reliability=in_bins,
        mistakes=mistakes,
        shuffle=shuffle,
        heads=_score_heads(checkpoint, labelled, callbacks),
        caveat=labelled.caveat,
    )


def _score_heads(checkpoint: Checkpoint, labelled: LabelledTexts, callbacks: Callbacks) -> HeadReport:
    model, lengths = checkpoint.config.model, labelled.texts.for_encoder.lengths
    of_token = sum(math.prod(weight.shape) for weight in checkpoint.parameters if weight.path.startswith("encoder_"))
    of_text = float(np.mean(lengths * (of_token + 2.0 * model.num_blocks * model.embed_dim * lengths)))
    passes = int(min(PASSES_FOR_HEADS, PRODUCTS_FOR_HEADS / max(1.0, of_text)))
    silence = passes // sum(model.heads) >= min(FEWEST_FOR_HEADS, len(lengths))
    of_row = sum(model.heads) if silence else 3  # the gradient of a text takes about as long as three forward passes
    return score_heads(checkpoint, labelled, max(1, min(MOST_FOR_HEADS, passes // of_row)), callbacks, silence)[0]


def _mistake(checkpoint: Checkpoint, text: LabelledText, answer: str, missed: bool, probability: float) -> Mistake:
    words = checkpoint.text_pipeline.read_words(text.text)
    falls = None
    if 0 < len(words) <= MOST_WORDS:
        with suppress(MhaError):  # its attention may take too much memory all the same
            falls = [-fall if missed else fall for fall in explain(checkpoint, text.text, answer).occlusion]
    start = 0
    if falls is not None and len(falls) > SHOWN_WORDS:
        start = int(np.convolve(np.abs(falls), np.ones(SHOWN_WORDS), "valid").argmax())
    shown = slice(start, start + SHOWN_WORDS)
    place = text.file if text.line is None else f"{text.file}:{text.line}"
    after = max(0, len(words) - shown.stop)
    true = text.label if isinstance(text.label, str) else ", ".join(text.label) or "without a label"
    return Mistake(place, true, answer, missed, probability, words[shown], falls and falls[shown], start, after)
