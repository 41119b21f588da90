"""Families of pretrained encoders: how each names its sizes and its weights, and what they are in our layers.

All are post-norm encoders with learned positions (Devlin et al. 2019, "BERT"; Liu et al. 2019, "RoBERTa"; Sanh et al. 2019,
"DistilBERT"; Conneau et al. 2020, "XLM-R"). What differs is folded into the weights when they are read:

- A text is one segment, so BERT's embedding of segment 0 is added to that of every position.
- RoBERTa counts positions from its padding id + 1, so the rows before are left out.
- Our padding has id 0, so RoBERTa's padding, which is 1, and its id 0 change places, here and in ``PieceTokenizer``.
- Padding is masked by its id, so the last row is a copy of it for a padding piece that a text spells out, such as ``[PAD]``.

Axes: V pieces, S positions, D model width, F feed-forward width, H heads, K width per head.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import AliasChoices, BaseModel, BeforeValidator, Field, ValidationError

from mha_cli.arrays import Floats
from mha_cli.errors import MhaError, printable, shown_path

Read = Callable[[str, tuple[int, ...]], Floats]

WORDS = "embeddings.word_embeddings.weight"  # a tensor of every family; what stands before its name stands before all names


def unusable(path: Path, problem: str, hint: str = "fetch the folder anew") -> MhaError:
    """The error about a file of the folder."""
    return MhaError(f"{shown_path(path)}: {problem}", hint)


Activation = Annotated[Literal["gelu", "relu"], BeforeValidator(lambda name: "gelu" if name == "gelu_python" else name)]


class Architecture(BaseModel):
    """The sizes of a pretrained encoder, as ``config.json`` has them; DistilBERT has names of its own."""

    vocabulary_size: int = Field(validation_alias="vocab_size", ge=2, le=1_999_999)
    embed_dim: int = Field(validation_alias=AliasChoices("hidden_size", "dim"), ge=1, le=4_096)
    num_blocks: int = Field(validation_alias=AliasChoices("num_hidden_layers", "n_layers"), ge=1, le=100)
    num_heads: int = Field(validation_alias=AliasChoices("num_attention_heads", "n_heads"), ge=1, le=256)
    feed_forward_dim: int = Field(validation_alias=AliasChoices("intermediate_size", "hidden_dim"), ge=1, le=65_536)
    num_positions: int = Field(validation_alias="max_position_embeddings", ge=8, le=100_000)
    activation: Activation = Field("gelu", validation_alias=AliasChoices("hidden_act", "activation"))
    norm_epsilon: float = Field(1e-12, validation_alias="layer_norm_eps", gt=0, le=1e-2)
    padding_id: int = Field(0, validation_alias="pad_token_id", ge=0, le=1)
    num_segments: int = Field(0, validation_alias="type_vocab_size", ge=0, le=100)
    position_embedding_type: Literal["absolute"] = "absolute"
    is_decoder: Literal[False] = False
    _first_position: int = 0

    @property
    def max_pieces(self) -> int:
        """Longest text, in pieces."""
        return self.num_positions - self._first_position

    @property
    def num_rows(self) -> int:
        """Rows of our table: one per piece, and one for a padding piece that a text spells out."""
        return self.vocabulary_size + 1

    @property
    def num_weights(self) -> int:
        """Number of weights that the files hold."""
        width, hidden = self.embed_dim, self.feed_forward_dim
        block = 4 * width * (width + 1) + width * (2 * hidden + 1) + hidden + 4 * width
        return width * (self.vocabulary_size + self.num_positions + self.num_segments + 2) + self.num_blocks * block


@dataclass(frozen=True)
class Family:
    """The names that a family gives to its tensors."""

    block: str  # beginning of the names of a block's tensors, before its number
    parts: Mapping[str, str]  # a block's tensors by the names of our layers
    defaults: Mapping[str, int]  # settings that ``config.json`` need not have
    counts_from_padding: bool = False  # whether the first position has the padding id + 1

    def architecture(self, described: Mapping[str, Any], path: Path) -> Architecture:
        """The sizes that ``config.json``, at this path, gives."""
        try:
            sizes = Architecture.model_validate({**self.defaults, **described})
        except ValidationError as error:
            fault = error.errors()[0]
            value = printable(repr(fault["input"])) if isinstance(fault["input"], str | int | float) else "missing or no such value"
            message = fault["msg"].lower().replace("input should", "it should")
            raise unusable(path, f"{fault['loc'][0]} is {value}; {message}", "fetch the file anew, or take another encoder") from None
        if sizes.embed_dim % sizes.num_heads:
            raise unusable(path, f"{sizes.num_heads} heads do not divide {sizes.embed_dim} units")
        if self.counts_from_padding:
            sizes._first_position = sizes.padding_id + 1
        return sizes

    def weights(self, sizes: Architecture, read: Read) -> dict[str, Floats]:
        """All weights of the encoder in the shapes of our layers, by Keras variable path; ``read`` has the numbers of a tensor."""
        width, hidden, heads = sizes.embed_dim, sizes.feed_forward_dim, (sizes.num_heads, sizes.embed_dim // sizes.num_heads)
        words_VD = read(WORDS, (sizes.vocabulary_size, width))
        words_VD = np.concatenate([words_VD, words_VD[[sizes.padding_id]]])
        words_VD[[0, sizes.padding_id]] = words_VD[[sizes.padding_id, 0]]
        positions_SD = read("embeddings.position_embeddings.weight", (sizes.num_positions, width))[-sizes.max_pieces :]
        if sizes.num_segments:
            positions_SD = positions_SD + read("embeddings.token_type_embeddings.weight", (sizes.num_segments, width))[0]
        weights = {"embedding/token_embedding/words": words_VD, "embedding/position_embedding/embeddings": positions_SD}

        def add_norm(ours: str, theirs: str) -> None:
            weights[f"{ours}/gamma"] = read(f"{theirs}.weight", (width,))
            weights[f"{ours}/beta"] = read(f"{theirs}.bias", (width,))

        def dense(theirs: str, inputs: int, outputs: int) -> tuple[Floats, Floats]:
            return read(f"{theirs}.weight", (outputs, inputs)).T, read(f"{theirs}.bias", (outputs,))

        add_norm("embedding/norm", "embeddings.LayerNorm")
        for number in range(sizes.num_blocks):
            ours = f"encoder_{number}"
            theirs = {part: f"{self.block}{number}.{name}" for part, name in self.parts.items()}
            for part in ("query", "key", "value"):
                kernel_DF, bias_F = dense(theirs[part], width, width)
                weights[f"{ours}/attention/{part}_kernel"] = kernel_DF.reshape(width, *heads)
                weights[f"{ours}/attention/{part}_bias"] = bias_F.reshape(heads)
            kernel_FD, bias_D = dense(theirs["output"], width, width)
            weights[f"{ours}/attention/output_kernel"] = kernel_FD.reshape(*heads, width)
            weights[f"{ours}/attention/output_bias"] = bias_D
            add_norm(f"{ours}/attention_norm", theirs["attention_norm"])
            for part, sides in (("feed_forward_in", (width, hidden)), ("feed_forward_out", (hidden, width))):
                weights[f"{ours}/{part}/kernel"], weights[f"{ours}/{part}/bias"] = dense(theirs[part], *sides)
            add_norm(f"{ours}/feed_forward_norm", theirs["feed_forward_norm"])
        return weights


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

_ROBERTA = Family("encoder.layer.", _BERT, {"type_vocab_size": 2, "pad_token_id": 1}, counts_from_padding=True)

FAMILIES = {  # families by ``model_type`` of ``config.json``
    "bert": Family("encoder.layer.", _BERT, {"type_vocab_size": 2}),
    "distilbert": Family("transformer.layer.", _DISTILBERT, {}),
    "roberta": _ROBERTA,
    "xlm-roberta": _ROBERTA,
}
