"""Multi-head attention: the formulas as pure functions, then one layer that projects, splits into heads and merges them.

Read it beside Vaswani et al. 2017, "Attention Is All You Need", section 3.2. ``fast/`` gives the same numbers in less time
or memory; nothing here needs it to be understood.

Axes: B batch, L query length, M key length, H heads (the paper's h), K key width per head (d_k), V value width per head (d_v), D width of
an input (d_model), O output width. The formulas take arrays of one head as well, without H. In a formula K is the keys, and V the values.
"""

from typing import Any

import keras
from keras import ops

from mha_cli.layers.arguments import Layer, check_choice, check_inputs, check_shares, check_sizes
from mha_cli.layers.fast.blockwise import attend_within_memory
from mha_cli.layers.fast.folded import folded_attention, folds
from mha_cli.layers.masks import broadcast_mask, combine, head_gate, look_ahead_mask, of_head, padding_mask, valid_lengths_mask
from mha_cli.layers.numerics import dot_products, masked_softmax

IMPLEMENTATIONS = ("auto", "fused", "per_head", "blockwise", "folded")
SCORINGS = ("dot_product", "additive")


def scaled_dot_product_attention(
    q_BHLK: Any, k_BHMK: Any, v_BHMV: Any, mask_BHLM: Any = None, dropout: float = 0.0, seed: Any = None, scaled: bool = True
) -> tuple[Any, Any]:
    """Attention(Q, K, V) = softmax(Q Kᵀ / √d_k) V.

    Args:
        q_BHLK: queries, per head.
        k_BHMK: keys, per head.
        v_BHMV: values, per head.
        mask_BHLM: bool, broadcastable; True where a query may look at a key.
        dropout: share of the weights zeroed before they mix the values, in [0, 1).
        seed: seed or ``SeedGenerator`` of the dropout.
        scaled: False leaves out 1/√d_k, to show its purpose.

    Returns:
        Mixed values (B, H, L, V) and attention weights (B, H, L, M); every row of the weights that may look anywhere sums to 1,
        and a row that may look nowhere is all zeros. The softmax is computed in float32 whatever the type of the arguments.

    Source: Vaswani et al. 2017, eq. 1; the mask: section 3.2.3.
    """
    if scaled:
        q_BHLK = q_BHLK * q_BHLK.shape[-1] ** -0.5  # (Q / √d_k) Kᵀ is Q Kᵀ / √d_k, and queries mostly are fewer numbers than scores
    # A score that the mask forbids counts as -∞.
    weights_BHLM = ops.cast(masked_softmax(dot_products(q_BHLK, k_BHMK), mask_BHLM), v_BHMV.dtype)
    return ops.matmul(drop(weights_BHLM, dropout, seed), v_BHMV), weights_BHLM


def additive_attention(
    q_BHLK: Any, k_BHMK: Any, v_BHMV: Any, score_kernel_HK: Any, mask_BHLM: Any = None, dropout: float = 0.0, seed: Any = None
) -> tuple[Any, Any]:
    """Attention(Q, K, V) = softmax(S) V, where S_lm = wᵀ tanh(q_l + k_m) with one vector w per head, the row of ``score_kernel_HK``.

    All else is as in ``scaled_dot_product_attention``.

    Source: Bahdanau et al. 2015, "Neural Machine Translation by Jointly Learning to Align and Translate", section A.1.2.
    """
    sums_BHLMK = ops.expand_dims(q_BHLK, -2) + ops.expand_dims(k_BHMK, -3)
    scores_BHLM = ops.sum(ops.tanh(sums_BHLMK) * score_kernel_HK[..., None, None, :], axis=-1)
    weights_BHLM = ops.cast(masked_softmax(scores_BHLM, mask_BHLM), v_BHMV.dtype)
    return ops.matmul(drop(weights_BHLM, dropout, seed), v_BHMV), weights_BHLM


def drop(weights_BHLM: Any, dropout: float, seed: Any) -> Any:
    """The weights with a share of them zeroed, and the others scaled up."""
    return keras.random.dropout(weights_BHLM, dropout, seed=seed) if dropout else weights_BHLM


def project_head(x_BLD: Any, kernel_DHK: Any, bias_HK: Any, i: int) -> Any:
    """One head: x W_i + b_i, (B, L, K)."""
    projected_BLK = ops.matmul(x_BLD, kernel_DHK[:, i])
    return projected_BLK if bias_HK is None else projected_BLK + bias_HK[i]


