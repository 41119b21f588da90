"""How much memory a training will take, estimated before it starts."""

from __future__ import annotations

import numpy as np

from mha_cli.checkpoint.archive import MAX_FILE_BYTES
from mha_cli.config.parameters import num_outputs, num_parameters
from mha_cli.config.settings import SUBWORD_LENGTHS, Config
from mha_cli.data.batches import training_batches
from mha_cli.data.corpus import EncodedReviews
from mha_cli.data.preparation import PreparedData
from mha_cli.errors import MhaError
from mha_cli.layers.fast.dispatch import form_of_auto
from mha_cli.ngram_scores.fit import MOST_REVIEWS
from mha_cli.ngram_scores.strength import FOLDS
from mha_cli.system.memory import available_memory
from mha_cli.system.processor import available_cores

BYTES = 4
FRAMEWORK_BYTES = 700_000_000
"""What TensorFlow and the rest of the program take, whatever the recipe."""

COPIES = {"adamw": 3, "adam": 3, "rmsprop": 2}
"""Arrays of a weight's size: itself and the moments of its optimizer."""

ARRAYS_OF_WIDTH = 16
"""Arrays (B, L, D) that a block keeps for the backward pass, or that are alive in it."""

ARRAYS_OF_ATTENTION = 4
"""Arrays (B, H, L, L), of additive scores (B, H, L, L, K), alive at once where attention is not computed block by block."""

ARRAYS_OF_HEADS = 16
"""Likewise of queries, keys, values and what they mix, (B, L, H, K)."""

NGRAM_BYTES = 55
"""For one n-gram of one review while scores are fitted: the sparse matrix and its scaled copy."""

SOLVER_BYTES = 25
"""Likewise in the copy of every solver, one a class, that runs at the same time."""

VECTOR_BYTES = 60
"""For one n-gram of one text, with a label or without, where vectors of n-grams are learnt."""

STACKED_BYTES = 44
"""For one class of one text while ``fit_stack`` finds how much encoder and scores each count."""

JUDGED_BYTES = 24
"""Likewise while ``choose_strength`` judges a linear model."""

SUBWORDS_OF_REVIEW = 0.4
"""Of a review's subwords those that come for the first time, roughly: only these are kept."""

SAMPLED_TOKENS = 100_000


def refuse_what_does_not_fit(config: Config, data: PreparedData, num_workers: int = 1) -> None:
    """Compare the estimate with what is free; arguments as of ``memory_estimate``.

    Raises:
        MhaError: it does not fit, and the message names the estimate, what is free and which setting takes most; or no checkpoint may be
            so large.
    """
    saved = BYTES * num_parameters(config.of_checkpoint(), len(data.vocabulary), len(data.class_names))
    if saved > MAX_FILE_BYTES:
        raise MhaError(
            f"the checkpoint would have {saved / 1e9:,.1f} GB; {MAX_FILE_BYTES / 1e9:,.0f} at most can be read again",
            "lower model.embed_dim, text.vocabulary_size, model.ngram_buckets or model.score_buckets",
        )
    free = available_memory()
    parts = memory_estimate(config, data, num_workers)
    total = sum(parts.values())
    if free is None or total <= free:
        return
    largest = max(parts, key=lambda part: parts[part])
    raise MhaError(f"training would take about {total / 1e9:,.1f} GB of memory; {free / 1e9:,.1f} GB are free", f"lower {largest}")


def memory_estimate(config: Config, data: PreparedData, num_workers: int = 1) -> dict[str, int]:
    """Bytes that training will take, by the settings that decide.

    Args:
        config: settings of the run.
        data: reviews to learn from.
        num_workers: processes that share a batch.
    """
    model, training = config.model, config.training
    weights = num_parameters(config, len(data.vocabulary), len(data.class_names))
    units = num_outputs(len(data.class_names))
    table = model.score_buckets * units
    lengths = data.train.lengths
    if training.distil_scores and data.unlabelled is not None:
        lengths = np.concatenate([lengths, data.unlabelled.lengths])
    batches = training_batches(lengths, np.random.default_rng(0), training.batch_size, training.batch_tokens)
    largest = max(_step_bytes(config, -(-len(rows) // num_workers), int(lengths[rows].max(initial=1))) for rows in batches)
    fitted_tokens = float(data.train.lengths.mean()) * min(len(data.train), MOST_REVIEWS)
    features_of_token = model.score_ngrams + (SUBWORDS_OF_REVIEW * _subwords_of_token(data.train) if model.score_subwords else 0)
    fitting = (NGRAM_BYTES + SOLVER_BYTES * min(units, available_cores())) * features_of_token
    salience = 2 * BYTES * units * model.score_ngrams if model.score_windows else 0
    read = [part for part in (data.train, data.unlabelled) if part is not None and training.score_vectors]
    vectors = VECTOR_BYTES * model.score_ngrams * sum(float(part.lengths.mean()) * min(len(part), MOST_REVIEWS) for part in read)
    steps = "training.batch_tokens or text.sequence_length" if training.batch_tokens else "training.batch_size or text.sequence_length"
    return {
        "model.embed_dim, text.vocabulary_size or model.ngram_buckets": BYTES * COPIES[training.optimizer] * (weights - table)
        + FRAMEWORK_BYTES,
        "model.score_buckets, model.score_ngrams or model.max_ngram": 4 * BYTES * table
        + round((fitting + salience) * fitted_tokens + vectors),
        steps: largest,
        "the number of classes, or of texts": _answer_bytes(config, data),
    }


def _answer_bytes(config: Config, data: PreparedData) -> int:
    """Bytes of the arrays of texts by classes: what is said of those that scores are fitted on or teach with, or of the validation part."""
    training, units = config.training, num_outputs(len(data.class_names))
    num_fitted, taught = min(len(data.train), MOST_REVIEWS), 0
    answers = STACKED_BYTES * len(data.validation)
    if training.distil_scores:
        answers = max(answers, STACKED_BYTES * len(data.train))
        taught = BYTES * (len(data.train) + (0 if data.unlabelled is None else len(data.unlabelled)))
    elif config.model.score_windows:
        answers = max(answers, STACKED_BYTES * num_fitted)
    elif config.model.score_ngrams:
        answers = max(answers, JUDGED_BYTES * num_fitted // FOLDS)
    return units * (answers + taught)


def _subwords_of_token(reviews: EncodedReviews) -> float:
    """Mean number of subwords of a token."""
    lengths = np.count_nonzero(reviews.tokens[:SAMPLED_TOKENS][:, 1:], axis=1)
    return float(sum(np.maximum(0, lengths + 1 - n).sum() for n in SUBWORD_LENGTHS) / max(1, len(lengths)))


def _step_bytes(config: Config, reviews: int, length: int) -> int:
    """Bytes of a step on so many reviews of that length."""
    model = config.model
    width = ARRAYS_OF_WIDTH * model.embed_dim + 3 * model.feed_forward_dim
    attention = 0
    for heads in model.heads:
        form = form_of_auto(reviews * heads * length**2) if model.attention_form == "auto" else model.attention_form
        scores = 1 if form == "blockwise" else length
        if model.scoring == "additive":  # by blocks in no form
            scores = length * model.head_key_dim
        attention += heads * (ARRAYS_OF_ATTENTION * scores + ARRAYS_OF_HEADS * model.head_key_dim)
    return BYTES * reviews * length * (model.num_blocks * width + attention)
