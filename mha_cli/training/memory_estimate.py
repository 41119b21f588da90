"""How much memory a training will take, estimated before it starts."""

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

BYTES = 4
FRAMEWORK_BYTES = 700_000_000  # TensorFlow and the rest of the program, whatever the recipe
COPIES = {"adamw": 3, "adam": 3, "rmsprop": 2}  # arrays of a weight's size: the weight and the moments of its optimizer
NGRAM_BYTES = 85  # one n-gram of one text in the features of the linear model, and in the solver's copy
ANSWER_BYTES = 12  # one class of one text while the linear model is fitted
STACK_BYTES = 44  # the same while the linear model and the encoder are stacked


def refuse_what_does_not_fit(config: Config, data: PreparedData, num_workers: int = 1) -> None:
    """Compare the estimate with the free memory."""
    saved = BYTES * num_parameters(config.of_checkpoint(), len(data.vocabulary), len(data.class_names))
    if saved > MAX_FILE_BYTES:
        raise MhaError(
            f"the checkpoint would have {saved / 1e9:,.1f} GB; {MAX_FILE_BYTES / 1e9:,.0f} at most can be read again",
            "lower model.embed_dim, text.vocabulary_size, model.ngram_buckets or linear.buckets",
        )
    free = available_memory()
    parts = memory_estimate(config, data, num_workers)
    total = sum(parts.values())
    if free is None or total <= free:
        return
    largest = max(parts, key=lambda part: parts[part])
    raise MhaError(f"training would take about {total / 1e9:,.1f} GB of memory; {free / 1e9:,.1f} GB are free", f"lower {largest}")


def memory_estimate(config: Config, data: PreparedData, num_workers: int = 1) -> dict[str, int]:
    """Bytes that training will take, by the settings that decide; ``num_workers`` processes share a batch."""
    linear, training = config.linear, config.training
    weights = num_parameters(config, len(data.vocabulary), len(data.class_names))
    units = num_outputs(len(data.class_names), config.is_multi_label)
    table = linear.buckets * units if linear else 0
    unlabelled = [data.unlabelled] if data.unlabelled is not None and config.reads_unlabelled else []
    lengths = np.concatenate([part.for_encoder.lengths for part in (data.train, *(unlabelled if training.teacher else []))])
    forward = MemoryEstimate(config.model, units, gradient=True)
    batches = training_batches(lengths, np.random.default_rng(0), training.batch_size)
    step = max(forward.num_bytes(-(-len(rows) // num_workers), int(lengths[rows].max(initial=1))) for rows in batches)
    in_memory = [(part, min(1.0, most_in_memory(part, linear) / len(part))) for part in (data.train, *unlabelled) if linear and len(part)]
    features = sum(int(num_features(part, linear) * share) for part, share in in_memory) if linear else 0
    answers = sum(map(len, [data.train, *unlabelled])) if linear or training.teacher else 0
    stacked = min(MOST_TEXTS, max(len(data.validation), answers))
    return {
        "model.embed_dim, text.vocabulary_size or model.ngram_buckets": BYTES * COPIES[training.optimizer] * (weights - table)
        + FRAMEWORK_BYTES,
        "linear.buckets or linear.max_ngram": 4 * BYTES * table + NGRAM_BYTES * features,
        "training.batch_size or text.sequence_length": step,
        "the number of classes, or of texts": units * (ANSWER_BYTES * answers + STACK_BYTES * stacked),
    }
