"""Comparison of an export with its checkpoint: probabilities on texts made for it, and accuracy on labelled texts."""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from mha_cli.arrays import Int32s
from mha_cli.checkpoint.file import Checkpoint
from mha_cli.config.parameters import encoder_length, input_names
from mha_cli.config.settings import SampleData
from mha_cli.corpus.batches import padded, scoring_batches
from mha_cli.preparation.scored_texts import LabelledTexts
from mha_cli.runtime.classifier import Classifier, forward_of
from mha_cli.runtime.metrics import answers_among, equal
from mha_cli.sources.sample import SampleTexts
from mha_cli.system.callbacks import SILENT, Callbacks
from mha_cli.text.encoding import EncodedText
from mha_cli.text.vocabulary import SPECIAL_TOKENS

Inputs = dict[str, Int32s]  # padded token ids by the names of the model's inputs

SAMPLE_TEXTS = 16
LENGTHS = (1, 2, 3, 5, 8, 21, 64, 200, 600)  # lengths of the texts that are drawn from the model's vocabulary, in tokens

BATCH_TOKENS = 500
SPARE_POSITIONS = 3  # padding after the longest text of a batch

ODD_TEXTS = (
    "",
    "a",
    ".",
    "!!! ??? ...",
    "Zzyzxq wrblgh ffrngk.",
    "superb zzyzxq dreadful zzyzxq superb",
    "not not not not not not not not",
    "Pneumonoultramicroscopicsilicovolcanoconiosis" * 3,
    "Ça déjà vu, naïve — 映画 は 素晴らしい 😀",
    "It's the film's own <br /><br /> ending, isn't it?",
    "\0",
    "a\0b \ufffd \uffff \U0010ffff \ud800",
)


def check_texts(checkpoint: Checkpoint) -> list[EncodedText]:
    """A few dozen encoded texts: short and long ones, of known and unknown words."""
    rng = random.Random(0)
    words = checkpoint.vocabulary.tokens[len(SPECIAL_TOKENS) :] or ("unknown",)
    texts = [labelled.text for labelled in islice(SampleTexts(SampleData()).read("test"), SAMPLE_TEXTS)]
    texts += ODD_TEXTS
    for length in LENGTHS:
        texts += [" ".join(rng.choices(words, k=length)), " ".join(rng.choices((*words[:50], "zzyzxq"), k=length))]
    pipeline = checkpoint.text_pipeline
    encoded = [pipeline.encode(text) for text in texts]
    checkpoint.memory_estimate.at_once().refuse_too_long(max(text.input_length for text in encoded))
    return encoded


def batches_of(encoded: list[EncodedText], checkpoint: Checkpoint) -> Iterator[tuple[list[int], Inputs]]:
    """Row numbers and inputs: each text alone, then batches of different lengths with padding after the longest."""
    config = checkpoint.config
    limits = {"pieces": encoder_length(config), "token_ids": config.text.sequence_length}

    def inputs_of(rows: Sequence[int], num_spare: int = 0) -> Inputs:
        inputs = {}
        for name in input_names(config):
            tokens = [encoded[row].for_encoder if name == "pieces" else encoded[row].tokens for row in rows]
            inputs[name] = padded(tokens, max(1, min(max(map(len, tokens)) + num_spare, limits[name])))
        return inputs

    for row in range(len(encoded)):
        yield [row], inputs_of([row])
    lengths = np.array([text.input_length for text in encoded])
    for rows in scoring_batches(lengths, checkpoint.memory_estimate.at_once(), BATCH_TOKENS):
        yield rows.tolist(), inputs_of(rows.tolist(), SPARE_POSITIONS)


def differences(run: Callable[[Inputs], Any], checkpoint: Checkpoint, texts: list[EncodedText]) -> tuple[float, int]:
    """How far an export is from its checkpoint, for single texts and in padded batches.

    Returns:
        The largest difference of a class probability, infinite if the export gives an array of another shape; and the number of texts
        to which it gives another class.
    """
    all_expected = Classifier(checkpoint.always_encoding).probabilities(texts)
    largest, changed = [0.0], set()
    for rows, inputs in batches_of(texts, checkpoint):
        expected, probabilities = all_expected[rows], np.asarray(run(inputs))
        if probabilities.shape != expected.shape:
            return float("inf"), len(texts)
        largest.append(float(np.abs(probabilities - expected).max()))
        changed.update(np.array(rows)[probabilities.argmax(axis=1) != expected.argmax(axis=1)].tolist())
    return float(np.max(largest)), len(changed)


@dataclass(frozen=True)
class Accuracy:
    """Accuracy of a checkpoint and its export, in [0, 1]."""

    data: str
    num_texts: int
    checkpoint: float
    export: float
    num_changed: int  # texts to which the export gives another class


def accuracies(run: Callable[[Inputs], Any], checkpoint: Checkpoint, labelled: LabelledTexts, callbacks: Callbacks = SILENT) -> Accuracy:
    """Score an export, given as a function from inputs to probabilities (B, C), and its checkpoint, on at least one text."""
    texts, num_scored = labelled.texts, 0
    is_multi_label, thresholds = checkpoint.config.is_multi_label, checkpoint.label_thresholds
    forwards, predicted = (forward_of(checkpoint), run), np.stack([np.zeros_like(texts.labels)] * 2)
    for rows in scoring_batches(texts.input_lengths, checkpoint.memory_estimate):
        inputs = {name: (texts.for_encoder if name == "pieces" else texts).padded(rows) for name in input_names(checkpoint.config)}
        predicted[:, rows] = [answers_among(np.asarray(forward(inputs)), is_multi_label, thresholds) for forward in forwards]
        num_scored += len(rows)
        callbacks.on_texts(num_scored, len(texts))
    of_checkpoint, of_export = (float(equal(labels, texts.labels).mean()) for labels in predicted)
    num_changed = int((~equal(*predicted)).sum())
    return Accuracy(f"{labelled.data}, split {labelled.split}", len(texts), of_checkpoint, of_export, num_changed)