def project_heads(x_BLD: Any, kernel_DHK: Any, bias_HK: Any = None) -> Any:
    """All heads in one product: x W_i + b_i for every head i, (B, H, L, K)."""
    width, heads, head_width = kernel_DHK.shape
    batch, length = ops.shape(x_BLD)[:2]
    projected = ops.matmul(ops.reshape(x_BLD, (batch * length, width)), ops.reshape(kernel_DHK, (width, heads * head_width)))
    if bias_HK is not None:
        projected = projected + ops.reshape(bias_HK, (heads * head_width,))
    return ops.transpose(ops.reshape(projected, (batch, length, heads, head_width)), (0, 2, 1, 3))


def merge_heads(mixed_BHLV: Any, kernel_HVO: Any, bias_O: Any = None) -> Any:
    """Concat(head_1, …, head_H) W^O + b^O, (B, L, O)."""
    heads, head_width, output_width = kernel_HVO.shape
    batch, _, length, _ = ops.shape(mixed_BHLV)
    concatenated = ops.reshape(ops.transpose(mixed_BHLV, (0, 2, 1, 3)), (batch * length, heads * head_width))
    output = ops.matmul(concatenated, ops.reshape(kernel_HVO, (heads * head_width, output_width)))
    return ops.reshape(output if bias_O is None else output + bias_O, (batch, length, output_width))


