"""Multi-head attention: the formula as a pure function, then one layer that projects, splits into heads and merges them.

Read it beside Vaswani et al. 2017, "Attention Is All You Need", section 3.2. ``since_2017.py`` has the parts that came later;
``fast/`` has the same numbers in less time or memory.

Axes: B batch, L query length, M key length, H heads (the paper's h), K key width per head (d_k), V value width per head (d_v), D width of
an input (d_model), O output width. The formula takes arrays of one head as well, without H. In it K is the keys, and V the values.
"""

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from mha_cli.layers.additive import additive_attention
from mha_cli.layers.arguments import check_choice, check_inputs, check_shares, check_sizes
from mha_cli.layers.masks import allowed_keys, blank_padding, head_gate, of_head
from mha_cli.layers.numerics import dot_products, drop, masked_softmax
from mha_cli.layers.since_2017 import PartsSince2017, shared_heads


def scaled_dot_product_attention(
    q_BHLK: Any, k_BHMK: Any, v_BHMV: Any, mask_BHLM: Any = None, dropout: float = 0.0, seed: Any = None, scaled: bool = True,
    bias_HLM: Any = None,
) -> tuple[Any, Any]:  # fmt: skip
    """Attention(Q, K, V) = softmax(Q Kᵀ / √d_k) V.

    Args:
        q_BHLK, k_BHMK, v_BHMV: queries, keys and values, per head.
        mask_BHLM: bool, broadcastable; True where a query may look at a key. Elsewhere the score counts as -∞.
        dropout: share of the weights zeroed before they mix the values, in [0, 1), drawn by ``seed``, a seed or a ``SeedGenerator``.
        scaled: False leaves out 1/√d_k, to show its purpose.
        bias_HLM: numbers added to the scores; None for none.

    Returns:
        Mixed values (B, H, L, V) and attention weights (B, H, L, M); every row of the weights that may look anywhere sums to 1,
        and a row that may look nowhere is all zeros. The softmax is computed in float32 whatever the type of the arguments.

    Source: Vaswani et al. 2017, eq. 1; the mask: section 3.2.3.
    """
    if scaled:
        q_BHLK = q_BHLK * q_BHLK.shape[-1] ** -0.5  # (Q / √d_k) Kᵀ is Q Kᵀ / √d_k, and queries mostly are fewer numbers than scores
    weights_BHLM = ops.cast(masked_softmax(dot_products(q_BHLK, k_BHMK), mask_BHLM, bias_HLM), v_BHMV.dtype)
    return ops.matmul(drop(weights_BHLM, dropout, seed), v_BHMV), weights_BHLM


def project_head(x_BLD: Any, kernel_DHK: Any, bias_HK: Any, i: int) -> Any:
    """The projection x W_i + b_i of one head, (B, L, K)."""
    projected_BLK = ops.matmul(x_BLD, kernel_DHK[:, i])
    return projected_BLK if bias_HK is None else projected_BLK + bias_HK[i]


def project_heads(x_BLD: Any, kernel_DHK: Any, bias_HK: Any) -> Any:
    """The projections x W_i + b_i of all heads, (B, H, L, K)."""
    projected_BHLK = ops.einsum("bld,dhk->bhlk", x_BLD, kernel_DHK)
    return projected_BHLK if bias_HK is None else projected_BHLK + bias_HK[:, None]


