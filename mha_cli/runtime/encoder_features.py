"""Features of texts by a pretrained encoder, which no label has changed: what texts and the words of a class are compared by.

Axes: N texts, D model width.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np

from mha_cli.arrays import Floats
from mha_cli.checkpoint.file import Checkpoint
from mha_cli.config.settings import Config, ModelConfig, TextConfig
from mha_cli.pretrained.folder import read_pretrained, with_pretrained
from mha_cli.runtime.probabilities import Scorer
from mha_cli.text.vocabulary import NO_WORDS


class EncoderFeatures:
    """The pooled output of the encoder in a folder, with norm 1, so that a product of two texts' features is their cosine.

    The prompt comes before every text; None is the folder's.
    """

    def __init__(self, folder: Path, prompt: str | None = None) -> None:
        encoder = read_pretrained(folder)
        config = with_pretrained(Config(model=ModelConfig(pretrained=str(folder)), text=TextConfig(prompt=prompt)), encoder)
        untrained = Checkpoint(config, (), NO_WORDS, {}, encoder.weights, "", tokenizer=encoder.tokenizer)
        self._text_pipeline, self._scorer = untrained.text_pipeline, Scorer(untrained)

    def __call__(self, texts: Iterable[str], on_texts: Callable[[int], None] = lambda _: None) -> Floats:
        """The features of texts, (N, D); ``on_texts`` is called with the number of texts done so far."""
        features_ND = self._scorer.features(self._text_pipeline.encode_all(list(texts)), on_texts)
        norms_N1 = np.maximum(np.linalg.norm(features_ND, axis=1, keepdims=True), np.finfo(np.float32).tiny)
        normalized: Floats = features_ND / norms_N1
        return normalized