@keras.saving.register_keras_serializable(package="mha")
class MultiHeadAttention(Layer):
    """MultiHead(Q, K, V) = Concat(head_1, …, head_H) W^O, where head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V).

    It is called like ``keras.layers.MultiHeadAttention``, with (query, value, key) and not the (q, k, v) of the formula; the other
    arguments are in Keras's order. Its weights have the same shapes in the same order.

    Args:
        num_heads: number of heads, H.
        key_dim: width of queries and keys per head, K.
        value_dim: width of values per head, V; ``key_dim`` by default.
        output_dim: width of the output, O; the width of the query by default.
        use_bias: whether the four projections add a bias.
        dropout: share of the attention weights zeroed in training, in [0, 1).
        attention_score: ``dot_product`` (Vaswani) or ``additive`` (Bahdanau, one more weight vector of width K per head).
        use_scale: whether dot products are multiplied by 1/√d_k.
        implementation: order of the computation; all give the same result: ``fused`` (all heads in one product), ``per_head`` (a loop
            over the heads, the one to read), ``blockwise`` or ``folded`` (less memory or time, see ``fast/``), or ``auto``, which chooses.

    Masks: a query looks at a key only where every mask given allows it; a query that ``query_mask`` leaves out looks nowhere.
    A query that may look nowhere gets zeros, plus the output bias.

    Source: Vaswani et al. 2017, section 3.2.2.
    """

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        value_dim: int | None = None,
        output_dim: int | None = None,
        use_bias: bool = True,
        dropout: float = 0.0,
        attention_score: str = "dot_product",
        use_scale: bool = True,
        implementation: str = "auto",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_sizes(num_heads=num_heads, key_dim=key_dim, value_dim=value_dim, output_dim=output_dim)
        check_shares(dropout=dropout)
        check_choice("attention_score", attention_score, SCORINGS)
        check_choice("implementation", implementation, IMPLEMENTATIONS)
        if implementation in ("blockwise", "folded") and attention_score == "additive":
            raise ValueError(f"implementation '{implementation}' computes dot products only; take implementation 'fused'")
        if implementation == "folded" and dropout:
            raise ValueError("implementation 'folded' computes no dropout; take implementation 'fused'")
        self.num_heads, self.key_dim, self.value_dim, self.output_dim = num_heads, key_dim, value_dim, output_dim
        self.use_bias, self.dropout, self.attention_score, self.use_scale = use_bias, dropout, attention_score, use_scale
        self.implementation = implementation
        self.seed_generator = keras.random.SeedGenerator() if dropout else None
        # With TensorFlow, XLA cannot compile the gradient of the choice that `auto` makes while a length is unknown.
        self.supports_jit = keras.backend.backend() != "tensorflow" or implementation != "auto"
        self.supports_masking = True  # the output keeps the query's mask

    def build(self, query_shape: Any, value_shape: Any = None, key_shape: Any = None) -> None:
        """Create W^Q, W^K, W^V and W^O with their biases; widths come from the last axis of each shape."""
        query_width = query_shape[-1]
        value_width = (value_shape or query_shape)[-1]
        key_width = (key_shape or value_shape or query_shape)[-1]
        heads, head_key, head_value = self.num_heads, self.key_dim, self.value_dim or self.key_dim
        output_width = self.output_dim or query_width
        self.query_kernel, self.query_bias = self._projection("query", (query_width, heads, head_key), (heads, head_key))
        self.key_kernel, self.key_bias = self._projection("key", (key_width, heads, head_key), (heads, head_key))
        self.value_kernel, self.value_bias = self._projection("value", (value_width, heads, head_value), (heads, head_value))
        self.output_kernel, self.output_bias = self._projection("output", (heads, head_value, output_width), (output_width,))
        if self.attention_score == "additive":
            self.score_kernel = self.add_weight(name="score_kernel", shape=(heads, head_key), initializer="glorot_uniform")

    def _projection(self, name: str, kernel_shape: tuple[int, ...], bias_shape: tuple[int, ...]) -> tuple[Any, Any]:
        kernel = self.add_weight(name=f"{name}_kernel", shape=kernel_shape, initializer="glorot_uniform")
        bias = self.add_weight(name=f"{name}_bias", shape=bias_shape, initializer="zeros") if self.use_bias else None
        return kernel, bias

    def call(
        self,
        query: Any,
        value: Any = None,
        key: Any = None,
        query_mask: Any = None,
        value_mask: Any = None,
        key_mask: Any = None,
        attention_mask: Any = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
        use_causal_mask: bool = False,
        mask: Any = None,
        valid_lengths: Any = None,
        head_mask: Any = None,
    ) -> Any:
        """Attend from every query position to the key positions.

        Args:
            query: (B, L, query width).
            value: (B, M, value width); the query by default, which makes it self-attention.
            key: (B, M, key width); the value by default.
            query_mask: bool (B, L), True at real positions; Keras fills it in from an Embedding's mask.
            value_mask: bool (B, M), True at real positions of the value.
            key_mask: bool (B, M), True at real positions of the key.
            attention_mask: bool (L, M), (B, L, M) or (B, H, L, M), broadcastable, True where a query may look at a key.
            return_attention_scores: also return the attention weights, after softmax and before dropout.
            training: whether dropout is active.
            use_causal_mask: whether a query looks only at its own position and those before it.
            mask: the query's padding mask where query is the only argument.
            valid_lengths: int (B,) or (B, L), number of first keys that each entry, or each query, may look at.
            head_mask: (H,) or (B, H), the factor of each head's output; 0 silences a head.

        Returns:
            (B, L, O), and with ``return_attention_scores`` also the weights (B, H, L, M).
        """
        query_mask = mask if query_mask is None else query_mask
        if value is None:
            value = query
            value_mask = query_mask if value_mask is None else value_mask
        key = value if key is None else key
        check_inputs(self, query=query, value=value, key=key)
        sizes = (query.shape[0], self.num_heads, query.shape[1], key.shape[1])
        query_length, key_length = ops.shape(query)[1], ops.shape(key)[1]
        causal_11LM = look_ahead_mask(query_length, key_length) if use_causal_mask else None
        mask_BHLM = combine(
            sizes,
            value_mask=padding_mask(value_mask),
            key_mask=padding_mask(key_mask),
            attention_mask=broadcast_mask(attention_mask),
            valid_lengths=valid_lengths_mask(valid_lengths, key_length),
            use_causal_mask=causal_11LM,
        )
        gate_BH11 = head_gate(head_mask, sizes, self.compute_dtype)
        dropout = self.dropout if training else 0.0
        inputs = query, key, value, mask_BHLM, gate_BH11
        if self.implementation == "per_head":
            output_BLO, weights_BHLM = self.per_head(*inputs, dropout)
        elif not dropout and not return_attention_scores and folds(self, mask_BHLM, gate_BH11):
            output_BLO, weights_BHLM = folded_attention(self, query, key, value, mask_BHLM), None
        else:
            output_BLO, weights_BHLM = self.fused(
                *inputs, dropout, return_attention_scores, causal=use_causal_mask and mask_BHLM is causal_11LM
            )
        if query_mask is not None:  # a query that is padding looks nowhere
            real_B1L1 = combine(sizes, query_mask=ops.swapaxes(padding_mask(query_mask), 2, 3))
            output_BLO = ops.where(real_B1L1[:, 0], output_BLO, ops.convert_to_tensor(self.output_bias) if self.use_bias else 0.0)
            weights_BHLM = ops.where(real_B1L1, weights_BHLM, 0.0) if return_attention_scores else None
        return (output_BLO, weights_BHLM) if return_attention_scores else output_BLO

    def per_head(self, query: Any, key: Any, value: Any, mask_BHLM: Any, gate_BH11: Any, dropout: float) -> tuple[Any, Any]:
        """The one to read: head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V), and Concat(head_1, …, head_H) W^O = Σ head_i W_i^O."""
        outputs, weights = [], []
        for i in range(self.num_heads):
            q_BLK = project_head(query, self.query_kernel, self.query_bias, i)
            k_BMK = project_head(key, self.key_kernel, self.key_bias, i)
            v_BMV = project_head(value, self.value_kernel, self.value_bias, i)
            head_BLV, weights_BLM = self.attend(q_BLK, k_BMK, v_BMV, of_head(mask_BHLM, i), dropout, head=i)
            if gate_BH11 is not None:
                head_BLV = head_BLV * of_head(gate_BH11, i)
            outputs.append(ops.matmul(head_BLV, self.output_kernel[i]))
            weights.append(weights_BLM)
        output_BLO = sum(outputs)
        return output_BLO + self.output_bias if self.use_bias else output_BLO, ops.stack(weights, axis=1)

    def fused(
        self, query: Any, key: Any, value: Any, mask_BHLM: Any, gate_BH11: Any, dropout: float, needs_weights: bool, causal: bool
    ) -> tuple[Any, Any]:
        """All heads at once: project, attend, merge; None for the weights where nobody needs them. ``causal``: no other mask is given."""
        q_BHLK = project_heads(query, self.query_kernel, self.query_bias)
        k_BHMK = project_heads(key, self.key_kernel, self.key_bias)
        v_BHMV = project_heads(value, self.value_kernel, self.value_bias)
        if needs_weights or self.implementation == "fused" or self.attention_score == "additive":
            mixed_BHLV, weights_BHLM = self.attend(q_BHLK, k_BHMK, v_BHMV, mask_BHLM, dropout)
        else:
            mixed_BHLV, weights_BHLM = attend_within_memory(self, q_BHLK, k_BHMK, v_BHMV, mask_BHLM, dropout, causal=causal), None
        if gate_BH11 is not None:
            mixed_BHLV = mixed_BHLV * gate_BH11
        return merge_heads(mixed_BHLV, self.output_kernel, self.output_bias), weights_BHLM

    def attend(
        self, q_BHLK: Any, k_BHMK: Any, v_BHMV: Any, mask_BHLM: Any, dropout: float, scaled: bool | None = None, head: Any = slice(None)
    ) -> tuple[Any, Any]:
        """The attention function that ``attention_score`` names, for all heads or for one."""
        if self.attention_score == "additive":
            return additive_attention(q_BHLK, k_BHMK, v_BHMV, self.score_kernel[head], mask_BHLM, dropout, self.seed_generator)
        scaled = self.use_scale if scaled is None else scaled
        return scaled_dot_product_attention(q_BHLK, k_BHMK, v_BHMV, mask_BHLM, dropout, self.seed_generator, scaled)

    def compute_output_shape(self, query_shape: Any, value_shape: Any = None, key_shape: Any = None) -> tuple[Any, ...]:
        """(B, L, O)."""
        return (*query_shape[:-1], self.output_dim or query_shape[-1])

    def compute_output_spec(self, query: Any, value: Any = None, key: Any = None, return_attention_scores: bool = False, **_: Any) -> Any:
        """Shapes of a symbolic call: (B, L, O), and the weights (B, H, L, M) on request."""
        output = keras.KerasTensor(self.compute_output_shape(query.shape), dtype=self.compute_dtype)
        if not return_attention_scores:
            return output
        keys = next(tensor for tensor in (key, value, query) if tensor is not None)
        return output, keras.KerasTensor((query.shape[0], self.num_heads, query.shape[1], keys.shape[1]), dtype=self.compute_dtype)
