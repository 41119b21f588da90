"""One block of the transformer encoder.

Axes: B batch, L length, D model width, F feed-forward width.
"""

from collections.abc import Mapping
from typing import Any

import keras
from keras import ops

from mha_cli.layers.arguments import Layer, check_choice, check_shares, check_sizes
from mha_cli.layers.fast.attention import IMPLEMENTATIONS
from mha_cli.layers.since_2017 import NORMS

NORMALIZATIONS = ("post", "pre")


@keras.saving.register_keras_serializable(package="mha")
class TransformerEncoder(Layer):
    """Self-attention, then a feed-forward layer at every position, each with a residual sum and a normalization.

    With ``normalization="post"`` (the paper and the book): y = Norm(x + Attention(x)), z = Norm(y + FeedForward(y)).
    With ``"pre"``: y = x + Attention(Norm(x)), z = y + FeedForward(Norm(y)).

    Args:
        embed_dim: width of input and output, D.
        feed_forward_dim: hidden width of the feed-forward layer, F.
        num_heads: number of attention heads.
        key_dim: width of queries and keys per head; ``embed_dim / num_heads`` by default.
        value_dim: width of values per head; ``key_dim`` by default.
        activation: ``relu``, ``gelu`` (the exact one, not its tanh approximation) or ``silu``.
        normalization: ``post`` or ``pre``.
        norm: name in ``NORMS``, ``layer`` or ``rms``.
        gated: whether a second projection of its input gates the feed-forward layer.
        causal: whether a position looks at itself and earlier ones only.
        normalizes_attention: whether the attention's normalization is there; ModernBERT leaves out the first, of normalized embeddings.
        use_bias: whether the attention projections add a bias.
        dropout: share of each sub-layer's output zeroed in training, before the residual sum.
        attention_implementation: name in ``IMPLEMENTATIONS``; all of them give the same numbers.
        norm_epsilon: number that a normalization adds to variances.
        attention_options: arguments of ``PartsSince2017`` for the attention layer.

    Masking: no position looks at padding; the mask is passed on.

    Source: Vaswani et al. 2017, "Attention Is All You Need", sections 3.1, 3.3 eq. 2 and 5.4; pre-norm: Xiong et al. 2020, "On
    Layer Normalization in the Transformer Architecture", fig. 1; gates: Shazeer 2020, "GLU Variants Improve Transformer", eq. 6.
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
        dropout: float = 0.0,
        attention_implementation: str = "auto",
        norm_epsilon: float = 1e-3,
        norm: str = "layer",
        gated: bool = False,
        causal: bool = False,
        normalizes_attention: bool = True,
        attention_options: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_sizes(embed_dim=embed_dim, feed_forward_dim=feed_forward_dim, num_heads=num_heads, key_dim=key_dim, value_dim=value_dim)
        check_shares(dropout=dropout)
        check_choice("normalization", normalization, NORMALIZATIONS)
        check_choice("norm", norm, [*NORMS])
        check_choice("attention_implementation", attention_implementation, [*IMPLEMENTATIONS])
        if key_dim is None and embed_dim % num_heads:
            raise ValueError(f"num_heads {num_heads} does not divide embed_dim {embed_dim}; change one, or give key_dim")
        self.embed_dim, self.feed_forward_dim, self.activation = embed_dim, feed_forward_dim, activation
        self.num_heads, self.key_dim, self.value_dim, self.use_bias = num_heads, key_dim, value_dim, use_bias
        self.normalization, self.dropout = normalization, dropout
        self.attention_implementation, self.norm_epsilon, self.norm = attention_implementation, norm_epsilon, norm
        self.gated, self.causal, self.normalizes_attention, self.attention_options = gated, causal, normalizes_attention, attention_options
        policy = self.dtype_policy
        self.attention = IMPLEMENTATIONS[attention_implementation](
            num_heads=num_heads,
            key_dim=key_dim or embed_dim // num_heads,
            value_dim=value_dim,
            output_dim=embed_dim,
            use_bias=use_bias,
            norm_epsilon=norm_epsilon,
            **(attention_options or {}),
            dtype=policy,
            name="attention",
        )
        self.attention_norm = (
            NORMS[norm](epsilon=norm_epsilon, dtype=policy, name="attention_norm") if normalizes_attention else keras.layers.Identity()
        )
        self.feed_forward_in = keras.layers.Dense(feed_forward_dim, activation=activation, dtype=policy, name="feed_forward_in")
        if gated:
            self.feed_forward_gate = keras.layers.Dense(feed_forward_dim, dtype=policy, name="feed_forward_gate")
        self.feed_forward_out = keras.layers.Dense(embed_dim, dtype=policy, name="feed_forward_out")
        self.feed_forward_norm = NORMS[norm](epsilon=norm_epsilon, dtype=policy, name="feed_forward_norm")
        self.residual_dropout = keras.layers.Dropout(dropout, dtype=policy)
        self.supports_masking = True

    def build(self, input_shape: Any) -> None:
        """Create the weights of every sub-layer."""
        if input_shape[-1] != self.embed_dim:
            raise ValueError(f"the input is {input_shape[-1]} wide; embed_dim is {self.embed_dim}")
        self.attention.build(input_shape)
        self.attention_norm.build(input_shape)
        self.feed_forward_in.build(input_shape)
        if self.gated:
            self.feed_forward_gate.build(input_shape)
        self.feed_forward_out.build((*input_shape[:-1], self.feed_forward_dim))
        self.feed_forward_norm.build(input_shape)

    def call(self, inputs: Any, mask: Any = None, head_mask: Any = None, training: bool | None = None) -> Any:
        """Encode (B, L, D) to (B, L, D).

        ``mask``, bool (B, L), is True at real positions; ``head_mask``, (H,) or (B, H), is the factor of each head's output.
        """
        if self.normalization == "post":
            y_BLD = self.attention_norm(inputs + self.attend(inputs, mask, head_mask, training))
            return self.feed_forward_norm(y_BLD + self.feed_forward(y_BLD, training))
        y_BLD = inputs + self.attend(self.attention_norm(inputs), mask, head_mask, training)
        return y_BLD + self.feed_forward(self.feed_forward_norm(y_BLD), training)

    def attend(self, query: Any, mask: Any = None, head_mask: Any = None, training: bool | None = None, value: Any = None) -> Any:
        """The attention term of the residual sum; ``mask`` belongs to the value, which is the query by default."""
        value = query if value is None else value
        masks = {"value_mask": mask, "head_mask": head_mask, "use_causal_mask": self.causal}
        return self._added(self.attention(query, value, **masks, training=training), training)

    def feed_forward(self, x_BLD: Any, training: bool | None = None) -> Any:
        """The feed-forward term of the residual sum: f(x W_1 + b_1) W_2 + b_2, or gated (f(x W_1 + b_1) ∘ (x V + c)) W_2 + b_2."""
        hidden_BLF = self.feed_forward_in(x_BLD)
        return self._added(self.feed_forward_out(hidden_BLF * self.feed_forward_gate(x_BLD) if self.gated else hidden_BLF), training)

    def _added(self, x_BLD: Any, training: bool | None) -> Any:
        # A sub-layer may compute in another type than that of the sums.
        return self.residual_dropout(ops.cast(x_BLD, self.compute_dtype), training=training)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """(B, L, D)."""
        return input_shape
