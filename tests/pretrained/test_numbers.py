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
from tests.pretrained.tiny import FAMILIES, HEADS, tiny_checkpoint, tiny_folder

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
        model = transformers.AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
        padding = model.config.pad_token_id  # id 0 is theirs for another piece
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
        forward.pooled(states[0], pieces != 0)
    return states


def keras_states(checkpoint: Checkpoint, pieces: np.ndarray) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """The same by Keras, and the attention weights."""
    model, mask = to_model(checkpoint), pieces != 0
    states, weights = [model.get_layer("embedding")(pieces)], []
    for block in encoder_blocks(model):
        weights.append(np.array(block.attention(states[-1], states[-1], value_mask=mask, return_attention_scores=True)[1]))
        states.append(block(states[-1], mask=mask))
    return [np.array(x) for x in states], weights


def assert_close(ours: list[np.ndarray], theirs: list[np.ndarray], real: np.ndarray) -> None:
    """Of all positions that are no padding: hidden states (B, P, D), or the weights of their queries (B, H, P, P)."""
    for x, y in zip(ours, theirs, strict=True):
        some = np.broadcast_to(real[:, :, None] if x.ndim == 3 else real[:, None, :, None], x.shape)
        np.testing.assert_allclose(x[some], y[some], atol=1e-4, rtol=1e-4)


@pytest.mark.extras
@pytest.mark.parametrize(("family", "settings"), [*((family, {}) for family in FAMILIES), ("bert", {"hidden_act": "relu"})])
def test_states_and_attention_equal_transformers(family: str, settings: dict[str, str], theirs: Theirs, tmp_path: Path) -> None:
    checkpoint = tiny_checkpoint(tiny_folder(tmp_path, family, **settings))
    for lengths in ([37, 7, 2], [13, 13]):  # the longest, padded, and none padded
        pieces = pieces_of(checkpoint, lengths)
        if "roberta" not in family:  # for which transformers leaves such a piece out of the positions
            pieces[0, 3] = checkpoint.config.model.num_pieces - 1
        states, attention = theirs(tmp_path, pieces)
        assert attention[0].shape[1] == HEADS
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


@pytest.mark.parametrize("pooling", ["mean", "max", "first"])
def test_pooling_equals_its_formula(pooling: str, tmp_path: Path) -> None:
    checkpoint = tiny_checkpoint(tiny_folder(tmp_path, "bert"), pooling=pooling)
    pieces = pieces_of(checkpoint, [7, 2, 5])
    states = numpy_states(checkpoint, pieces)[-1]
    formula: dict[str, Callable[[np.ndarray], Any]] = {
        "mean": lambda rows: [sum(column) / len(column) for column in rows.T.tolist()],
        "max": lambda rows: [max(column) for column in rows.T.tolist()],
        "first": lambda rows: rows[0],
    }
    expected = [formula[pooling](row[: np.count_nonzero(ids)]) for row, ids in zip(states, pieces, strict=True)]
    np.testing.assert_allclose(NumpyOperations().pool(states, pieces != 0, pooling), expected, atol=1e-6)
    in_keras = to_model(checkpoint).get_layer("pooling")(states, mask=pieces != 0)
    np.testing.assert_allclose(in_keras, expected, atol=1e-6)
    np.testing.assert_array_equal(NumpyOperations().pool(states[:1], np.zeros((1, 7), bool), "mean"), np.zeros((1, states.shape[2])))


@pytest.mark.parametrize(("family", "pooling"), [*zip(FAMILIES, ("mean", "max", "first", "mean"), strict=True)])
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
