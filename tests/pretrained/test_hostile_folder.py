"""Folders that lie: each is refused in one line that says what, where and what to do, in little time and memory."""

import base64
import functools
import json
import os
import pickle
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file

from mha_cli.config.loading import config_from_dict
from mha_cli.config.parameters import parameter_table
from mha_cli.errors import MhaError
from mha_cli.pretrained.folder import read_pretrained, with_pretrained
from mha_cli.text.pieces import PieceTokenizer
from tests.cli.command import environment
from tests.errors import error_of
from tests.pretrained.tiny import FAMILIES, WIDTH, entries_of, tiny_folder

Break = Callable[[Path], object]

WEIGHTS, TOKENIZER, CONFIG, INDEX = "model.safetensors", "tokenizer.json", "config.json", "model.safetensors.index.json"
WORDS = "embeddings.word_embeddings.weight"


def all_of(*breaks: Break) -> Break:
    return lambda folder: [each(folder) for each in breaks]


def file(name: str, content: bytes) -> Break:
    return lambda folder: (folder / name).write_bytes(content)


def instead(name: str, make: Break) -> Break:
    """Something else where a file was; ``make`` is called with its path."""
    return lambda folder: ((folder / name).unlink(), make(folder / name))


def link(target: str) -> Break:
    return lambda path: path.symlink_to(target)


def sparse(size: int) -> Break:
    return lambda path: (path.touch(), os.truncate(path, size))


def header(entries: dict[str, Any], data: bytes = b"", size: int | None = None) -> Break:
    """Weights with this header; ``size`` is what it claims to be long."""
    text = json.dumps(entries).encode()
    return file(WEIGHTS, struct.pack("<Q", len(text) if size is None else size) + text + data)


def tensor(change: Callable[[np.ndarray], np.ndarray]) -> Break:
    """Weights in which the words' tensor is another."""

    def write(folder: Path) -> None:
        tensors = load_file(folder / WEIGHTS)
        save_file(tensors | {WORDS: np.ascontiguousarray(change(tensors[WORDS]))}, folder / WEIGHTS)

    return write


def sharded(weight_map: Any) -> Break:
    """An index of several files in place of the one."""
    return all_of(
        lambda folder: (folder / WEIGHTS).rename(folder / "model-1.safetensors"),
        file(INDEX, json.dumps({"weight_map": weight_map}).encode()),
    )


def entries(name: str, **changes: Any) -> Break:
    """A JSON file with other entries, given or computed from those there."""

    def write(folder: Path) -> None:
        found = entries_of(folder, name)
        changed = {key: value(found[key]) if callable(value) else value for key, value in changes.items()}
        (folder / name).write_text(json.dumps(found | changed))

    return write


config, tokenizer = functools.partial(entries, CONFIG), functools.partial(entries, TOKENIZER)


def modules(kind: Any, path: str) -> Break:
    return file("modules.json", json.dumps([{"type": kind, "path": path}]).encode())


def normalizer(kind: Any, **entries: Any) -> Break:
    return tokenizer(normalizer={"type": kind, **entries})


def prompts(name: Any, texts: Any) -> Break:
    return file("config_sentence_transformers.json", json.dumps({"prompts": texts, "default_prompt_name": name}).encode())


def lowercase(value: bool) -> Break:
    return tokenizer(normalizer=lambda part: part | {"lowercase": value})


def in_sequence(*parts: Any) -> dict[str, Any]:
    return {"type": "Sequence", "normalizers": parts}


def piece(piece_id: float) -> Break:
    return tokenizer(model=lambda model: model | {"vocab": model["vocab"] | {"film": piece_id}})


def added(*contents: str) -> Break:
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized", "special"), False)
    return tokenizer(added_tokens=[{"id": 500 + number, "content": content, **flags} for number, content in enumerate(contents)])


def template(*parts: int | str) -> Break:
    """A post-processor that puts special pieces of these ids around a text, which is ``A``."""
    known = {f"<{number}>": {"id": f"<{number}>", "ids": [number], "tokens": [f"<{number}>"]} for number in parts if number != "A"}
    single = [
        {"Sequence": {"id": "A", "type_id": 0}} if part == "A" else {"SpecialToken": {"id": f"<{part}>", "type_id": 0}} for part in parts
    ]
    return tokenizer(post_processor={"type": "TemplateProcessing", "single": single, "pair": single, "special_tokens": known})


