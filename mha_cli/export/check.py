"""Texts on which an export is held against its checkpoint."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import islice

import numpy as np
import numpy.typing as npt

from mha_cli.checkpoint.file import Checkpoint
from mha_cli.config.settings import SampleData
from mha_cli.data.batches import padded
from mha_cli.data.sample import SampleTexts
from mha_cli.text.encoding import TextPipeline
from mha_cli.text.vocabulary import SPECIAL_TOKENS

SAMPLE_TEXTS = 16
LENGTHS = (1, 2, 3, 5, 8, 21, 64, 200, 600)
"""Tokens of the texts that are drawn from the model's own vocabulary."""

BATCH = 7
SPARE_POSITIONS = 3
"""Padding after the longest text of a batch."""

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


def check_texts(checkpoint: Checkpoint) -> list[npt.NDArray[np.int32]]:
    """The tokens of a few dozen texts: short and long ones, known and unknown words, up to the model's length."""
    rng = random.Random(0)
    words = checkpoint.vocabulary.tokens[len(SPECIAL_TOKENS) :] or ("unknown",)
    texts = [each.text for each in islice(SampleTexts(SampleData()).read("test"), SAMPLE_TEXTS)]
    texts += ODD_TEXTS
    for length in LENGTHS:
        texts += [" ".join(rng.choices(words, k=length)), " ".join(rng.choices((*words[:50], "zzyzxq"), k=length))]
    encoder = TextPipeline(checkpoint.config.text, checkpoint.vocabulary)
    encoded = [encoder.encode(text).tokens for text in texts]
    checkpoint.memory_estimate.at_once().refuse_too_long(max(map(len, encoded)))
    return encoded


def batches_of(encoded: list[npt.NDArray[np.int32]], checkpoint: Checkpoint) -> Iterator[tuple[list[int], npt.NDArray[np.int32]]]:
    """Row numbers and tokens, (B, L, …): every text alone, then batches of different lengths with padding after the longest."""
    most = checkpoint.config.text.sequence_length
    for row in range(len(encoded)):
        yield [row], padded([encoded[row]])
    order = sorted(range(len(encoded)), key=lambda row: len(encoded[row]))
    batch = checkpoint.memory_estimate.at_once().most_texts(min(max(map(len, encoded)) + SPARE_POSITIONS, most), BATCH)
    for start in range(0, len(order), batch):
        rows = order[start : start + batch]
        longest = len(encoded[rows[-1]])
        yield rows, padded([encoded[row] for row in rows], min(longest + SPARE_POSITIONS, most))
