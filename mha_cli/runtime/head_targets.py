"""Where the attention heads of a model look, on average over many texts.

Axes: H heads, L tokens of a text, T targets, A tokens that look.
"""

import numpy as np

from mha_cli.arrays import Float64s
from mha_cli.checkpoint.file import Checkpoint
from mha_cli.data.corpus import EncodedTexts
from mha_cli.runtime.forward import attention_weights
from mha_cli.runtime.inspection import WEIGHT_BYTES
from mha_cli.runtime.probabilities import named
from mha_cli.system.working_memory import refuse_bytes

TARGETS = ("first", "previous", "itself", "next", "last")
"""Tokens that a token can look at. The first and the last one of a pretrained encoder are special pieces, such as [CLS] and [SEP]."""


def head_targets(checkpoint: Checkpoint, texts: EncodedTexts) -> list[Float64s]:
    """Mean share of a head's attention weight on each of ``TARGETS``, in [0, 1]: an array (H, T) for every block.

    The mean is over all tokens for which the targets are five different tokens: those at least two away from both ends. Shares are zero
    if no text has five tokens.

    Source: Clark et al. 2019, "What Does BERT Look At?", sections 3.1 and 3.2.
    """
    model, longest = checkpoint.config.model, int(texts.lengths.max(initial=0))
    what = f"{checkpoint.memory_estimate.name}: the attention of a text of {longest:,} tokens"
    refuse_bytes(WEIGHT_BYTES * sum(model.heads) * longest**2, what, "take shorter texts")
    sums, count = [np.zeros((heads, len(TARGETS))) for heads in model.heads], 0
    for row in range(len(texts)):
        tokens = texts.padded(np.array([row]))
        length = tokens.shape[1]
        looking_A = np.arange(2, length - 2)
        targets_TA = np.stack([0 * looking_A, looking_A - 1, looking_A, looking_A + 1, 0 * looking_A + length - 1])
        with named(checkpoint):
            weights = attention_weights(tokens, checkpoint.weights, model)
        for sums_HT, weights_BHLL in zip(sums, weights, strict=True):
            sums_HT += weights_BHLL[0][:, looking_A, targets_TA].sum(axis=-1)
        count += len(looking_A)
    return [sums_HT / max(1, count) for sums_HT in sums]