def wordpiece(**changes: Any) -> Break:
    whole = {"unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100, "vocab": {"[UNK]": 0, "a": 1}}
    return tokenizer(model={"type": "WordPiece", **whole, **changes})


def bpe(**changes: Any) -> Break:
    return tokenizer(model={"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": [["a", "b"]], "unk_token": None, **changes})


def unigram(*pieces: str, unk_id: int | None = 0) -> Break:
    return tokenizer(model={"type": "Unigram", "unk_id": unk_id, "vocab": [["<unk>", 0.0], *([piece, -1.0] for piece in pieces)]})


def nan(name: str) -> Break:
    def write(folder: Path) -> None:
        tensors = load_file(folder / WEIGHTS)
        tensors[name][-1] = np.nan
        save_file(tensors, folder / WEIGHTS)

    return write


def inverted(part: dict[str, Any]) -> dict[str, Any]:
    """A sequence whose ``Split`` keeps what lies between the words."""
    split, in_bytes = part["pretokenizers"]
    return part | {"pretokenizers": [split | {"invert": True}, in_bytes]}


UNITS = 256  # of the smallest tree of characters


def charsmap(*units: int, texts: bytes = b"", size: int | None = None) -> dict[str, Any]:
    """A table of characters and what stands for them; its tree begins with these units."""
    tree = struct.pack(f"<{UNITS}I", *units, *[0] * (UNITS - len(units)))
    table = struct.pack("<I", len(tree) if size is None else size) + tree + texts
    return {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(table).decode()}


HOSTILE: dict[str, tuple[Break, str]] = {
    # safetensors
    "a pointer": (
        file(WEIGHTS, b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 90868376\n"),
        f"{WEIGHTS}: is a pointer of Git LFS and not the file itself; fetch the file with git lfs pull",
    ),
    "a header of 2^64 - 1 bytes": (header({}, size=(1 << 64) - 1), "claims a header of 18,446,744,073,709,551,615 bytes"),
    "no tensors": (header({}), f"has no tensor {WORDS}; config.json describes another encoder"),
    "8-bit floats": (
        header({WORDS: {"dtype": "F8_E4M3", "shape": (151, WIDTH), "data_offsets": (0, 3171)}}, bytes(3171)),
        "is of type F8_E4M3; mha reads F32, F16, BF16",
    ),
    "a row more": (tensor(lambda x: np.concatenate([x, x[:1]])), "has the shape (152, 21); config.json implies (151, 21)"),
    "NaN": (tensor(lambda x: np.where(x == x[0, 0], np.nan, x)), "holds NaN or numbers that are too large; fetch the folder anew"),
    "numbers that float16 does not hold": (tensor(lambda x: x * np.float32(1e6)), "holds NaN or numbers that are too large"),
    "3 GB of nothing": (instead(WEIGHTS, sparse(3_000_000_000)), "is damaged, or no safetensors file"),
    # several files
    "an index of a file above": (sharded({WORDS: "../model-1.safetensors"}), "weight_map names no files beside it"),
    "an index of numbers": (sharded({WORDS: 1}), "weight_map names no files beside it"),
    "an index of folders": (sharded({WORDS: ".."}), "cannot be read: Is a directory"),
    "an index with a NUL": (sharded({WORDS: "a\0b"}), "embedded null byte"),
    "an index of a file that is not there": (sharded({WORDS: "model-2.safetensors"}), "model-2.safetensors: no such file"),
    # other files in place of these
    "only a pickle": (
        lambda folder: (folder / WEIGHTS).rename(folder / "pytorch_model.bin").write_bytes(pickle.dumps(os.getcwd)),
        "has pytorch_model.bin and no model.safetensors; mha reads no pickles",
    ),
    "nothing": (lambda folder: (folder / WEIGHTS).unlink(), f"{WEIGHTS}: no such file; a pretrained encoder has"),
    "a link to itself": (instead(WEIGHTS, link(WEIGHTS)), f"{WEIGHTS}: "),
    "a device": (instead(CONFIG, link("/dev/zero")), f"{CONFIG}: is not a regular file"),
    "a folder": (instead(TOKENIZER, Path.mkdir), f"{TOKENIZER}: cannot be read: Is a directory"),
    "a pipe": (instead(WEIGHTS, os.mkfifo), f"{WEIGHTS}: is not a regular file"),
    # config.json
    "more weights than the limit": (
        all_of(config(num_hidden_layers=100, hidden_size=4_095, intermediate_size=4_096), file(TOKENIZER, b""), file(WEIGHTS, b"")),
        "config.json: describes 10,0",
    ),
    "config.json is a list": (file(CONFIG, b"[]"), "config.json: holds no JSON object"),
    "config.json of brackets": (file(CONFIG, b"[" * 1_000_000), "config.json: is not valid JSON"),
    "config.json of 5 MB": (file(CONFIG, b" " * 5_000_000), "config.json: has more than 4,000,000 bytes"),
    "another family": (
        config(model_type="gpt2"),
        "model_type is gpt2; mha reads these families: bert, distilbert, roberta, xlm-roberta, modernbert, qwen3",
    ),
    "a family in a list": (config(model_type=["bert"]), "model_type is missing"),
    "a decoder": (config(is_decoder=True), "is_decoder is True; it should be false"),
    "relative positions": (
        config(position_embedding_type="relative_key_query"),
        "position_embedding_type is 'relative_key_query'; it should be 'absolute'; fetch the file anew, or take another encoder",
    ),
    "an activation of control characters": (config(hidden_act="\x1b[2J"), "hidden_act is '\\x1b[2J'"),
    "an activation in a list": (
        config(hidden_act=["gelu"]),
        "hidden_act is missing or no such value; it should be 'gelu', 'relu' or 'silu'",
    ),
    "heads that do not divide": (config(num_attention_heads=4), "4 heads do not divide 21 units"),
    "blocks that lie": (config(num_hidden_layers=100), "has no tensor encoder.layer.2"),
    "positions that lie": (config(max_position_embeddings=38), "has the shape (37, 21); config.json implies (38, 21)"),
    "an epsilon that is no number": (config(layer_norm_eps=float("nan")), "layer_norm_eps is nan; it should be"),
    "a padding beyond the table": (config(pad_token_id=151), "pad_token_id is 151, and there are 151 pieces; fetch"),
    "another padding": (config(pad_token_id=1), "its padding has the id 0, and pad_token_id of config.json is 1; the files belong"),
    "fewer rows than pieces": (config(vocab_size=11), "to 150, and the encoder has 11 pieces; the files belong"),
    # sentence-transformers
    "a module outside": (modules("Transformer", "../a"), "path ../a is no name of a folder"),
    "a module in the folder above": (modules("Transformer", ".."), "path .. is no name of a folder"),
    "a module of code": (modules("os.Evil", ""), "has a module Evil; mha reads Transformer, Pooling and Normalize"),
    "a module without a type": (modules(None, ""), "has a module without type and path; fetch"),
    "modules that are an object": (file("modules.json", b"{}"), "modules.json: holds no JSON array"),
    "two other poolings": (
        all_of(modules("Pooling", ""), config(pooling_mode=["weightedmean", "median"])),
        "pools by weightedmean, median; mha pools by mean, cls, max or lasttoken",
    ),
    "a prompt that is not pooled": (
        all_of(modules("Pooling", ""), config(pooling_mode="mean", include_prompt=False)),
        "include_prompt is false, and mha pools the prompt as well; write true, if the encoder needs no prompt",
    ),
    "a prompt of no name": (
        prompts("query", {"passage": "a"}),
        "default_prompt_name is query, and prompts has no text of that name; write",
    ),
    "a prompt in a list": (prompts(["query"], {"query": "a"}), "default_prompt_name is ['query'], and prompts has"),
    "prompts that are text": (prompts("query", "query"), "and prompts has no text of that name"),
    "a prompt of control characters": (prompts("\x1b[2J", {"\x1b[2J": "\x1b[2J"}), "prompt \\x1b[2J: prompt has control characters; leave"),
    "half a character in a prompt": (prompts("q", {"q": "\ud83e"}), "unable to parse raw data as a unicode string; write null as its"),
    "a prompt that is long": (prompts("q", {"q": "a" * 1_001}), "prompt q: String should have at most 1000 characters; write null"),
    # files that disagree
    "capitals, says the tokenizer": (
        all_of(lowercase(False), file("tokenizer_config.json", b'{"do_lower_case": true, "tokenizer_class": "BertTokenizer"}')),
        "lowercase is False, and do_lower_case of tokenizer_config.json is True; write into both what the encoder was trained with",
    ),
    "capitals, says the tokenizer of sentences": (
        all_of(lowercase(False), file("sentence_bert_config.json", b'{"do_lower_case": true}')),
        "lowercase is False, and do_lower_case of sentence_bert_config.json is True",
    ),
    "other Chinese": (
        file("tokenizer_config.json", b'{"tokenize_chinese_chars": false}'),
        "handle_chinese_chars is True, and tokenize_chinese_chars of tokenizer_config.json is False",
    ),
    # tokenizer.json
    "tokenizer.json of 100 MB": (instead(TOKENIZER, sparse(100_000_000)), "tokenizer.json: has more than 40,000,000 bytes"),
    "tokenizer.json of many values": (file(TOKENIZER, b"[[]" + b",[]" * 2_500_000 + b"]"), "has more than 2,000,000 values"),
    "tokenizer.json of brackets": (file(TOKENIZER, b"[" * 1_000_000), "tokenizer.json: is not valid JSON"),
    "tokenizer.json is a list": (file(TOKENIZER, b"[]"), "tokenizer.json: has no model; fetch the file anew"),
    "another model": (tokenizer(model={"type": "WordLevel"}), "model is WordLevel"),
    "a regular expression": (normalizer("Replace", pattern={"Regex": "(a*)*b"}), "normalizer Replace has the regular expression (a*)*b"),
    "one among others": (tokenizer(normalizer=in_sequence({"type": "Replace", "pattern": {"Regex": "(x+)+y"}})), "has the regular exp"),
    "a replacement that grows": (normalizer("Replace", pattern={"String": "a"}, content="aa"), "puts more than one character"),
    "a replacement of nothing": (normalizer("Replace", pattern={"String": ""}, content="a"), "replaces an empty text"),
    "a pre-tokenizer that splits": (tokenizer(pre_tokenizer={"type": "Split"}), "pre_tokenizer Split splits by another pattern, or"),
    "a part without a type": (normalizer(["NFC"]), "normalizer is without a type"),
    "a part that is text": (tokenizer(normalizer="NFC"), "cannot be used"),
    "parts in parts": (tokenizer(normalizer=functools.reduce(lambda part, _: in_sequence(part), range(100), {})), "has more than 10 parts"),
    "an id beyond the table": (piece((1 << 32) - 1), "to 4294967295, and the encoder has 151 pieces"),
    "a special id beyond the table": (template(2, "A", 4_000_000_000), "has pieces with the ids 0 to 4000000000"),
    "three special pieces": (template(1, 2, "A", 3), "puts more than one special piece before a text or after it"),
    "a text twice": (template(1, "A", "A", 3), "or no text between; take another encoder"),
    "no text": (template(1, 3), "or no text between; take another encoder"),
    "an added token beyond the table": (added("duck"), "has pieces with the ids 0 to 151, and"),
    "added tokens that are long": (added("a" * 300_000), "added_tokens are too long; take another encoder"),
    "added tokens that are no objects": (tokenizer(added_tokens=["a"]), "added_tokens is no list of objects"),
    "a prefix that is long": (wordpiece(continuing_subword_prefix="#" * 1_000_000), "or has a prefix of more than 16"),
    "words without end": (wordpiece(max_input_chars_per_word=10**9), "cuts words of more than 1,000 characters"),
    "no unknown piece": (wordpiece(vocab={"a": 1}), "Missing [UNK] token"),
    "pieces at random": (bpe(dropout=0.5), "model BPE has a dropout"),
    "a prefix that is longer than pieces": (bpe(continuing_subword_prefix="###"), "model BPE has a continuing_subword_prefix"),
    "a piece of a million characters": (unigram("a" * 1_000_000), "has pieces of more than 500 characters"),
    "pieces of 5 MB": (unigram(*(f"{number:0500}" for number in range(10_000))), "or more than 4,000,000 bytes of them"),
    "characters that are no base64": (normalizer("Precompiled", precompiled_charsmap="%"), "normalizer Precompiled is damaged"),
    "a tree without bytes": (tokenizer(normalizer=charsmap(size=0)), "is damaged"),
    "a tree that points outside": (tokenizer(normalizer=charsmap(1 << 18)), "is damaged"),
    "a leaf that points outside": (tokenizer(normalizer=charsmap(1 << 8 | 1 << 10, (1 << 31) + 99, texts=b"a\0")), "is damaged"),
    "texts that are none": (tokenizer(normalizer=charsmap(texts=b"\xff\xfe\0")), "is damaged"),
    "a text for a character": (
        tokenizer(normalizer=charsmap(texts=b"a" * 1_000_000 + b"\0")),
        "puts 1,000,000 bytes in place of a character",
    ),
    "lengthened nine times": (
        tokenizer(pre_tokenizer={"type": "Sequence", "pretokenizers": [{"type": "ByteLevel"}] * 9}),
        "pre_tokenizer has ByteLevel twice; take another encoder",
    ),
}


LOCAL = ["full_attention", "sliding_attention", "sliding_attention", "full_attention", "sliding_attention"]

HOSTILE_MODERN: dict[str, tuple[str, Break, str]] = {  # families with rotary positions
    "absurdly many heads": ("modernbert", config(num_attention_heads=10**6), "num_attention_heads is 1000000; it should be less than"),
    "heads of odd width": ("modernbert", config(num_attention_heads=2), "rotary positions turn pairs of numbers, and heads are 15 wide"),
    "heads that do not divide": ("modernbert", config(num_attention_heads=4), "4 heads do not divide 30 units"),
    "odd heads": ("qwen3", config(head_dim=9), "rotary positions turn pairs of numbers, and heads are 9 wide"),
    "heads of no width": ("qwen3", config(head_dim=0), "head_dim is 0; it should be greater than"),
    "groups that do not divide": ("qwen3", config(num_key_value_heads=4), "4 heads of keys and values do not divide 6 heads of queries"),
    "other groups": ("qwen3", config(num_key_value_heads=3), "k_proj.weight has the shape (20, 21); config.json implies (30, 21)"),
    "more weights than the limit": ("qwen3", config(intermediate_size=65_536, hidden_size=4_096), "config.json: describes 1,6"),
    "scaled positions": (
        "qwen3",
        config(rope_scaling={"type": "yarn", "factor": 4.0}),
        "rope_type is 'yarn'; it should be 'default'; fetch",
    ),
    "scaled positions, anew": (
        "qwen3",
        config(rope_parameters={"rope_type": "linear", "rope_theta": 9.0}),
        "rope_type is 'linear'; it should",
    ),
    "partly rotary": (
        "qwen3",
        config(rope_parameters={"partial_rotary_factor": 0.5}),
        "rope_type is 'partial_rotary_factor'; it should be",
    ),
    "scaled far positions": (
        "modernbert",
        config(rope_parameters={"full_attention": {"rope_type": "yarn", "rope_theta": 9.0}, "sliding_attention": None}),
        "rope_type is 'yarn'; it should be 'default'",
    ),
    "positions in a list": ("modernbert", config(rope_parameters=[1]), "rope_type is missing or no such value; it should be 'default'"),
    "a base of zero": ("modernbert", config(local_rope_theta=0), "local_rope_theta is 0; it should be greater than 1"),
    "a base that is no number": ("qwen3", config(rope_theta=float("nan")), "rope_theta is nan; it should be"),
    "a window of nothing": ("modernbert", config(local_attention=1), "local_attention is 1; it should be greater than or equal to 2"),
    "a window beyond all": ("modernbert", config(local_attention=10**9), "local_attention is 1000000000; it should be less than"),
    "blocks that never look everywhere": ("modernbert", config(global_attn_every_n_layers=0), "global_attn_every_n_layers is 0; it should"),
    "other kinds of blocks": (
        "modernbert",
        config(layer_types=["chunked"] * 5),
        "layer_types is 'chunked'; it should be 'full_attention' or",
    ),
    "irregular blocks": ("modernbert", config(layer_types=[*LOCAL[:4], "full_attention"]), "layer_types: mha needs full_attention in the"),
    "a local block first": ("modernbert", config(layer_types=LOCAL[1:] + LOCAL[:1]), "in the first block and then in every n-th; fetch"),
    "kinds of more blocks": ("modernbert", config(layer_types=[*LOCAL, *LOCAL[1:2]]), "layer_types: mha needs full_attention"),
    "a window of earlier pieces": ("qwen3", config(use_sliding_window=True), "use_sliding_window is True; it should be false"),
    "local blocks of Qwen": (
        "qwen3",
        config(layer_types=["full_attention", "sliding_attention"]),
        "mha needs full_attention in all blocks",
    ),
    "a bias that is not there": ("modernbert", config(attention_bias=True), "has no tensor layers.0.attn.Wqkv.bias; config.json describes"),
    "another bias that is not there": ("qwen3", config(attention_bias=True), "has no tensor layers.0.self_attn.q_proj.bias"),
    "an activation of another family": ("modernbert", config(hidden_activation="swish"), "hidden_activation is 'swish'; it should be"),
    "a block more": ("qwen3", config(num_hidden_layers=3), "has no tensor layers.2.self_attn.q_proj.weight"),
    "NaN in a shared tensor": (
        "modernbert",
        nan("layers.1.mlp.Wi.weight"),
        "layers.1.mlp.Wi.weight holds NaN or numbers that are too large",
    ),
    "NaN in a norm": ("qwen3", nan("layers.1.self_attn.k_norm.weight"), "k_norm.weight holds NaN or numbers that are too large"),
    "another padding": ("modernbert", config(pad_token_id=1), "its padding has the id 335, and pad_token_id of config.json is 1"),
    "another expression": (
        "qwen3",
        tokenizer(pre_tokenizer={"type": "Split", "pattern": {"Regex": "(a*)*b"}, "behavior": "Isolated", "invert": False}),
        "pre_tokenizer Split splits by another pattern, or in another way, than Qwen's; take another encoder",
    ),
    "all but the words": ("qwen3", tokenizer(pre_tokenizer=inverted), "splits by another pattern, or in another way, than Qwen's"),
    "no pieces": (
        "qwen3",
        tokenizer(model={"type": "BPE", "vocab": {}, "merges": []}, added_tokens=[], post_processor=None),
        "has no pieces, and",
    ),
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as it should be. Not to be written to."""
    return tiny_folder(tmp_path_factory.mktemp("whole"), "bert")


@pytest.mark.parametrize(("spoil", "message"), HOSTILE.values(), ids=HOSTILE.keys())
@pytest.mark.filterwarnings("error")
def test_is_refused_in_one_line(spoil: Break, message: str, whole: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert_refused(shutil.copytree(whole, tmp_path / "encoder"), spoil, message)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(("family", "spoil", "message"), HOSTILE_MODERN.values(), ids=HOSTILE_MODERN.keys())
@pytest.mark.filterwarnings("error")
def test_a_modern_one_is_refused(family: str, spoil: Break, message: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert_refused(tiny_folder(tmp_path / "encoder", family), spoil, message)
    assert capfd.readouterr().err == ""


def assert_refused(folder: Path, spoil: Break, message: str) -> None:
    spoil(folder)
    line = error_of(read_pretrained, folder)
    assert message in line
    assert "; " in line
    assert len(line) < 600


def test_a_text_that_would_not_fit_into_memory_is_refused_before_it_is_cut(whole: Path) -> None:
    pieces = PieceTokenizer((whole / TOKENIZER).read_bytes(), 400, 13, "head", TOKENIZER)
    for text, length in (("a film " * 300_000, "2,100,000"), ("\N{HANGUL SYLLABLE GAG}" * 250_000, "250,000")):  # nine bytes each
        line = error_of(pieces.ids, text)
        assert line.startswith(f"tokenizer.json: a text of {length} characters would take about 2.")
        assert line.endswith(" GB of memory; mha takes 2 GB at most; give shorter texts")
        assert line == error_of(pieces.words_of_pieces, text.split(" "))


def paths_in(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where the values inside a value are, except most of long lists."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(found for key, each in list(inner)[:12] for found in paths_in(each, (*path, key)))]


def with_value(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    copied = dict(value) if isinstance(value, dict) else list(value)
    copied[path[0]] = with_value(value[path[0]], path[1:], new)
    return copied


ANYTHING = st.one_of(
    st.none(), st.booleans(), st.sampled_from([0, 1, -1, 1 << 31, 1 << 64, 1e308, -1e308, 0.5]), st.text(max_size=3),
    st.just([]), st.just({}), st.just([["a", -1.0]]), st.just({"a": 0}), st.just({"type": "Sequence", "normalizers": None}),
)  # fmt: skip


@pytest.mark.parametrize("family", ["bert", "roberta", "xlm-roberta", "modernbert", "qwen3"])
def test_any_value_anywhere_in_a_tokenizer_is_used_or_refused(family: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    whole = entries_of(tiny_folder(tmp_path, family))
    if family == "xlm-roberta":
        whole["normalizer"]["normalizers"].append(charsmap())
    places = paths_in(whole)

    @given(st.lists(st.tuples(st.sampled_from(places), ANYTHING), min_size=1, max_size=2))
    @settings(max_examples=200)
    def check(changes: list[tuple[Any, Any]]) -> None:
        changed = whole
        try:
            for place, value in changes:
                changed = with_value(changed, place, value)
        except (KeyError, IndexError, TypeError):  # the place is gone
            return
        try:
            ids = PieceTokenizer(json.dumps(changed).encode(), 400, 13, "head", TOKENIZER).ids("The film was superb, 這部電影 \0 é!")
        except MhaError as error:
            assert str(error).startswith("tokenizer.json: ")
        else:
            assert 0 <= ids.min(initial=0) <= ids.max(initial=0) < 400
            assert len(ids) <= 13

    check()
    assert "panicked" not in capfd.readouterr().err


@pytest.mark.parametrize("family", FAMILIES)
def test_any_value_anywhere_in_a_config_is_used_or_refused(family: str, tmp_path: Path) -> None:
    whole = entries_of(tiny_folder(tmp_path, family), CONFIG)
    names = [*whole, "layer_types", "rope_parameters", "rope_scaling", "is_causal", "head_dim", "num_key_value_heads", "local_rope_theta"]
    values = ANYTHING | st.sampled_from([2, 3, 2.5, 1e9, {"rope_theta": 9.0}, {"full_attention": {"rope_theta": None}}, ["full_attention"]])

    @given(st.dictionaries(st.sampled_from(names), values, min_size=1, max_size=2))
    @settings(max_examples=100)
    def check(changes: dict[str, Any]) -> None:
        (tmp_path / CONFIG).write_text(json.dumps(whole | changes))
        try:
            encoder = read_pretrained(tmp_path)
        except MhaError as error:
            assert str(error).isprintable()
        else:
            config = with_pretrained(config_from_dict({"model": {"pretrained": "a"}}, "test"), encoder)
            shapes = {parameter.path: parameter.shape for parameter in parameter_table(config, 2, 2)[:-2]}
            assert {path: weight.shape for path, weight in encoder.weights.items()} == shapes

    check()


@pytest.mark.parametrize("name", [CONFIG, WEIGHTS])
def test_any_damage_is_refused_or_harmless(name: str, tmp_path: Path) -> None:
    folder = tiny_folder(tmp_path, "bert")
    whole = (folder / name).read_bytes()
    bytes_there = st.tuples(st.integers(0, min(len(whole), 5_000) - 1), st.integers(0, 255))

    @given(st.lists(bytes_there, max_size=5), st.none() | st.integers(0, len(whole)))
    @settings(max_examples=100)
    def check(changes: list[tuple[int, int]], end: int | None) -> None:
        data = bytearray(whole)
        for place, byte in changes:
            data[place] = byte
        (folder / name).write_bytes(data[:end])
        try:
            encoder = read_pretrained(folder)
        except MhaError as error:
            assert str(error).isprintable()
        else:
            assert all(np.isfinite(weight).all() for weight in encoder.weights.values())

    check()


MEASURED = """
import re, sys
from pathlib import Path
from mha_cli.text.pieces import PieceTokenizer
PieceTokenizer(Path(sys.argv[1]).read_bytes(), 3_000_000, 512, "head", "tokenizer.json").ids("the film was superb " * 1_000)
print(int(re.search(r"VmHWM:\\s*(\\d+) kB", Path("/proc/self/status").read_text())[1]) // 1024)
"""
"""Builds a tokenizer and prints the megabytes that it took at most."""


@pytest.mark.exhaustive
@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
def test_the_largest_tree_of_pieces_takes_a_bounded_memory(tmp_path: Path) -> None:
    folder = tiny_folder(tmp_path, "bert")
    unigram(*(f"{number * 7919 % 10**9:0499}"[::-1] for number in range(8_000)))(folder)
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, folder / TOKENIZER], capture_output=True, text=True, env=environment(), check=True
    )
    assert done.stderr == ""
    assert int(done.stdout) < 1_500
