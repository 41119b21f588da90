"""An estimate of the memory of a training, before it starts."""

import numpy as np

from mha_cli.checkpoint.archive import MAX_FILE_BYTES
from mha_cli.config.parameters import num_outputs, num_parameters
from mha_cli.config.settings import Config
from mha_cli.corpus.batches import training_batches
from mha_cli.errors import MhaError
from mha_cli.linear.features import most_in_memory, num_features
from mha_cli.linear.stacking import MOST_TEXTS
from mha_cli.preparation.prepare import PreparedData
from mha_cli.system.memory import available_memory
from mha_cli.system.working_memory import MemoryEstimate

BYTES = 4  # of a float32
FRAMEWORK_BYTES = 700_000_000  # TensorFlow and the rest of the program
COPIES = {"adamw": 3, "adam": 3, "rmsprop": 2}  # arrays of a weight's size: the weight and the moments of its optimizer
NGRAM_BYTES = 85  # one n-gram of one text in the features of the linear model, and in the solver's copy
ANSWER_BYTES = 12  # one class of one text while the linear model is fitted
STACK_BYTES = 44  # one class of one text while the linear model and the encoder are stacked


def refuse_what_does_not_fit(config: Config, data: PreparedData, num_workers: int = 1) -> None:
    """Refuse a training that needs more than the free memory, or whose checkpoint would be too large to read."""
    saved = BYTES * num_parameters(config.of_checkpoint(), len(data.vocabulary), len(data.class_names))
    if saved > MAX_FILE_BYTES:
        raise MhaError(
            f"the checkpoint would have {saved / 1e9:,.1f} GB; {MAX_FILE_BYTES / 1e9:,.0f} at most can be read again",
            "lower model.embed_dim, text.vocabulary_size, model.ngram_buckets or linear.buckets",
        )
    free, by_settings = available_memory(), memory_estimate(config, data, num_workers)
    total = sum(by_settings.values())
    if free is not None and total > free:
        largest = max(by_settings, key=by_settings.__getitem__)
        raise MhaError(f"training would take about {total / 1e9:,.1f} GB of memory; {free / 1e9:,.1f} GB are free", f"lower {largest}")


def memory_estimate(config: Config, data: PreparedData, num_workers: int = 1) -> dict[str, int]:
    """Bytes that a training takes, by the settings that decide them; ``num_workers`` processes share a batch."""
    linear, training = config.linear, config.training
    labelled_and_unlabelled = [data.train]
    if data.unlabelled is not None and config.reads_unlabelled:
        labelled_and_unlabelled.append(data.unlabelled)
    num_weights = num_parameters(config, len(data.vocabulary), len(data.class_names))
    units = num_outputs(len(data.class_names), config.is_multi_label)
    num_linear = linear.buckets * units if linear else 0
    num_ngrams = 0
    for texts in labelled_and_unlabelled:
        if linear and len(texts):
            num_ngrams += int(num_features(texts, linear) * min(1.0, most_in_memory(texts, linear) / len(texts)))

    read_by_encoder = labelled_and_unlabelled if training.teacher else [data.train]
    lengths = np.concatenate([texts.for_encoder.lengths for texts in read_by_encoder])
    batches = training_batches(lengths, np.random.default_rng(0), training.batch_size)
    forward = MemoryEstimate(config.model, units, gradient=True)
    step = max(forward.num_bytes(-(-len(rows) // num_workers), int(lengths[rows].max(initial=1))) for rows in batches)

    num_scored = sum(map(len, labelled_and_unlabelled)) if linear or training.teacher else 0
    num_stacked = min(MOST_TEXTS, max(len(data.validation), num_scored))
    weight_bytes = BYTES * COPIES[training.optimizer] * (num_weights - num_linear)
    return {
        "model.embed_dim, text.vocabulary_size or model.ngram_buckets": weight_bytes + FRAMEWORK_BYTES,
        "linear.buckets or linear.max_ngram": 4 * BYTES * num_linear + NGRAM_BYTES * num_ngrams,
        "training.batch_size or text.sequence_length": step,
        "the number of classes, or of texts": units * (ANSWER_BYTES * num_scored + STACK_BYTES * num_stacked),
    }
