"""Families of pretrained encoders: how each names its sizes and its weights, and what they are in our layers.

The older ones are post-norm encoders with learned positions (Devlin et al. 2019, "BERT"; Liu et al. 2019, "RoBERTa"; Sanh et al. 2019,
"DistilBERT"; Conneau et al. 2020, "XLM-R"). Two are pre-norm encoders with rotary positions and gated feed-forward layers (Warner et
al. 2024, "Smarter, Better, Faster, Longer", ModernBERT; Zhang et al. 2025, "Qwen3 Embedding"). What else differs is folded into the
weights when they are read:

- A text is one segment, so BERT's embedding of segment 0 is added to that of every position.
- RoBERTa counts positions from its padding id + 1, so the rows before are left out.
- Our padding has id 0, so the padding of a family and its id 0 change places, here and in ``PieceTokenizer``.
- Padding is masked by its id, so the last row is a copy of it for a padding piece in a text: one that a text spells out, such as
  ``[PAD]``, or the one that ends each text of Qwen3.
- A bias that a family lacks is zero. A tensor of several projections is divided.

Axes: V pieces, S positions, D model width, F feed-forward width, H heads, G heads of keys and values, K width per head.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import AliasChoices, BaseModel, BeforeValidator, Field, ValidationError

from mha_cli.arrays import Floats
from mha_cli.config.settings import DECIDED_BY_FOLDER, ModelConfig
from mha_cli.errors import MhaError, printable, shown_path

Read = Callable[[str, tuple[int, ...]], Floats]

Pooling = Literal["mean", "max", "first", "last"]
ANOTHER = "fetch the file anew, or take another encoder"


def unusable(path: Path, problem: str, hint: str = "fetch the folder anew") -> MhaError:
    """The error about a file of the folder."""
    return MhaError(f"{shown_path(path)}: {problem}", hint)


Activation = Annotated[Literal["gelu", "relu", "silu"], BeforeValidator(lambda name: "gelu" if name == "gelu_python" else name)]


class Architecture(BaseModel):
    """The sizes of a pretrained encoder, as ``config.json`` has them; families have names of their own."""

    vocabulary_size: int = Field(validation_alias="vocab_size", ge=2, le=1_999_999)
    embed_dim: int = Field(validation_alias=AliasChoices("hidden_size", "dim"), ge=1, le=4_096)
    num_blocks: int = Field(validation_alias=AliasChoices("num_hidden_layers", "n_layers"), ge=1, le=100)
    num_heads: int = Field(validation_alias=AliasChoices("num_attention_heads", "n_heads"), ge=1, le=256)
    num_key_value_heads: int | None = Field(None, ge=1, le=256)
    key_dim: int | None = Field(None, validation_alias="head_dim", ge=1, le=4_096)
    feed_forward_dim: int = Field(validation_alias=AliasChoices("intermediate_size", "hidden_dim"), ge=1, le=65_536)
    num_positions: int = Field(validation_alias="max_position_embeddings", ge=8, le=100_000)
    activation: Activation = Field("gelu", validation_alias=AliasChoices("hidden_activation", "hidden_act", "activation"))
    norm_epsilon: float = Field(1e-12, validation_alias=AliasChoices("norm_eps", "rms_norm_eps", "layer_norm_eps"), gt=0, le=1e-2)
    attention_bias: bool = True
    mlp_bias: bool = True
    norm_bias: bool = True
    padding_id: int | None = Field(0, validation_alias="pad_token_id", ge=0)  # None where only the tokenizer knows it
    num_segments: int = Field(0, validation_alias="type_vocab_size", ge=0, le=100)
    position_embedding_type: Literal["absolute"] = "absolute"
    rope_type: Literal["default"] = "default"
    rotary_base: float = Field(10_000.0, validation_alias=AliasChoices("global_rope_theta", "rope_theta"), gt=1, le=1e9)
    local_rotary_base: float | None = Field(None, validation_alias="local_rope_theta", gt=1, le=1e9)
    local_attention: int = Field(2, ge=2, le=200_000)  # pieces within sight, half of them to either side
    global_every: int = Field(1, validation_alias="global_attn_every_n_layers", ge=1, le=100)
    layer_types: list[Literal["full_attention", "sliding_attention"]] | None = None
    use_sliding_window: Literal[False] = False
    causal: bool = Field(True, validation_alias="is_causal")
    is_decoder: Literal[False] = False
    _first_position: int = 0

    @property
    def max_pieces(self) -> int:
        """Longest text, in pieces."""
        return self.num_positions - self._first_position

    @property
    def num_rows(self) -> int:
        """Rows of our table: one per piece, and one for a padding piece in a text."""
        return self.vocabulary_size + 1

    @property
    def heads(self) -> tuple[int, int, int]:
        """Heads of queries, heads of keys and values, and their width."""
        return self.num_heads, self.num_key_value_heads or self.num_heads, self.key_dim or self.embed_dim // self.num_heads


_AS_IN_BERT: dict[str, Any] = {
    "attention_bias": True, "mlp_bias": True, "norm_bias": True, "num_key_value_heads": None, "head_dim": None,
    "global_attn_every_n_layers": 1, "layer_types": None, "is_causal": False,
}  # fmt: skip


@dataclass(frozen=True)
class Family:
    """The names that a family gives to its tensors, and what its encoders have in common."""

    words: str  # tensor of the pieces' embeddings; what stands before its name stands before all names
    block: str  # beginning of the names of a block's tensors, before its number
    parts: Mapping[str, str]  # a block's tensors by the names of our layers; parts of one tensor are equal shares of its rows
    defaults: Mapping[str, Any]  # settings that ``config.json`` need not have
    fixed: Mapping[str, Any] = field(default_factory=lambda: _AS_IN_BERT)  # settings that are not read from it
    embedding_norm: str | None = "embeddings.LayerNorm"
    final_norm: str | None = None
    counts_from_padding: bool = False  # whether the first position has the padding id + 1
    settings: Mapping[str, Any] = field(default_factory=dict)  # of ``ModelConfig``, where they are not its defaults
    pooling: Pooling = "mean"  # where a folder does not say

    @property
    def is_rotary(self) -> bool:
        """Whether positions turn queries and keys; if not, they have embeddings."""
        return "positions" in self.settings

    def architecture(self, described: Mapping[str, Any], path: Path) -> Architecture:
        """The sizes that ``config.json``, at this path, gives."""
        try:
            sizes = Architecture.model_validate({**self.defaults, **_with_flat_bases(described), **self.fixed})
        except ValidationError as error:
            fault = error.errors()[0]
            value = printable(repr(fault["input"])) if isinstance(fault["input"], str | int | float) else "missing or no such value"
            message = fault["msg"].lower().replace("input should", "it should")
            raise unusable(path, f"{fault['loc'][0]} is {value}; {message}", ANOTHER) from None
        if sizes.key_dim is None and sizes.embed_dim % sizes.num_heads:
            raise unusable(path, f"{sizes.num_heads} heads do not divide {sizes.embed_dim} units")
        heads, key_value_heads, key_dim = sizes.heads
        if heads % key_value_heads:
            raise unusable(path, f"{key_value_heads} heads of keys and values do not divide {heads} heads of queries")
        if self.is_rotary and key_dim % 2:
            raise unusable(path, f"rotary positions turn pairs of numbers, and heads are {key_dim} wide")
        if (padding_id := sizes.padding_id) is not None and padding_id >= sizes.vocabulary_size:
            raise unusable(path, f"pad_token_id is {padding_id}, and there are {sizes.vocabulary_size} pieces")
        if self.counts_from_padding:
            sizes._first_position = (sizes.num_positions if padding_id is None else padding_id) + 1
        if sizes.max_pieces < 3:
            raise unusable(path, f"pad_token_id is {padding_id}, which leaves no positions to a text")
        if types := sizes.layer_types:
            full = [number for number, kind in enumerate(types) if kind == "full_attention"]
            sizes.global_every = full[1] if len(full) > 1 else sizes.num_blocks
            if len(types) != sizes.num_blocks or full != [*range(0, sizes.num_blocks, sizes.global_every)]:
                raise unusable(path, "layer_types: mha needs full_attention in the first block and then in every n-th", ANOTHER)
        if sizes.global_every > 1 and "local_attention" not in self.defaults:
            raise unusable(path, "layer_types: mha needs full_attention in all blocks of this family", ANOTHER)
        return sizes

    def model_settings(self, sizes: Architecture) -> dict[str, Any]:
        """The settings of ``ModelConfig`` that a folder decides, except its pooling."""
        decided = {name: getattr(sizes, name, ModelConfig.model_fields[name].default) for name in DECIDED_BY_FOLDER}
        if sizes.global_every > 1 and sizes.num_blocks > 1:
            decided["max_distance"] = sizes.local_attention // 2
        else:
            decided |= {"global_every": None, "local_rotary_base": None}
        return {**decided, **self.settings, "num_pieces": sizes.num_rows}

    def num_weights(self, sizes: Architecture) -> int:
        """Number of weights that the files hold, without biases and normalizations."""
        heads, key_value_heads, key_dim = sizes.heads
        in_feed_forward = sum(part.startswith("feed_forward") for part in self.parts) - 1
        of_block = 2 * (heads + key_value_heads) * key_dim + in_feed_forward * sizes.feed_forward_dim
        tables = sizes.vocabulary_size + (0 if self.is_rotary else sizes.num_positions) + sizes.num_segments
        return sizes.embed_dim * (tables + sizes.num_blocks * of_block)

    def weights(self, sizes: Architecture, read: Read) -> dict[str, Floats]:
        """All weights of the encoder in the shapes of our layers, by Keras variable path; ``read`` has the numbers of a tensor."""
        heads, key_value_heads, key_dim = sizes.heads
        width, hidden, queries, keys = (sizes.embed_dim,), (sizes.feed_forward_dim,), (heads, key_dim), (key_value_heads, key_dim)
        kernels = {"query": (width, queries), "key": (width, keys), "value": (width, keys), "output": (queries, width)}
        kernels |= {"feed_forward_in": (width, hidden), "feed_forward_gate": (width, hidden), "feed_forward_out": (hidden, width)}
        words_VD, padding_id = read(self.words, (sizes.vocabulary_size, *width)), sizes.padding_id or 0
        words_VD = np.concatenate([words_VD, words_VD[[padding_id]]])
        words_VD[[0, padding_id]] = words_VD[[padding_id, 0]]
        weights = {"embedding/token_embedding/words": words_VD}
        if not self.is_rotary:
            positions_SD = read("embeddings.position_embeddings.weight", (sizes.num_positions, *width))[-sizes.max_pieces :]
            if sizes.num_segments:
                positions_SD = positions_SD + read("embeddings.token_type_embeddings.weight", (sizes.num_segments, *width))[0]
            weights["embedding/position_embedding/embeddings"] = positions_SD

        def add_norm(ours: str, theirs: str, shape: tuple[int, ...] = width) -> None:
            if self.settings.get("norm") == "rms":
                weights[f"{ours}/scale"] = read(f"{theirs}.weight", shape)
            else:
                weights[f"{ours}/gamma"] = read(f"{theirs}.weight", shape)
                weights[f"{ours}/beta"] = read(f"{theirs}.bias", shape) if sizes.norm_bias else np.zeros(shape, np.float32)

        def add_kernel(ours: str, theirs: str, part: str, has_bias: bool) -> None:
            inputs, outputs = kernels[part]
            sharing = [other for other, name in self.parts.items() if name == self.parts[part]]
            size = math.prod(outputs)
            share, all_rows = slice(sharing.index(part) * size, (sharing.index(part) + 1) * size), len(sharing) * size
            kernel = np.ascontiguousarray(read(f"{theirs}.weight", (all_rows, math.prod(inputs)))[share].T)
            weights[f"{ours}kernel"] = kernel.reshape(*inputs, *outputs)
            bias = read(f"{theirs}.bias", (all_rows,))[share] if has_bias else np.zeros(size, np.float32)
            weights[f"{ours}bias"] = bias.reshape(outputs)

        if self.embedding_norm:
            add_norm("embedding/norm", self.embedding_norm)
        for number in range(sizes.num_blocks):
            for part, name in self.parts.items():
                ours, theirs = f"encoder_{number}", f"{self.block}{number}.{name}"
                if part.startswith("feed_forward") and part in kernels:
                    add_kernel(f"{ours}/{part}/", theirs, part, sizes.mlp_bias)
                elif part in kernels:
                    add_kernel(f"{ours}/attention/{part}_", theirs, part, sizes.attention_bias)
                elif part in ("query_norm", "key_norm"):
                    add_norm(f"{ours}/attention/{part}", theirs, (key_dim,))
                elif number or part != "attention_norm" or not (self.embedding_norm and self.final_norm):  # see ``normalizes_attention``
                    add_norm(f"{ours}/{part}", theirs)
        if self.final_norm:
            add_norm("final_norm", self.final_norm)
        return weights


def _with_flat_bases(described: Mapping[str, Any]) -> dict[str, Any]:
    """The entries of ``config.json`` with the bases of rotary positions by their old names; transformers 5 nests them.

    ``rope_type`` names anything else that rotary positions have, so that it is refused.
    """
    flat, kinds, nested = dict(described), list[Any](), described.get("rope_parameters") or {}
    places = {"": nested}
    if isinstance(nested, dict) and not nested.keys().isdisjoint(("full_attention", "sliding_attention")):
        places = {"global_": nested.get("full_attention"), "local_": nested.get("sliding_attention")}
    for prefix, part in (*places.items(), ("", described.get("rope_scaling"))):
        if isinstance(part, dict):
            flat |= {f"{prefix}{name}": base for name, base in part.items() if name == "rope_theta"}
            kinds += [part.get("rope_type", part.get("type")), *sorted(part.keys() - {"rope_theta", "rope_type", "type"})]
        else:
            kinds.append(part)
    return flat | {"rope_type": next((kind for kind in kinds if kind not in (None, "default")), "default")}


_BERT = {
    "query": "attention.self.query", "key": "attention.self.key", "value": "attention.self.value",
    "output": "attention.output.dense", "attention_norm": "attention.output.LayerNorm",
    "feed_forward_in": "intermediate.dense", "feed_forward_out": "output.dense", "feed_forward_norm": "output.LayerNorm",
}  # fmt: skip
_DISTILBERT = {
    "query": "attention.q_lin", "key": "attention.k_lin", "value": "attention.v_lin",
    "output": "attention.out_lin", "attention_norm": "sa_layer_norm",
    "feed_forward_in": "ffn.lin1", "feed_forward_out": "ffn.lin2", "feed_forward_norm": "output_layer_norm",
}  # fmt: skip

_MODERNBERT = {
    "query": "attn.Wqkv", "key": "attn.Wqkv", "value": "attn.Wqkv", "output": "attn.Wo", "attention_norm": "attn_norm",
    "feed_forward_in": "mlp.Wi", "feed_forward_gate": "mlp.Wi", "feed_forward_out": "mlp.Wo", "feed_forward_norm": "mlp_norm",
}  # fmt: skip
_QWEN3 = {
    "query": "self_attn.q_proj", "key": "self_attn.k_proj", "value": "self_attn.v_proj", "output": "self_attn.o_proj",
    "query_norm": "self_attn.q_norm", "key_norm": "self_attn.k_norm", "attention_norm": "input_layernorm",
    "feed_forward_in": "mlp.gate_proj", "feed_forward_gate": "mlp.up_proj", "feed_forward_out": "mlp.down_proj",
    "feed_forward_norm": "post_attention_layernorm",
}  # fmt: skip

_WORDS = "embeddings.word_embeddings.weight"
_ROBERTA = Family(_WORDS, "encoder.layer.", _BERT, {"type_vocab_size": 2, "pad_token_id": 1}, counts_from_padding=True)
_PRE_NORM = {"positions": "rotary", "normalization": "pre", "gated": True}

FAMILIES = {  # families by ``model_type`` of ``config.json``
    "bert": Family(_WORDS, "encoder.layer.", _BERT, {"type_vocab_size": 2}),
    "distilbert": Family(_WORDS, "transformer.layer.", _DISTILBERT, {}),
    "roberta": _ROBERTA,
    "xlm-roberta": _ROBERTA,
    "modernbert": Family(
        "embeddings.tok_embeddings.weight",
        "layers.",
        _MODERNBERT,
        {
            "norm_eps": 1e-5, "global_rope_theta": 160_000, "local_rope_theta": 10_000, "global_attn_every_n_layers": 3,
            "local_attention": 128, "attention_bias": False, "mlp_bias": False, "norm_bias": False, "pad_token_id": None,
        },
        {"num_key_value_heads": None, "head_dim": None, "is_causal": False},
        embedding_norm="embeddings.norm",
        final_norm="final_norm",
        settings=_PRE_NORM,
    ),
    "qwen3": Family(
        "embed_tokens.weight",
        "layers.",
        _QWEN3,
        {
            "hidden_act": "silu", "rms_norm_eps": 1e-6, "num_key_value_heads": 32, "head_dim": 128, "attention_bias": False,
            "pad_token_id": None,
        },
        {"mlp_bias": False, "global_attn_every_n_layers": 1},
        embedding_norm=None,
        final_norm="norm",
        settings={**_PRE_NORM, "norm": "rms", "query_key_norm": True},
        pooling="last",
    ),
}  # fmt: skip
