"""The numbers of pretrained encoders in our layers are those of ``transformers``."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from mha_cli.checkpoint.file import Checkpoint
from mha_cli.model.classifier import encoder_blocks, to_model
from mha_cli.pretrained.folder import read_pretrained
from mha_cli.runtime.forward import ForwardPass, attention_weights, class_probabilities
from mha_cli.runtime.inspection import view_attention
from mha_cli.runtime.numpy_operations import NumpyOperations
from tests.pretrained.tiny import FAMILIES, PADDING, entries_of, tiny_checkpoint, tiny_folder

Theirs = Callable[[Path, np.ndarray], tuple[list[np.ndarray], list[np.ndarray]]]


@pytest.fixture
def theirs() -> Theirs:
    """A function from a folder and pieces (B, P), padded with 0, to hidden states (B, P, D) and attention weights (B, H, P, P).

    The last id is that of a padding piece that a text spells out, which is looked at.
    """
    transformers, torch = pytest.importorskip("transformers"), pytest.importorskip("torch")
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()

    def run(folder: Path, pieces: np.ndarray) -> tuple[list[np.ndarray], list[np.ndarray]]:
        model = transformers.AutoModel.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32).eval()
        padding = model.config.pad_token_id  # id 0 is theirs for another piece
        if padding is None:
            padding = transformers.AutoTokenizer.from_pretrained(folder).convert_tokens_to_ids(PADDING[model.config.model_type])
        spelt_out = (pieces == 0) | (pieces == model.config.vocab_size)
        ids = np.where(spelt_out, padding, np.where(pieces == padding, 0, pieces))
        arguments = {"input_ids": torch.tensor(ids).long(), "attention_mask": torch.tensor(pieces != 0).long()}
        with torch.no_grad():
            found = model(**arguments, output_hidden_states=True, output_attentions=True)
        return [x.numpy() for x in found.hidden_states], [x.numpy() for x in found.attentions]

    return run


def pieces_of(checkpoint: Checkpoint, lengths: list[int]) -> np.ndarray:
    """Random pieces (B, P), padded with 0; id 1 is among them."""
    ids = np.random.default_rng(0).integers(1, checkpoint.config.model.num_pieces - 1, (len(lengths), max(lengths))).astype(np.int32)
    ids[:, 1] = 1
    return np.where(np.arange(max(lengths)) < np.array(lengths)[:, None], ids, 0)


def numpy_states(checkpoint: Checkpoint, pieces: np.ndarray) -> list[np.ndarray]:
    """The embeddings, and what every block makes of them."""
    forward, block = ForwardPass(checkpoint.weights, checkpoint.config), ForwardPass.block
    states = [forward.embed(pieces)]

    def recorded(*arguments: Any) -> Any:
        states.append(block(*arguments))
        return states[-1]

    with patch.object(ForwardPass, "block", recorded):
        states[-1] = forward.encode(states[0], pieces != 0)  # with the last normalization, as transformers has it
    return states


def keras_states(checkpoint: Checkpoint, pieces: np.ndarray) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """The same by Keras, and the attention weights."""
    model, mask = to_model(checkpoint), pieces != 0
    states, weights = [model.get_layer("embedding")(pieces)], []
    for block in encoder_blocks(model):
        x = block.attention_norm(states[-1]) if block.normalization == "pre" and block.normalizes_attention else states[-1]
        attended = block.attention(x, x, value_mask=mask, use_causal_mask=block.causal, return_attention_scores=True)
        weights.append(np.array(attended[1]))
        states.append(block(states[-1], mask=mask))
    if checkpoint.config.model.normalizes_output:
        states[-1] = model.get_layer("final_norm")(states[-1])
    return [np.array(x) for x in states], weights


def assert_close(ours: list[np.ndarray], theirs: list[np.ndarray], real: np.ndarray) -> None:
    """Of all positions that are no padding: hidden states (B, P, D), or the weights of their queries (B, H, P, P)."""
    for x, y in zip(ours, theirs, strict=True):
        some = np.broadcast_to(real[:, :, None] if x.ndim == 3 else real[:, None, :, None], x.shape)
        np.testing.assert_allclose(x[some], y[some], atol=1e-4, rtol=1e-4)


BASES = {
    "full_attention": {"rope_type": "default", "rope_theta": 1_600.0},
    "sliding_attention": {"rope_theta": 100.0, "rope_type": "default"},
}
WITH_BIASES = {"attention_bias": True, "mlp_bias": True, "norm_bias": True}
SETTINGS: list[tuple[str, dict[str, Any]]] = [
    *((family, {}) for family in FAMILIES),
    ("bert", {"hidden_act": "relu"}),
    ("modernbert", WITH_BIASES),
    ("modernbert", {"global_attn_every_n_layers": 1, "hidden_activation": "silu"}),
    ("modernbert", {"global_attn_every_n_layers": 7, "local_attention": 22, "max_position_embeddings": 331}),  # settings of transformers 4
    ("modernbert", {"layer_types": ["full_attention", *["sliding_attention"] * 2] * 2, "num_hidden_layers": 6, "rope_parameters": BASES}),
    ("modernbert", {"layer_types": ["full_attention"] * 5, "rope_parameters": {"full_attention": {"rope_theta": 9.0}}}),
    ("qwen3", {"attention_bias": True, "num_key_value_heads": 6}),
    ("qwen3", {"is_causal": False}),
    (
        "qwen3",
        {"num_key_value_heads": 1, "head_dim": 14, "rope_parameters": {"rope_theta": 100, "rope_type": "default"}, "pad_token_id": 307},
    ),
]


@pytest.mark.extras
@pytest.mark.parametrize(("family", "settings"), SETTINGS)
def test_states_and_attention_equal_transformers(family: str, settings: dict[str, Any], theirs: Theirs, tmp_path: Path) -> None:
    checkpoint = tiny_checkpoint(tiny_folder(tmp_path, family, **settings))
    for lengths in ([checkpoint.config.text.max_pieces or 0, 7, 2], [13, 13]):  # the longest, padded, and none padded
        pieces = pieces_of(checkpoint, lengths)
        if "roberta" not in family:  # for which transformers leaves such a piece out of the positions
            pieces[0, 3] = checkpoint.config.model.num_pieces - 1
        states, attention = theirs(tmp_path, pieces)
        assert attention[0].shape[1] == entries_of(tmp_path, "config.json").get("num_attention_heads", 3)
        assert_close(numpy_states(checkpoint, pieces), states, pieces != 0)
        assert_close(attention_weights(pieces, checkpoint.weights, checkpoint.config), attention, pieces != 0)
        in_keras, attention_in_keras = keras_states(checkpoint, pieces)
        assert_close(in_keras, states, pieces != 0)
        assert_close(attention_in_keras, attention, pieces != 0)


@pytest.mark.minilm
def test_minilm_equals_transformers(theirs: Theirs) -> None:
    folder = Path(os.environ["MHA_MINILM"])
    checkpoint = tiny_checkpoint(folder)
    encoder = read_pretrained(folder)
    tokenizer = encoder.piece_tokenizer(checkpoint.config.text)
    texts = ["A gorgeous, witty, seductive movie.", "It's never dull, and not very [PAD] good at all!", "Nein."]
    ids = [tokenizer.ids(text) for text in texts]
    pieces = np.array([[*each, *[0] * (max(map(len, ids)) - len(each))] for each in ids], np.int32)
    states, attention = theirs(folder, pieces)
    assert_close(numpy_states(checkpoint, pieces), states, pieces != 0)
    assert_close(attention_weights(pieces, checkpoint.weights, checkpoint.config), attention, pieces != 0)
    assert_close(keras_states(checkpoint, pieces)[0], states, pieces != 0)


@pytest.mark.parametrize("pooling", ["mean", "max", "first", "last"])
def test_pooling_equals_its_formula(pooling: str, tmp_path: Path) -> None:
    checkpoint = tiny_checkpoint(tiny_folder(tmp_path, "bert"), pooling=pooling)
    pieces = pieces_of(checkpoint, [7, 2, 5])
    states = numpy_states(checkpoint, pieces)[-1]
    formula: dict[str, Callable[[np.ndarray], Any]] = {
        "mean": lambda rows: [sum(column) / len(column) for column in rows.T.tolist()],
        "max": lambda rows: [max(column) for column in rows.T.tolist()],
        "first": lambda rows: rows[0],
        "last": lambda rows: rows[-1],
    }
    expected = [formula[pooling](row[: np.count_nonzero(ids)]) for row, ids in zip(states, pieces, strict=True)]
    np.testing.assert_allclose(NumpyOperations().pool(states, pieces != 0, pooling), expected, atol=1e-6)
    in_keras = to_model(checkpoint).get_layer("pooling")(states, mask=pieces != 0)
    np.testing.assert_allclose(in_keras, expected, atol=1e-6)
    np.testing.assert_array_equal(NumpyOperations().pool(states[:1], np.zeros((1, 7), bool), "mean"), np.zeros((1, states.shape[2])))


@pytest.mark.parametrize(("family", "pooling"), [*zip(FAMILIES, ("mean", "max", "first", "mean", "mean", "last"), strict=True)])
def test_keras_and_openvino_equal_numpy(family: str, pooling: str, tmp_path: Path) -> None:
    checkpoint = tiny_checkpoint(tiny_folder(tmp_path, family), pooling=pooling)
    pieces = pieces_of(checkpoint, [13, 7, 2, 5])
    tokens = np.random.default_rng(1).integers(1, len(checkpoint.vocabulary), (4, 11)).astype(np.int32)
    expected = class_probabilities(tokens, checkpoint.weights, checkpoint.config, pieces_BP=pieces)
    np.testing.assert_allclose(to_model(checkpoint)([pieces, tokens]), expected, atol=1e-5)
    pytest.importorskip("openvino")
    from mha_cli.runtime.openvino_encoder import OpenVinoEncoder

    forward = ForwardPass(checkpoint.weights, checkpoint.config)
    embedded, real = forward.embed(pieces), pieces != 0
    in_numpy = forward.pooled(embedded, real)
    np.testing.assert_allclose(OpenVinoEncoder(checkpoint, "float32")(embedded, real), in_numpy, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_no_piece_is_taken_for_a_word_that_the_vocabulary_lacks(family: str, tmp_path: Path) -> None:
    view = view_attention(tiny_checkpoint(tiny_folder(tmp_path, family)), "the film was superb")
    assert len(view.words) == len(view.unknown) > 3
    assert not any(view.unknown)  # RoBERTa's first piece has our id of unknown words
