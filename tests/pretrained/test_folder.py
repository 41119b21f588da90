"""What a folder may look like: other names, other types, several files, sentence-transformers' layout."""

import json
import re
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from mha_cli.config.loading import config_from_dict
from mha_cli.pretrained.folder import PretrainedEncoder, read_pretrained, with_pretrained
from tests.errors import error_of
from tests.pretrained.tiny import FAMILIES, POSITIONS, WIDTH, tiny_folder

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"


def same(first: PretrainedEncoder, second: PretrainedEncoder, **close: float) -> bool:
    for path, weight in first.weights.items():
        np.testing.assert_allclose(second.weights[path], weight, **close)
    return first.weights.keys() == second.weights.keys()


def test_weights_have_the_shapes_of_our_layers_and_nothing_is_shared(tmp_path: Path) -> None:
    for family in FAMILIES:
        folder = tiny_folder(tmp_path / family, family)
        encoder, theirs = read_pretrained(folder), load_file(folder / WEIGHTS)
        assert (encoder.pooling, encoder.max_pieces) == ("mean", POSITIONS)
        assert encoder.weights["encoder_1/attention/query_kernel"].shape == (WIDTH, 3, 7)
        assert {weight.dtype.name for weight in encoder.weights.values()} == {"float32"}
        words, padding_id = encoder.weights["embedding/token_embedding/words"], encoder.architecture.padding_id
        np.testing.assert_array_equal(words[0], theirs["embeddings.word_embeddings.weight"][padding_id])
        np.testing.assert_array_equal(words[padding_id], theirs["embeddings.word_embeddings.weight"][0])


@pytest.mark.parametrize("prefix", ["bert.", "model.encoder.", "x"])
def test_names_may_begin_with_anything(prefix: str, tmp_path: Path) -> None:
    plain, prefixed = (read_pretrained(tiny_folder(tmp_path / (name or "plain"), "bert", prefix=name)) for name in ("", prefix))
    assert same(plain, prefixed)


def test_old_names_of_norms_and_more_tensors_than_are_read(tmp_path: Path) -> None:
    plain = read_pretrained(tiny_folder(tmp_path, "bert"))
    old = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
    tensors = {re.sub("|".join(old), lambda name: old[name[0]], name): tensor for name, tensor in load_file(tmp_path / WEIGHTS).items()}
    save_file(tensors | {"pooler.dense.weight": np.zeros((3, 3)), "embeddings.position_ids": np.arange(37)}, tmp_path / WEIGHTS)
    assert same(plain, read_pretrained(tmp_path))


@pytest.mark.parametrize(("dtype", "close"), [(np.float16, 1e-3), (ml_dtypes.bfloat16, 1e-2)])
def test_half_precision_is_read(dtype: Any, close: float, tmp_path: Path) -> None:
    plain = read_pretrained(tiny_folder(tmp_path, "distilbert"))
    save_file({name: tensor.astype(dtype) for name, tensor in load_file(tmp_path / WEIGHTS).items()}, tmp_path / WEIGHTS)
    assert same(plain, read_pretrained(tmp_path), rtol=close, atol=close)


@pytest.mark.parametrize("family", FAMILIES)
def test_settings_that_a_family_has_by_default(family: str, tmp_path: Path) -> None:
    plain = read_pretrained(tiny_folder(tmp_path, family, **({} if family == "distilbert" else {"type_vocab_size": 2})))
    described = json.loads((tmp_path / "config.json").read_text())
    for name in ("pad_token_id", "hidden_act", "activation", "type_vocab_size"):
        described.pop(name, None)
    (tmp_path / "config.json").write_text(json.dumps(described))
    assert same(plain, read_pretrained(tmp_path))


def test_several_files_and_links_are_read(tmp_path: Path) -> None:
    plain = read_pretrained(tiny_folder(tmp_path, "bert"))
    tensors, weight_map = load_file(tmp_path / WEIGHTS), {}
    (tmp_path / WEIGHTS).unlink()
    (tmp_path / "blobs").mkdir()
    for number in range(3):
        part = dict(list(tensors.items())[number::3])
        save_file(part, tmp_path / "blobs" / f"{number}")
        (tmp_path / f"model-{number}.safetensors").symlink_to(f"blobs/{number}")  # as in the cache of the Hugging Face hub
        weight_map |= dict.fromkeys(part, f"model-{number}.safetensors")
    (tmp_path / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    assert same(plain, read_pretrained(tmp_path))


@pytest.mark.parametrize(("mode", "pooling"), [("mean_tokens", "mean"), ("max_tokens", "max"), ("cls_token", "first")])
def test_the_layout_of_sentence_transformers(mode: str, pooling: str, tmp_path: Path) -> None:
    plain = read_pretrained(tiny_folder(tmp_path / "0_Transformer", "bert"))
    types = {"0_Transformer": "Transformer", "1_Pooling": "Pooling", "2_Normalize": "Normalize"}
    listed = [{"idx": 0, "path": path, "type": f"sentence_transformers.models.{name}"} for path, name in types.items()]
    (tmp_path / "modules.json").write_text(json.dumps(listed))
    (tmp_path / "1_Pooling").mkdir()
    modes = {f"pooling_mode_{name}": name == mode for name in ("mean_tokens", "max_tokens", "cls_token", "lasttoken")}
    (tmp_path / "1_Pooling" / "config.json").write_text(json.dumps({"word_embedding_dimension": WIDTH, **modes}))
    (tmp_path / "0_Transformer" / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 17}))
    encoder = read_pretrained(tmp_path)
    assert same(plain, encoder)
    assert (encoder.pooling, encoder.max_pieces) == (pooling, 17)
    config = with_pretrained(config_from_dict({"model": {"pretrained": str(tmp_path)}}, "test"), encoder)
    assert (config.model.pooling, config.text.max_pieces) == (pooling, 17)


def test_what_a_config_says_of_a_folder(tmp_path: Path) -> None:
    encoder = read_pretrained(tiny_folder(tmp_path, "roberta"))

    def config(**text: Any) -> Any:
        return with_pretrained(config_from_dict({"text": text, "model": {"pretrained": str(tmp_path), "pooling": "max"}}, "test"), encoder)

    assert config().text.max_pieces == POSITIONS
    assert config(max_pieces=7).text.max_pieces == 7
    assert config().model.pooling == "max"
    assert config().model.norm_epsilon == 1e-5
    assert len(encoder.piece_tokenizer(config(max_pieces=7).text).ids("The film was superb, and never dull.")) == 7
    line = error_of(lambda: config(max_pieces=POSITIONS + 1))
    assert line == "text.max_pieces=38: the encoder has 37 positions; take text.max_pieces=37 or less"


@pytest.mark.parametrize("name", ["none", "a" * 300, "a\0b", "config.json"])
def test_a_path_that_is_no_folder(name: str, tmp_path: Path) -> None:
    tiny_folder(tmp_path, "bert")
    line = error_of(read_pretrained, tmp_path / name)
    assert line.endswith(" is no folder; a pretrained encoder has config.json, model.safetensors and tokenizer.json; mha downloads nothing")