@keras.saving.register_keras_serializable(package="mha")
class MultiHeadAttention(PartsSince2017):
    """MultiHead(Q, K, V) = Concat(head_1, …, head_H) W^O, where head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V).

    Called like Keras's layer, with the same arguments and weights in the same order: (query, value, key), not (q, k, v) as in the formula.

    Args:
        num_heads: number of heads, H.
        key_dim: width of queries and keys per head, K.
        value_dim: width of values per head, V; ``key_dim`` by default.
        output_dim: width of the output, O; the width of the query by default.
        use_bias: whether the four projections add a bias.
        dropout: share of the attention weights zeroed in training, in [0, 1).
        attention_score: ``dot_product`` (Vaswani) or ``additive`` (Bahdanau, one more weight vector of width K per head).
        use_scale: whether dot products are multiplied by 1/√d_k.
        head_by_head: whether a loop computes one head after the other, as one reads it, instead of all in one product.
        kwargs: arguments of ``PartsSince2017`` and of a Keras layer.

    Source: Vaswani et al. 2017, section 3.2.2.
    """

    def __init__(
        self, num_heads: int, key_dim: int, value_dim: int | None = None, output_dim: int | None = None, use_bias: bool = True,
        dropout: float = 0.0, attention_score: str = "dot_product", use_scale: bool = True, head_by_head: bool = False, **kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__(num_heads, key_dim, **kwargs)
        check_sizes(value_dim=value_dim, output_dim=output_dim)
        check_shares(dropout=dropout)
        check_choice("attention_score", attention_score, ("dot_product", "additive"))
        self.value_dim, self.output_dim, self.use_bias = value_dim, output_dim, use_bias
        self.dropout, self.attention_score, self.use_scale, self.head_by_head = dropout, attention_score, use_scale, head_by_head
        self.seed_generator: Any = keras.random.SeedGenerator() if dropout else None
        self.supports_masking = True  # the output keeps the query's mask

    def build(self, query_shape: Any, value_shape: Any = None, key_shape: Any = None) -> None:
        """Create W^Q, W^K, W^V and W^O with their biases; widths come from the last axis of each shape."""
        value_shape = value_shape or query_shape
        heads, head_key, head_value = self.num_heads, self.key_dim, self.value_dim or self.key_dim
        shared, key_width = self.num_key_value_heads or heads, (key_shape or value_shape)[-1]
        output_width = self.output_dim or query_shape[-1]
        self.query_kernel, self.query_bias = self.add_projection("query", (query_shape[-1], heads, head_key), (heads, head_key))
        self.key_kernel, self.key_bias = self.add_projection("key", (key_width, shared, head_key), (shared, head_key))
        self.value_kernel, self.value_bias = self.add_projection("value", (value_shape[-1], shared, head_value), (shared, head_value))
        self.output_kernel, self.output_bias = self.add_projection("output", (heads, head_value, output_width), (output_width,))
        if self.attention_score == "additive":
            self.score_kernel = self.add_weight(name="score_kernel", shape=(heads, head_key), initializer="glorot_uniform")
        self.build_norms(head_key)

    def call(
        self, query: Any, value: Any = None, key: Any = None, query_mask: Any = None, value_mask: Any = None, key_mask: Any = None,
        attention_mask: Any = None, return_attention_scores: bool = False, training: bool | None = None, use_causal_mask: bool = False,
        mask: Any = None, valid_lengths: Any = None, head_mask: Any = None,
    ) -> Any:  # fmt: skip
        """The output (B, L, O) and, on request, the attention weights (B, H, L, M); the value is the query by default, the key the value.

        A query looks where every mask allows it; one that may look nowhere gets the output bias. Keras's layer lacks ``valid_lengths``,
        int (B,) or (B, L), the number of first keys that may be looked at, and ``head_mask``, (H,) or (B, H), each head's factor.
        """
        query_mask = mask if query_mask is None else query_mask
        if value is None:
            value, value_mask = query, query_mask if value_mask is None else value_mask
        key = value if key is None else key
        check_inputs(self, query=query, value=value, key=key)
        sizes = (query.shape[0], self.num_heads, query.shape[1], key.shape[1])
        mask_BHLM, causal = allowed_keys(sizes, query, key, value_mask, key_mask, attention_mask, valid_lengths, use_causal_mask)
        gate_BH11, dropout = head_gate(head_mask, sizes, self.compute_dtype), self.dropout if training else 0.0
        output_BLO, weights_BHLM = self.attend(query, key, value, mask_BHLM, gate_BH11, dropout, return_attention_scores, causal)
        output_BLO, weights_BHLM = blank_padding(query_mask, sizes, output_BLO, weights_BHLM, self.output_bias)
        return (output_BLO, weights_BHLM) if return_attention_scores else output_BLO

    def attend(self, query: Any, key: Any, value: Any, mask: Any, gate: Any, dropout: float, *hints: bool) -> tuple[Any, Any]:
        """Output and weights; the hints say whether weights are needed, and whether the mask is causal alone: ``fast/`` asks."""
        return (self.per_head if self.head_by_head else self.all_heads)(query, key, value, mask, gate, dropout)

    def per_head(self, query: Any, key: Any, value: Any, mask_BHLM: Any, gate_BH11: Any, dropout: float) -> tuple[Any, Any]:
        """The one to read: head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V), and Concat(head_1, …, head_H) W^O = Σ head_i W_i^O."""
        outputs, weights, group = [], [], self.num_heads // self.key_kernel.shape[1]
        for i in range(self.num_heads):
            q_BLK = project_head(query, self.query_kernel, self.query_bias, i)
            k_BMK = project_head(key, self.key_kernel, self.key_bias, i // group)
            v_BMV = project_head(value, self.value_kernel, self.value_bias, i // group)
            q_BLK, k_BMK = self.to_compare(q_BLK, k_BMK)
            head_BLV, weights_BLM = self.formula(q_BLK, k_BMK, v_BMV, of_head(mask_BHLM, i), of_head(gate_BH11, i), dropout, head=i)
            outputs.append(ops.matmul(head_BLV, self.output_kernel[i]))
            weights.append(weights_BLM)
        output_BLO = sum(outputs)
        return output_BLO + self.output_bias if self.use_bias else output_BLO, ops.stack(weights, axis=1)

    def all_heads(self, query: Any, key: Any, value: Any, mask_BHLM: Any, gate_BH11: Any, dropout: float) -> tuple[Any, Any]:
        """The same for all heads at once."""
        heads_BHLV, weights_BHLM = self.formula(*self.project(query, key, value, project_heads), mask_BHLM, gate_BH11, dropout)
        output_BLO = ops.einsum("bhlv,hvo->blo", heads_BHLV, self.output_kernel)
        return output_BLO + self.output_bias if self.use_bias else output_BLO, weights_BHLM

    def project(self, query: Any, key: Any, value: Any, project_heads: Callable[..., Any]) -> tuple[Any, Any, Any]:
        """Queries (B, H, L, K), keys (B, H, M, K) and values (B, H, M, V) of all heads."""
        q_BHLK = project_heads(query, self.query_kernel, self.query_bias)
        k_BGMK = project_heads(key, self.key_kernel, self.key_bias)
        v_BGMV = project_heads(value, self.value_kernel, self.value_bias)
        q_BHLK, k_BGMK = self.to_compare(q_BHLK, k_BGMK)
        return q_BHLK, shared_heads(k_BGMK, self.num_heads), shared_heads(v_BGMV, self.num_heads)

    def formula(self, q: Any, k: Any, v: Any, mask: Any, gate: Any, dropout: float, head: Any = slice(None)) -> tuple[Any, Any]:
        """The formula that ``attention_score`` names, for all heads or for one, times the factor of each head."""
        mask, bias = self.of_distances(q, k, mask, head)
        if self.attention_score == "additive":
            mixed, weights = additive_attention(q, k, v, self.score_kernel[head], mask, dropout, self.seed_generator, bias)
        else:
            mixed, weights = scaled_dot_product_attention(q, k, v, mask, dropout, self.seed_generator, self.use_scale, bias)
        return mixed if gate is None else mixed * gate, weights
