"""The choice between fine-tuning a pretrained encoder and keeping it frozen, by the time that each takes on this machine."""

from time import perf_counter

import numpy as np

from mha_cli.checkpoint.runs import CONFIG, RunDirectory
from mha_cli.config.loading import load_config
from mha_cli.config.parameters import encoder_shape
from mha_cli.config.settings import Config
from mha_cli.data.preparation import PreparedData
from mha_cli.model.classifier import build_classifier
from mha_cli.model.outputs import compile_forward
from mha_cli.system.callbacks import Callbacks

MOST_SECONDS = 1_800  # time that fine-tuning may take before a frozen encoder is taken
SAMPLE_TEXTS = 128  # texts of the measurement
STEP_COST = 2.7  # time of a training step, in forward passes


def decide_trainable_blocks(config: Config, data: PreparedData, output: RunDirectory, callbacks: Callbacks) -> Config:
    """The config with ``training.trainable_blocks`` decided where it is ``auto``: all blocks, or none if that takes too long.

    A run that goes on has decided already.
    """
    if data.pretrained is None or config.training.trainable_blocks != "auto":
        return config
    chosen: int | str = load_config(output / CONFIG).training.trainable_blocks
    if chosen == "auto":
        frozen = seconds_of_forward(config, data)
        finetuned = STEP_COST * config.training.epochs * frozen * (1 + config.training.refit_encoder)
        chosen, other = ("all", 0) if finetuned <= MOST_SECONDS else (0, "all")
        times = f"about {in_words(finetuned)} fine-tuned, {in_words(frozen)} frozen"
        callbacks.note(f"{times}: training.trainable_blocks={chosen} (set {other} for the other)")
    return config.changed(training={"trainable_blocks": chosen})


def seconds_of_forward(config: Config, data: PreparedData) -> float:
    """Time for one forward pass over the texts to learn from, measured on a few of them."""
    texts = data.train.for_encoder
    rows = np.argsort(texts.lengths)[np.linspace(0, len(texts) - 1, min(SAMPLE_TEXTS, len(texts))).astype(int)]
    model = build_classifier(config, len(data.vocabulary), len(data.class_names), with_linear=False)
    forward, seconds = compile_forward(model, encoder_shape(config)), 0.0
    parts = np.array_split(rows, 4)  # of similar lengths, as batches are
    for _ in range(2):  # tracing, then the measurement
        started = perf_counter()
        for part in parts:
            forward(texts.padded(part))
        seconds = perf_counter() - started
    return seconds * len(texts) / len(rows)


def in_words(seconds: float) -> str:
    """A duration as people say it."""
    return f"{seconds:,.0f} s" if seconds < 90 else f"{seconds / 60:,.0f} minutes"
