"""Embeddings of n-grams, learnt from texts without their labels: n-grams of the same texts become similar.

Training is contrastive. The embedding of a text is the normalized sum over a random half of its n-grams. Each n-gram of the other half
must identify its text among those of the batch, by cosine similarity.

Source: Thongtan and Phienthrakul 2019, "Sentiment Classification Using Document Embeddings Trained with Cosine Similarity", eq. 1 and 2
(texts that predict their n-grams, by the cosine); Chen 2017, "Efficient Vector Representation for Documents through Corruption", eq. 1 (a
text as the sum of what is left of it); van den Oord et al. 2018, "Representation Learning with Contrastive Predictive Coding", eq. 4 (the
other texts of the batch instead of sampled n-grams); Duchi, Hazan and Singer 2011, "Adaptive Subgradient Methods", figure 1 (Adagrad,
here with one rate per row).

Axes: E distinct n-grams of each text, all texts one after another; of a batch T texts, P n-grams, A n-grams that must identify their text
and U distinct n-grams; V n-grams that have an embedding, D width of an embedding.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from mha_cli.linear.features import NgramEmbeddings, Ngrams
from mha_cli.system.callbacks import SILENT, Callbacks, counted_down

WIDTH = 64
LEAST_TEXTS = 3  # texts that an n-gram must occur in to have an embedding
SHARPNESS = 12.0  # logit of a cosine of 1

EPOCHS = 3
BATCH_TEXTS = 64
LEARNING_RATE = 0.1  # at the first step; it falls linearly to zero


def learn_ngram_embeddings(texts: Sequence[Ngrams], seed: int, callbacks: Callbacks = SILENT) -> NgramEmbeddings | None:
    """The embeddings of n-grams that occur in several texts; None if no n-gram does. ``texts`` come in one or more parts."""
    buckets_E = np.concatenate([part.buckets for part in texts])
    lengths = np.concatenate([np.diff(part.offsets) for part in texts])
    buckets_V = np.flatnonzero(np.bincount(buckets_E) >= LEAST_TEXTS)
    if not len(buckets_V):
        return None
    row_of_bucket = np.full(buckets_E.max() + 1, -1, np.int32)
    row_of_bucket[buckets_V] = np.arange(len(buckets_V))
    rows_E = row_of_bucket[buckets_E]
    text_E = np.repeat(np.arange(len(lengths)), lengths)[rows_E >= 0]
    rows_E, offsets = rows_E[rows_E >= 0], np.concatenate([[0], np.cumsum(np.bincount(text_E, minlength=len(lengths)))])

    rng = np.random.default_rng(seed)
    embeddings_VD = tf.Variable(rng.uniform(-0.05, 0.05, (len(buckets_V), WIDTH)).astype(np.float32))
    steps = EPOCHS * -(-len(lengths) // BATCH_TEXTS)
    step = _compile_step(embeddings_VD, steps)
    for epoch in range(EPOCHS):
        order = rng.permutation(len(lengths))
        what = f"learning embeddings of n-grams, epoch {epoch + 1} of {EPOCHS}, step"
        for start in counted_down(range(0, len(order), BATCH_TEXTS), what, callbacks):
            batch = order[start : start + BATCH_TEXTS]
            rows_P = np.concatenate([rows_E[offsets[text] : offsets[text + 1]] for text in batch])
            text_P = np.repeat(np.arange(len(batch), dtype=np.int32), offsets[batch + 1] - offsets[batch])
            step(rows_P, text_P, rng.random(len(rows_P)) < 0.5, len(batch))
    return NgramEmbeddings(buckets_V, np.array(tf.math.l2_normalize(embeddings_VD, axis=1)))


def batch_loss(embeddings_UD: Any, row_P: Any, text_P: Any, asked_P: Any, num_texts: Any) -> Any:
    """The mean cross-entropy, in nats, of the n-grams that must identify their text.

    Args:
        embeddings_UD: embeddings of the n-grams of a batch, of any length.
        row_P: row of each n-gram of each text in ``embeddings_UD``.
        text_P: number of its text, below T.
        asked_P: True if the n-gram must identify its text; the others make up the embedding of the text.
        num_texts: texts of the batch, T.
    """
    unit_UD = tf.math.l2_normalize(embeddings_UD, axis=1)
    told_PD = tf.gather(unit_UD, row_P[~asked_P])
    texts_TD = tf.math.l2_normalize(tf.math.unsorted_segment_sum(told_PD, text_P[~asked_P], num_texts), axis=1)
    logits_AT = SHARPNESS * tf.matmul(tf.gather(unit_UD, row_P[asked_P]), texts_TD, transpose_b=True)
    losses_A = tf.nn.sparse_softmax_cross_entropy_with_logits(text_P[asked_P], logits_AT)
    return tf.math.divide_no_nan(tf.reduce_sum(losses_A), tf.cast(tf.size(losses_A), tf.float32))


def _compile_step(embeddings_VD: tf.Variable, steps: int) -> Callable[..., Any]:
    squares_V, done = tf.Variable(tf.zeros(embeddings_VD.shape[0])), tf.Variable(0.0)
    of_ngrams = [tf.TensorSpec([None], kind) for kind in (tf.int32, tf.int32, tf.bool)]

    @tf.function(autograph=False, input_signature=[*of_ngrams, tf.TensorSpec([], tf.int32)])
    def step(rows_P: Any, text_P: Any, asked_P: Any, num_texts: Any) -> None:
        rows_U, row_P = tf.unique(rows_P)
        embeddings_UD = embeddings_VD.sparse_read(rows_U)
        with tf.GradientTape() as tape:
            tape.watch(embeddings_UD)
            loss = batch_loss(embeddings_UD, row_P, text_P, asked_P, num_texts)
        gradient_UD = tf.convert_to_tensor(tape.gradient(loss, embeddings_UD))
        squares_U = squares_V.sparse_read(rows_U) + tf.reduce_mean(tf.square(gradient_UD), axis=1)
        squares_V.scatter_update(tf.IndexedSlices(squares_U, rows_U))
        rate = LEARNING_RATE * (1.0 - done / steps)
        embeddings_VD.scatter_sub(tf.IndexedSlices(tf.math.divide_no_nan(rate * gradient_UD, tf.sqrt(squares_U)[:, None]), rows_U))
        done.assign_add(1.0)

    return step
