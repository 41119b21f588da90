"""What a folder may look like: other names, other types, several files, sentence-transformers' layout."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from mha_cli.config.loading import config_from_dict
from mha_cli.config.parameters import parameter_table
from mha_cli.config.settings import TextConfig
from mha_cli.pretrained.families import FAMILIES as FAMILY
from mha_cli.pretrained.folder import MAX_WEIGHT_BYTES, PretrainedEncoder, read_pretrained, with_pretrained
from tests.cli.command import environment
from tests.errors import error_of
from tests.pretrained.tiny import FAMILIES, PADDING, POSITIONS, WIDTH, tiny_folder, tiny_tokenizer

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"


def same(first: PretrainedEncoder, second: PretrainedEncoder, **close: float) -> bool:
    for path, weight in first.weights.items():
        np.testing.assert_allclose(second.weights[path], weight, **close)
    return first.weights.keys() == second.weights.keys()


def test_weights_have_our_shapes(tmp_path: Path) -> None:
    for family in FAMILIES:
        folder = tiny_folder(tmp_path / family, family)
        encoder, theirs = read_pretrained(folder), load_file(folder / WEIGHTS)
        assert (encoder.pooling, encoder.max_pieces) == ("last" if family == "qwen3" else "mean", POSITIONS)
        shape = {"modernbert": (30, 3, 10), "qwen3": (WIDTH, 6, 10)}.get(family, (WIDTH, 3, 7))
        assert encoder.weights["encoder_1/attention/query_kernel"].shape == shape
        assert {weight.dtype.name for weight in encoder.weights.values()} == {"float32"}
        words, padding_id = encoder.weights["embedding/token_embedding/words"], encoder.architecture.padding_id
        [their_words] = (
            tensor for name, tensor in theirs.items() if name.split(".")[-2] in ("word_embeddings", "tok_embeddings", "embed_tokens")
        )
        assert padding_id == tiny_tokenizer(family).token_to_id(PADDING[family])
        np.testing.assert_array_equal(words[0], their_words[padding_id])
        np.testing.assert_array_equal(words[-1], their_words[padding_id])
        np.testing.assert_array_equal(words[padding_id], their_words[0])


def test_other_names_of_tensors(tmp_path: Path) -> None:
    """A beginning of all names, old names of norms, and more tensors than are read."""
    plain = read_pretrained(tiny_folder(tmp_path, "bert"))
    tiny_folder(tmp_path, "bert", prefix="model.encoder.")
    old = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
    tensors = {re.sub("|".join(old), lambda name: old[name[0]], name): tensor for name, tensor in load_file(tmp_path / WEIGHTS).items()}
    save_file(tensors | {"pooler.dense.weight": np.zeros((3, 3)), "embeddings.position_ids": np.arange(37)}, tmp_path / WEIGHTS)
    assert same(plain, read_pretrained(tmp_path))


@pytest.mark.parametrize("family", ["modernbert", "qwen3"])
def test_tensors_of_a_model_with_a_head(family: str, tmp_path: Path) -> None:
    """Their names have a beginning, and there are more tensors than are read."""
    plain = read_pretrained(tiny_folder(tmp_path, family))
    tiny_folder(tmp_path, family, prefix="model.")
    save_file(load_file(tmp_path / WEIGHTS) | {"lm_head.weight": np.zeros((3, 3)), "head.norm.weight": np.zeros(3)}, tmp_path / WEIGHTS)
    assert same(plain, read_pretrained(tmp_path))


SHARED = {"num_attention_heads": 12, "num_hidden_layers": 22, "hidden_size": 768, "intermediate_size": 1152, "vocab_size": 50_368}
MODERNBERT = SHARED | {"max_position_embeddings": 8192, "norm_eps": 1e-5, "hidden_activation": "gelu", "pad_token_id": 50_283}
OF_4 = {"global_attn_every_n_layers": 3, "local_attention": 128, "global_rope_theta": 160_000.0, "local_rope_theta": 10_000.0}
OF_5 = {
    "layer_types": [("sliding" if number % 3 else "full") + "_attention" for number in range(22)], "local_attention": 128,
    "rope_parameters": {
        "full_attention": {"rope_type": "default", "rope_theta": 160_000.0},
        "sliding_attention": {"rope_type": "default", "rope_theta": 10_000.0},
    },
}  # fmt: skip
QWEN3 = {
    "num_attention_heads": 16, "num_hidden_layers": 28, "num_key_value_heads": 8, "head_dim": 128, "hidden_size": 1024,
    "vocab_size": 151_669, "intermediate_size": 3072,
    "max_position_embeddings": 32_768, "rms_norm_eps": 1e-6, "hidden_act": "silu", "use_sliding_window": False,
    "sliding_window": None, "max_window_layers": 28, "bos_token_id": 151_643, "eos_token_id": 151_643,
}  # fmt: skip


@pytest.mark.parametrize(("family", "described", "num_weights", "settings"), [
    ("modernbert", MODERNBERT | OF_4, 148_979_712, {"max_distance": 64, "global_every": 3, "rotary_base": 160_000.0, "causal": False}),
    ("modernbert", MODERNBERT | OF_5, 148_979_712, {"local_rotary_base": 10_000.0, "max_distance": 64, "global_every": 3}),
    ("qwen3", QWEN3 | {"rope_theta": 1_000_000, "rope_scaling": None}, 595_710_976, {"rotary_base": 1e6, "causal": True, "norm": "rms"}),
    ("qwen3", QWEN3 | {"rope_parameters": {"rope_theta": 1_000_000, "rope_type": "default"}}, 595_710_976, {"rotary_base": 1e6}),
])  # fmt: skip
def test_sizes_that_are_published(family: str, described: dict[str, Any], num_weights: int, settings: dict[str, Any]) -> None:
    sizes = FAMILY[family].architecture(described, Path("config.json"))
    assert FAMILY[family].num_weights(sizes) == num_weights
    assert 2 * num_weights < MAX_WEIGHT_BYTES
    assert settings.items() <= FAMILY[family].model_settings(sizes).items()


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_half_precision_is_read_exactly(dtype: Any, tmp_path: Path) -> None:
    tensors = load_file(tiny_folder(tmp_path / "half", "distilbert", activation="gelu_python") / WEIGHTS)  # another name of gelu
    halves = {name: tensor.astype(dtype) for name, tensor in tensors.items()}
    save_file(halves, tmp_path / "half" / WEIGHTS)
    save_file({name: tensor.astype(np.float32) for name, tensor in halves.items()}, tiny_folder(tmp_path / "whole", "distilbert") / WEIGHTS)
    code = (
        "import sys; from pathlib import Path; from mha_cli.pretrained.folder import read_pretrained; "
        "assert 'ml_dtypes' not in sys.modules; half, whole = (read_pretrained(Path(name)).weights for name in ('half', 'whole')); "
        "print(all((half[path] == whole[path]).all() for path in whole))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment(), cwd=tmp_path, check=False)
    assert (done.stdout, done.stderr) == ("True\n", "")


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


def old_pooling(*modes: str) -> dict[str, Any]:
    names = ("cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens", "weightedmean_tokens", "lasttoken")
    return {"word_embedding_dimension": WIDTH, **{f"pooling_mode_{name}": name in modes for name in names}, "include_prompt": True}


def new_pooling(mode: str | list[str]) -> dict[str, Any]:
    return {"embedding_dimension": WIDTH, "pooling_mode": mode, "include_prompt": True}


OLD_TYPES = [f"sentence_transformers.models.{name}" for name in ("Transformer", "Pooling", "Normalize")]
NEW_TYPES = [
    *("sentence_transformers.base.modules.transformer.Transformer", "sentence_transformers.sentence_transformer.modules.pooling.Pooling"),
    "sentence_transformers.base.modules.normalize.Normalize",
]
OLD_TRANSFORMER = {"max_seq_length": 17, "do_lower_case": False}
NEW_TRANSFORMER = {
    "transformer_task": "feature-extraction",
    "modality_config": {"text": {"method": "forward", "method_output_name": "last_hidden_state"}},
    "module_output_name": "token_embeddings",
}


@pytest.mark.parametrize(("is_new", "described", "pooling"), [
    (False, old_pooling("mean_tokens"), "mean"), (False, old_pooling("max_tokens"), "max"), (False, old_pooling("cls_token"), "first"),
    (False, old_pooling("mean_sqrt_len_tokens"), "mean"), (False, old_pooling(), "mean"),
    (False, old_pooling("cls_token", "max_tokens"), "first"), (False, old_pooling("max_tokens", "lasttoken"), "max"),
    (True, new_pooling("mean_sqrt_len_tokens"), "mean"), (True, new_pooling("max"), "max"), (True, new_pooling(["cls"]), "first"),
    (True, new_pooling(["cls", "mean"]), "mean"), (True, new_pooling(["lasttoken", "max"]), "max"),
    (False, old_pooling("lasttoken"), "last"), (True, new_pooling("lasttoken"), "last"),
])  # fmt: skip
def test_the_layout_of_sentence_transformers(is_new: bool, described: dict[str, Any], pooling: str, tmp_path: Path) -> None:
    transformer = tmp_path / ("" if is_new else "0_Transformer")
    plain = read_pretrained(tiny_folder(transformer, "bert"))
    paths = zip(NEW_TYPES if is_new else OLD_TYPES, (transformer.relative_to(tmp_path).name, "1_Pooling", "2_Normalize"), strict=True)
    files = {
        "modules.json": [{"idx": number, "name": str(number), "path": path, "type": kind} for number, (kind, path) in enumerate(paths)],
        "1_Pooling/config.json": described,
        transformer / "sentence_bert_config.json": NEW_TRANSFORMER if is_new else OLD_TRANSFORMER,
        transformer / "tokenizer_config.json": {"model_max_length": 17 if is_new else 512, "tokenizer_class": "BertTokenizer"},
    }
    (tmp_path / "1_Pooling").mkdir()
    for name, content in files.items():
        (tmp_path / name).write_text(json.dumps(content))
    encoder = read_pretrained(tmp_path)
    assert same(plain, encoder)
    assert (encoder.pooling, encoder.max_pieces) == (pooling, 17)
    config = with_pretrained(config_from_dict({"model": {"pretrained": str(tmp_path)}}, "test"), encoder)
    assert (config.model.pooling, config.text.max_pieces) == (pooling, 17)


@pytest.mark.parametrize(("files", "longest"), [
    ({"tokenizer_config.json": {"model_max_length": 16}}, 16),  # without modules.json
    ({"tokenizer_config.json": {"model_max_length": int(1e30)}}, POSITIONS),
    ({"tokenizer_config.json": {"model_max_length": float("inf")}}, POSITIONS),
    ({"tokenizer_config.json": {"model_max_length": None}, "sentence_bert_config.json": {"max_seq_length": None}}, POSITIONS),
    ({"tokenizer_config.json": {"model_max_length": 16}, "sentence_bert_config.json": {"max_seq_length": 24}}, 24),
    ({"sentence_roberta_config.json": {"max_seq_length": 16}}, 16),
    ({"sentence_bert_config.json": {"max_seq_length": 2.5}}, POSITIONS),
])  # fmt: skip
def test_the_longest_text_stands_in_several_files(files: dict[str, Any], longest: int, tmp_path: Path) -> None:
    tiny_folder(tmp_path, "roberta")
    for name, content in files.items():
        (tmp_path / name).write_text(json.dumps(content))
    assert read_pretrained(tmp_path).max_pieces == longest


@pytest.mark.parametrize(("family", "settings"), [
    ("bert", {"do_lower_case": True, "strip_accents": None, "tokenizer_class": "BertTokenizer"}),
    ("bert", {"do_lower_case": False, "tokenizer_class": "PreTrainedTokenizerFast"}),
    ("xlm-roberta", {"do_lower_case": True, "tokenizer_class": "PreTrainedTokenizerFast"}),
    ("modernbert", {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 8_192, "clean_up_tokenization_spaces": True}),
    ("modernbert", {"tokenizer_class": "TokenizersBackend", "add_prefix_space": True, "do_lower_case": True}),
    ("qwen3", {
        "tokenizer_class": "Qwen2Tokenizer", "add_prefix_space": False, "add_bos_token": False, "bos_token": None, "unk_token": None,
        "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>", "errors": "replace", "model_max_length": 131_072,
    }),
])  # fmt: skip
def test_settings_of_a_tokenizer(family: str, settings: dict[str, Any], tmp_path: Path) -> None:
    (tiny_folder(tmp_path, family) / "tokenizer_config.json").write_text(json.dumps(settings))
    tokenizer = read_pretrained(tmp_path).piece_tokenizer(TextConfig())
    theirs = pytest.importorskip("transformers").AutoTokenizer.from_pretrained(tmp_path)
    text = "The Film was SUPERB"
    assert tokenizer.pieces(text) == theirs.convert_ids_to_tokens(theirs(text)["input_ids"])


@pytest.mark.parametrize(("described", "prompt"), [
    ({"prompts": {"query": "query: ", "document": "passage: "}, "default_prompt_name": "query"}, "query: "),
    ({"prompts": {"query": "Instruct: a\nQuery:", "document": ""}, "default_prompt_name": None}, None),
    ({"prompts": {"query": "query: ", "document": ""}, "default_prompt_name": "document"}, None),
    ({"__version__": {"sentence_transformers": "3.0.0"}}, None),
    (None, None),
])  # fmt: skip
def test_the_prompt_of_a_folder(described: Any, prompt: str | None, tmp_path: Path) -> None:
    tiny_folder(tmp_path, "bert")
    if described:
        (tmp_path / "config_sentence_transformers.json").write_text(json.dumps(described))
    encoder = read_pretrained(tmp_path)

    def config(**text: Any) -> Any:
        return with_pretrained(config_from_dict({"text": text, "model": {"pretrained": str(tmp_path)}}, "test"), encoder)

    assert config().text.prompt == prompt
    assert config(prompt="").text.prompt == ""
    assert config(prompt="title: ").text.prompt == "title: "
    pieces = encoder.piece_tokenizer(config().text).pieces("a film")
    assert pieces == encoder.piece_tokenizer(config(prompt="").text).pieces((prompt or "") + "a film")


@pytest.mark.parametrize("folder_before", FAMILIES)
def test_a_folder_decides_all_settings_of_the_encoder(folder_before: str, tmp_path: Path) -> None:
    """A config that was resolved for another folder keeps nothing of it."""
    for family in FAMILIES:
        other = read_pretrained(tiny_folder(tmp_path / family, family))
        config = with_pretrained(config_from_dict({"model": {"pretrained": "a", "pooling": "max"}}, "test"), other)
        before = read_pretrained(tiny_folder(tmp_path / "before", folder_before))
        assert with_pretrained(with_pretrained(config, before), other) == config
        expected = {parameter.path: parameter.shape for parameter in parameter_table(config, 2, 2)[:-2]}  # but for the last layer
        assert {path: weight.shape for path, weight in other.weights.items()} == expected


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


@pytest.mark.parametrize("name", ["none", "a\0b"])
def test_a_path_that_is_no_folder(name: str, tmp_path: Path) -> None:
    line = error_of(read_pretrained, tmp_path / name)
    assert line.endswith(" is no folder; a pretrained encoder has config.json, model.safetensors and tokenizer.json; mha downloads nothing")
