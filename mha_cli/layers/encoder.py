"""One block of the transformer encoder.

Axes: B batch, L length, P places, D model width, F feed-forward width.
"""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from mha_cli.layers.arguments import check_choice, check_shares, check_sizes
from mha_cli.layers.attention import MultiHeadAttention
from mha_cli.layers.normalization import LayerNormalization

NORMALIZATIONS = ("post", "pre")


@keras.saving.register_keras_serializable(package="mha")
class TransformerEncoder(keras.layers.Layer):
    """Self-attention, then a feed-forward layer at every position, each with a residual sum and layer normalization.

    With ``normalization="post"`` (the paper and the book): y = Norm(x + Attention(x)), z = Norm(y + FeedForward(y)).
    With ``"pre"``: y = x + Attention(Norm(x)), z = y + FeedForward(Norm(y)).

    Args:
        embed_dim: width of input and output, D.
        feed_forward_dim: hidden width of the feed-forward layer, F.
        num_heads: number of attention heads.
        key_dim: width of queries and keys per head; ``embed_dim / num_heads`` by default.
        value_dim: width of values per head; ``key_dim`` by default.
        activation: ``relu`` or ``gelu`` (the exact one, not its tanh approximation).
        normalization: ``post`` or ``pre``.
        use_bias: whether the attention projections add a bias.
        attention_dropout: share of the attention weights zeroed in training.
        dropout: share of each sub-layer's output zeroed in training, before the residual sum.
        scoring: ``dot_product`` or ``additive``, see ``MultiHeadAttention``.
        use_scale: whether dot products are multiplied by 1/√K.
        attention_form: how attention is computed, see ``form`` of ``MultiHeadAttention``.

    Masking: padded positions are never looked at; the mask is handed on.

    Source: Vaswani et al. 2017, "Attention Is All You Need", sections 3.1 and 3.3 eq. 2; pre-norm: Xiong et al. 2020,
    "On Layer Normalization in the Transformer Architecture", fig. 1.
    """

    def __init__(
        self,
        embed_dim: int,
        feed_forward_dim: int,
        num_heads: int,
        key_dim: int | None = None,
        value_dim: int | None = None,
        activation: str = "relu",
        normalization: str = "post",
        use_bias: bool = True,
        attention_dropout: float = 0.0,
        dropout: float = 0.0,
        scoring: str = "dot_product",
        use_scale: bool = True,
        attention_form: str = "auto",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_sizes(embed_dim=embed_dim, feed_forward_dim=feed_forward_dim, num_heads=num_heads, key_dim=key_dim, value_dim=value_dim)
        check_shares(attention_dropout=attention_dropout, dropout=dropout)
        check_choice("normalization", normalization, NORMALIZATIONS)
        if key_dim is None and embed_dim % num_heads:
            raise ValueError(f"num_heads {num_heads} does not divide embed_dim {embed_dim}; change one, or give key_dim")
        self.embed_dim = embed_dim
        self.feed_forward_dim = feed_forward_dim
        self.num_heads = num_heads
        self.key_dim = key_dim
        self.value_dim = value_dim
        self.activation = activation
        self.normalization = normalization
        self.use_bias = use_bias
        self.attention_dropout = attention_dropout
        self.dropout = dropout
        self.scoring = scoring
        self.use_scale = use_scale
        self.attention_form = attention_form
        policy = self.dtype_policy
        self.attention = MultiHeadAttention(
            num_heads=num_heads,
            key_dim=key_dim or embed_dim // num_heads,
            value_dim=value_dim,
            output_dim=embed_dim,
            use_bias=use_bias,
            dropout=attention_dropout,
            scoring=scoring,
            use_scale=use_scale,
            form=attention_form,
            dtype=policy,
            name="attention",
        )
        self.attention_norm = LayerNormalization(dtype=policy, name="attention_norm")
        self.feed_forward_in = keras.layers.Dense(feed_forward_dim, activation=activation, dtype=policy, name="feed_forward_in")
        self.feed_forward_out = keras.layers.Dense(embed_dim, dtype=policy, name="feed_forward_out")
        self.feed_forward_norm = LayerNormalization(dtype=policy, name="feed_forward_norm")
        self.residual_dropout = keras.layers.Dropout(dropout, dtype=policy)
        self.supports_masking = True

    def build(self, input_shape: Any) -> None:
        """Create the weights of every sub-layer."""
        if input_shape[-1] != self.embed_dim:
            raise ValueError(f"the input is {input_shape[-1]} wide; embed_dim is {self.embed_dim}")
        self.attention.build(input_shape)
        self.attention_norm.build(input_shape)
        self.feed_forward_in.build(input_shape)
        self.feed_forward_out.build((*input_shape[:-1], self.feed_forward_dim))
        self.feed_forward_norm.build(input_shape)

    def call(self, inputs: Any, mask: Any = None, head_mask: Any = None, places: Any = None, training: bool | None = None) -> Any:
        """Encode (B, L, D) to (B, L, D), or some of its places to (B, P, D).

        Args:
            inputs: (B, L, D).
            mask: bool (B, L), True at real positions.
            head_mask: (H,) or (B, H), a number a head that multiplies what the head gives.
            places: int (B, P), the positions to encode, which look at all positions; all of them by default.
            training: whether dropout is active.
        """

        def added(x_BPD: Any) -> Any:
            """What a sub-layer adds: it may multiply in another type than the one in which the sums are kept."""
            return self.residual_dropout(ops.cast(x_BPD, self.compute_dtype), training=training)

        def attend(x_BPD: Any, all_BLD: Any) -> Any:
            return added(self.attention(x_BPD, all_BLD, value_mask=mask, head_mask=head_mask, training=training))

        def feed_forward(x_BPD: Any) -> Any:
            return added(self.feed_forward_out(self.feed_forward_in(x_BPD)))

        def at_places(x_BLD: Any) -> Any:
            return x_BLD if places is None else take_places(x_BLD, places)

        x_BPD = at_places(inputs)
        if self.normalization == "pre":
            normed_BLD = self.attention_norm(inputs)
            attended_BPD = x_BPD + attend(at_places(normed_BLD), normed_BLD)
            return attended_BPD + feed_forward(self.feed_forward_norm(attended_BPD))
        attended_BPD = self.attention_norm(x_BPD + attend(x_BPD, inputs))
        return self.feed_forward_norm(attended_BPD + feed_forward(attended_BPD))

    def compute_output_shape(self, input_shape: Any) -> Any:
        """(B, L, D)."""
        return input_shape

    def get_config(self) -> dict[str, Any]:
        """Every constructor argument."""
        names = (
            "embed_dim",
            "feed_forward_dim",
            "num_heads",
            "key_dim",
            "value_dim",
            "activation",
            "normalization",
            "use_bias",
            "attention_dropout",
            "dropout",
            "scoring",
            "use_scale",
            "attention_form",
        )
        return {**super().get_config(), **{name: getattr(self, name) for name in names}}


def take_places(x_BLD: Any, places_BP: Any) -> Any:
    """Some places of every entry, (B, P, D)."""
    batch, length = ops.shape(x_BLD)[:2]
    rows_BP = places_BP + length * ops.arange(batch, dtype=places_BP.dtype)[:, None]
    return ops.take(ops.reshape(x_BLD, (batch * length, x_BLD.shape[2])), rows_BP, axis=0)
