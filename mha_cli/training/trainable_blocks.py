"""The choice between fine-tuning a pretrained encoder and freezing it, by the amount of work; and an estimate of the time of both."""

import math
from dataclasses import replace
from time import perf_counter

import numpy as np

from mha_cli.config.parameters import encoder_shape, parameter_table
from mha_cli.config.settings import Config
from mha_cli.model.classifier import build_classifier
from mha_cli.model.outputs import compile_forward
from mha_cli.preparation.prepare import PreparedData
from mha_cli.system.callbacks import Callbacks
from mha_cli.training.precision import choose_precision, computing_in

MOST_WORK = 3e13  # weights of the blocks × pieces × epochs, up to which all blocks are fine-tuned: half an hour on two cores with AVX-512
SAMPLE_TEXTS = 64  # texts whose time is measured
PASSES = 4  # forward passes over each batch; the shortest counts, since other programs may slow down the rest
STEP_COST = 3.3  # time of a training step, in forward passes of the same precision


def decide_trainable_blocks(data: PreparedData, callbacks: Callbacks) -> PreparedData:
    """The data with ``training.trainable_blocks: auto`` decided: all blocks, or 0 if that is too much work, on any machine alike."""
    config = data.config
    if data.pretrained is None or config.training.trainable_blocks != "auto":
        return data
    epochs, table = config.training.epochs * (1 + config.training.refits_encoder), parameter_table(config, len(data.vocabulary), 2)
    num_weights = sum(math.prod(parameter.shape) for parameter in table if parameter.path.startswith("encoder_"))
    chosen, other = ("all", 0) if epochs * num_weights * float(data.train.for_encoder.lengths.sum()) <= MOST_WORK else (0, "all")
    seconds = seconds_of_forward(config, data)
    times = f"about {shown_duration((1 + STEP_COST * epochs) * seconds)} fine-tuned, {shown_duration(seconds)} frozen"
    callbacks.note(f"{times}; training.trainable_blocks={chosen} by the texts and the encoder's size (set {other} for the other)")
    return replace(data, config=config.changed(training={"trainable_blocks": chosen}))


def seconds_of_forward(config: Config, data: PreparedData) -> float:
    """Time of one forward pass over the training part, measured on a few texts."""
    texts = data.train.for_encoder
    rows = np.argsort(texts.lengths)[np.linspace(0, len(texts) - 1, min(SAMPLE_TEXTS, len(texts))).astype(int)]
    model = build_classifier(config, len(data.vocabulary), len(data.class_names), with_linear=False)
    forward, seconds, pieces = compile_forward(model, encoder_shape(config)), 0.0, 0
    with computing_in(model, choose_precision(config)):
        forward(texts.padded(rows[:1]))  # compiles it
    for batch in np.array_split(rows, 4):  # of similar lengths, like the batches of a training
        tokens, times = texts.padded(batch), list[float]()
        for _ in range(PASSES):
            started = perf_counter()
            forward(tokens)
            times.append(perf_counter() - started)
        seconds, pieces = seconds + min(times), pieces + tokens.size
    return seconds * float(texts.lengths.sum()) / pieces  # with little padding, as in training


def shown_duration(seconds: float) -> str:
    """A duration in seconds or minutes."""
    return f"{seconds:,.0f} s" if seconds < 90 else f"{seconds / 60:,.0f} minutes"
