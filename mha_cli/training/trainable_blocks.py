"""The choice between fine-tuning a pretrained encoder and keeping it frozen, by the work that fine-tuning is; and the time of both."""

import math
from time import perf_counter

import numpy as np

from mha_cli.config.parameters import encoder_shape, parameter_table
from mha_cli.config.settings import Config
from mha_cli.model.classifier import build_classifier
from mha_cli.model.outputs import compile_forward
from mha_cli.preparation.prepare import PreparedData
from mha_cli.system.callbacks import Callbacks
from mha_cli.training.precision import choose_precision, computing_in

MOST_WORK = 3e13  # weights of the blocks × pieces × epochs up to which all blocks learn: about half an hour on two cores with AVX-512
SAMPLE_TEXTS = 64  # texts of the measurement
PASSES = 4  # over each part of them; the least time counts, since other programs may disturb the others
STEP_COST = 3.3  # time of a training step, in forward passes of the same precision


def decide_trainable_blocks(config: Config, data: PreparedData, callbacks: Callbacks) -> Config:
    """The config with ``training.trainable_blocks`` decided where it is ``auto``: all, or 0 for too much work, however fast the machine."""
    if data.pretrained is None or config.training.trainable_blocks != "auto":
        return config
    passes, table = config.training.epochs * (1 + config.training.refit_encoder), parameter_table(config, len(data.vocabulary), 2)
    weights = sum(math.prod(parameter.shape) for parameter in table if parameter.path.startswith("encoder_"))
    chosen, other = ("all", 0) if passes * weights * float(data.train.for_encoder.lengths.sum()) <= MOST_WORK else (0, "all")
    frozen = seconds_of_forward(config, data)
    times = f"about {in_words((1 + STEP_COST * passes) * frozen)} fine-tuned, {in_words(frozen)} frozen"
    callbacks.note(f"{times}; training.trainable_blocks={chosen} by the texts and the encoder's size (set {other} for the other)")
    return config.changed(training={"trainable_blocks": chosen})


def seconds_of_forward(config: Config, data: PreparedData) -> float:
    """Time for one forward pass over the texts to learn from, measured on a few of them."""
    texts = data.train.for_encoder
    rows = np.argsort(texts.lengths)[np.linspace(0, len(texts) - 1, min(SAMPLE_TEXTS, len(texts))).astype(int)]
    model = build_classifier(config, len(data.vocabulary), len(data.class_names), with_linear=False)
    forward, seconds, pieces = compile_forward(model, encoder_shape(config)), 0.0, 0
    with computing_in(model, choose_precision(config)):
        forward(texts.padded(rows[:1]))  # compiles it
    for part in np.array_split(rows, 4):  # of similar lengths, as batches are
        tokens, times = texts.padded(part), list[float]()
        for _ in range(PASSES):
            started = perf_counter()
            forward(tokens)
            times.append(perf_counter() - started)
        seconds, pieces = seconds + min(times), pieces + tokens.size
    return seconds * float(texts.lengths.sum()) / pieces  # with little padding, as in training


def in_words(seconds: float) -> str:
    """A duration as people say it."""
    return f"{seconds:,.0f} s" if seconds < 90 else f"{seconds / 60:,.0f} minutes"
