"""The model's layers. Importing this package registers them, so that plain ``keras.models.load_model`` opens a checkpoint."""

from mha_cli.layers.additive import additive_attention
from mha_cli.layers.attention import MultiHeadAttention, scaled_dot_product_attention
from mha_cli.layers.encoder import TransformerEncoder
from mha_cli.layers.fast.attention import BlockwiseAttention, FastAttention, FoldedAttention, FusedAttention
from mha_cli.layers.fast.blockwise import blockwise_attention
from mha_cli.layers.ngram_linear import NgramLinear
from mha_cli.layers.pooling import POOLINGS, FirstPosition, GlobalMaxPooling1D, GlobalMeanPooling1D, LastPosition
from mha_cli.layers.positions import PositionalEmbedding, sinusoidal_positions
from mha_cli.layers.since_2017 import linear_biases, rotary_positions
from mha_cli.layers.tokens import TokenEmbedding

__all__ = [
    "POOLINGS",
    "BlockwiseAttention",
    "FastAttention",
    "FirstPosition",
    "FoldedAttention",
    "FusedAttention",
    "GlobalMaxPooling1D",
    "GlobalMeanPooling1D",
    "LastPosition",
    "MultiHeadAttention",
    "NgramLinear",
    "PositionalEmbedding",
    "TokenEmbedding",
    "TransformerEncoder",
    "additive_attention",
    "blockwise_attention",
    "linear_biases",
    "rotary_positions",
    "scaled_dot_product_attention",
    "sinusoidal_positions",
]
