"""The words of classes as further texts to learn from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from mha_cli.arrays import Floats
from mha_cli.config.settings import Config
from mha_cli.corpus.encoded_texts import EncodedTexts, encode_labelled
from mha_cli.errors import MhaError, listed, printable
from mha_cli.sources.labelled_text import LabelledText
from mha_cli.text.encoding import TextPipeline

WORTH = 8.0  # labelled texts that the words of a class count as, all lines together: with fifty labels or more, they matter little


def class_texts(config: Config, pipeline: TextPipeline, class_names: tuple[str, ...]) -> EncodedTexts:
    """A text for each line of ``config.class_lines``, labelled with its class."""
    lines = config.class_lines
    if unknown := [printable(name) for name, _ in lines if name not in class_names]:
        raise MhaError(f"classes: {unknown[0]} is no class of the texts", f"their classes are {listed([*map(printable, class_names)])}")
    texts = (LabelledText(line, (name,) if config.is_multi_label else name) for name, line in lines)
    return replace(encode_labelled(texts, pipeline, class_names, "classes"), weights=line_weights([name for name, _ in lines]))


def line_weights(names: Sequence[str]) -> Floats:
    """How many texts each line counts as, from the names of the lines' classes."""
    num_lines = Counter(names)
    return np.array([WORTH / num_lines[name] for name in names], np.float32)
