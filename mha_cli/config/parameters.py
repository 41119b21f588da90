"""The name and shape of every weight that a config implies, known without building the model."""

import math
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from mha_cli.config.settings import Config, LinearConfig

CONTEXT_WORDS = 2_000  # most words with context weights of their own: rarer words say little about the n-grams near them
SMALLEST_NORM = 1e-6  # a text without a token has n-gram weights of norm zero; the norm is taken as this, and its linear logits are zero


class Parameter(NamedTuple):
    """One weight."""

    path: str  # Keras's variable path, for example ``encoder_0/attention/query_kernel``
    hdf5_path: str  # path inside ``model.weights.h5``, as Keras 3 has it
    shape: tuple[int, ...]  # size of each axis


def parameter_table(config: Config, vocabulary_size: int, num_classes: int) -> list[Parameter]:
    """Every weight of the classifier, in the order in which Keras creates them."""
    units = num_outputs(num_classes, config.is_multi_label)
    linear = units if config.linear else 0
    return [
        *_embedding(config, vocabulary_size),
        *(parameter for block in range(config.model.num_blocks) for parameter in _encoder(config, block)),
        *(_norm(config, "final_norm", f"layers/{config.model.norm}_normalization") if config.model.normalizes_output else ()),
        *(_linear(config.linear, vocabulary_size, units) if config.linear else ()),
        *_group("classifier", "layers/dense", {"kernel": (config.model.embed_dim + linear, units), "bias": (units,)}),
    ]


def num_parameters(config: Config, vocabulary_size: int, num_classes: int = 2) -> int:
    """Number of weights with a vocabulary of this many ids, the linear model's table included."""
    return sum(math.prod(parameter.shape) for parameter in parameter_table(config, vocabulary_size, num_classes))


def num_outputs(num_classes: int, is_multi_label: bool = False) -> int:
    """Units of the last layer: a sigmoid unit per label where a text may have several; else one for two classes, or a softmax over all."""
    return 1 if num_classes == 2 and not is_multi_label else num_classes


def encoder_length(config: Config) -> int:
    """Longest text that the encoder reads: in pieces if it is a pretrained one, else in tokens."""
    return config.text.max_pieces if config.model.num_pieces and config.text.max_pieces else config.text.sequence_length


def encoder_shape(config: Config) -> tuple[int | None, ...]:
    """Shape of a text's tokens as the encoder reads them; see ``TextConfig.token_shape``."""
    return (None,) if config.model.num_pieces else config.text.token_shape


def input_names(config: Config) -> tuple[str, ...]:
    """Names of the classifier's inputs: tokens, and before them the pieces that a pretrained encoder reads instead."""
    if not config.model.num_pieces:
        return ("token_ids",)
    return ("pieces", "token_ids") if config.linear else ("pieces",)


def context_words(linear: LinearConfig, vocabulary_size: int) -> int:
    """Ids with context weights of their own: the most frequent words; all other ids share the last row."""
    return min(CONTEXT_WORDS, vocabulary_size) if linear.context_windows else 1


def _linear(linear: LinearConfig, vocabulary_size: int, units: int) -> Iterator[Parameter]:
    weights = {"table": (linear.buckets, units)}
    if linear.context_windows:
        weights["context_weights"] = (context_words(linear, vocabulary_size), len(linear.context_windows))
    return _group("linear", "layers/ngram_linear", weights)


def _embedding(config: Config, vocabulary_size: int) -> Iterator[Parameter]:
    model, group = config.model, "layers/positional_embedding"
    rows = {"words": model.num_pieces or vocabulary_size}
    if model.max_ngram > 1:
        rows["ngrams"] = model.ngram_buckets
    if model.subword_buckets:
        rows["subwords"] = model.subword_buckets
    if model.conv_kernel_size:
        rows["convolution_kernel"] = model.conv_kernel_size
    tables = {name: (number, model.embed_dim) for name, number in rows.items()}
    yield from _group("embedding/token_embedding", f"{group}/token_embedding", tables)
    if model.positions == "learned":
        table = {"embeddings": (encoder_length(config), model.embed_dim)}
        yield from _group("embedding/position_embedding", f"{group}/position_embedding", table)
    if model.normalizes_embedding:
        yield from _norm(config, "embedding/norm", f"{group}/norm")


def _encoder(config: Config, block: int) -> Iterator[Parameter]:
    model = config.model
    width, heads = model.embed_dim, model.heads[block]
    head_width = model.head_key_dim
    attention: dict[str, tuple[int, ...]] = {}
    for name, number in (("query", heads), ("key", model.key_value_heads(block)), ("value", model.key_value_heads(block))):
        attention |= {f"{name}_kernel": (width, number, head_width), f"{name}_bias": (number, head_width)}
    attention |= {"output_kernel": (heads, head_width, width), "output_bias": (width,)}
    name = f"encoder_{block}"
    group = "layers/transformer_encoder" + (f"_{block}" if block else "")
    hidden = model.feed_forward_dim
    into_hidden = {"kernel": (width, hidden), "bias": (hidden,)}
    yield from _group(f"{name}/attention", f"{group}/attention", attention)
    for part in ("query_norm", "key_norm") if model.query_key_norm else ():
        yield from _norm(config, f"{name}/attention/{part}", f"{group}/attention/{part}", head_width)
    if model.normalizes_attention(block):
        yield from _norm(config, f"{name}/attention_norm", f"{group}/attention_norm")
    yield from _group(f"{name}/feed_forward_in", f"{group}/feed_forward_in", into_hidden)
    if model.gated:
        yield from _group(f"{name}/feed_forward_gate", f"{group}/feed_forward_gate", into_hidden)
    yield from _group(f"{name}/feed_forward_out", f"{group}/feed_forward_out", {"kernel": (hidden, width), "bias": (width,)})
    yield from _norm(config, f"{name}/feed_forward_norm", f"{group}/feed_forward_norm")


def _norm(config: Config, name: str, group: str, width: int | None = None) -> Iterator[Parameter]:
    """The weights of a normalization, ``embed_dim`` wide by default."""
    names = ("scale",) if config.model.norm == "rms" else ("gamma", "beta")
    return _group(name, group, dict.fromkeys(names, (width or config.model.embed_dim,)))


def _group(name: str, group: str, weights: Mapping[str, tuple[int, ...]]) -> Iterator[Parameter]:
    for index, (weight, shape) in enumerate(weights.items()):
        yield Parameter(f"{name}/{weight}", f"{group}/vars/{index}", shape)
