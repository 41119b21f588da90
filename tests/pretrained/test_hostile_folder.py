"""Folders that lie: each is refused in one line that says what, where and what to do, in little time and memory."""

from __future__ import annotations

import base64
import json
import os
import pickle
import re
import struct
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file

from mha_cli.errors import MhaError
from mha_cli.pretrained.folder import read_pretrained
from mha_cli.text.pieces import PieceTokenizer
from tests.cli.command import environment, run_here
from tests.errors import error_of
from tests.pretrained.tiny import WIDTH, entries_of, tiny_folder

if TYPE_CHECKING:
    from collections.abc import Callable

    Break = Callable[[Path], object]

WEIGHTS, TOKENIZER, CONFIG = "model.safetensors", "tokenizer.json", "config.json"
WORDS = "embeddings.word_embeddings.weight"
FIRST = {"a": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}}


def header(entries: Any, data: bytes = bytes(16), size: int | None = None) -> Break:
    """Weights with this header, as JSON or as bytes; ``size`` is what it claims to be long."""
    text = entries if isinstance(entries, bytes) else json.dumps(entries).encode()
    return lambda folder: (folder / WEIGHTS).write_bytes(struct.pack("<Q", len(text) if size is None else size) + text + data)


def tensor(change: Callable[[np.ndarray], np.ndarray | None], name: str = WORDS) -> Break:
    """Weights in which one tensor is another, or none."""

    def write(folder: Path) -> None:
        tensors = load_file(folder / WEIGHTS)
        changed = change(tensors.pop(name))
        save_file(tensors if changed is None else tensors | {name: np.ascontiguousarray(changed)}, folder / WEIGHTS)

    return write


def entries(name: str, **changes: Any) -> Break:
    """A JSON file with other entries; those at the top, or with ``__`` those one level below."""

    def write(folder: Path) -> None:
        found = entries_of(folder, name)
        for key, value in changes.items():
            *above, last = key.split("__")
            place = found[above[0]] if above else found
            place[last] = value(place[last]) if callable(value) else value
        (folder / name).write_text(json.dumps(found))

    return write


def config(**changes: Any) -> Break:
    return entries(CONFIG, **changes)


def tokenizer(**changes: Any) -> Break:
    return entries(TOKENIZER, **changes)


def file(name: str, content: bytes) -> Break:
    return lambda folder: (folder / name).write_bytes(content)


def instead(name: str, make: Break) -> Break:
    """Something else where a file was; ``make`` is called with its path."""
    return lambda folder: ((folder / name).unlink(), make(folder / name))


def sharded(weight_map: Any) -> Break:
    """An index of several files in place of the one."""

    def write(folder: Path) -> None:
        (folder / WEIGHTS).rename(folder / "model-1.safetensors")
        (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))

    return write


def modules(*described: Any) -> Break:
    return lambda folder: (folder / "modules.json").write_text(json.dumps(described))


def sparse(size: int) -> Break:
    return lambda path: os.truncate(path, size) if path.write_bytes(b"") == 0 else None


def charsmap(trie: bytes, texts: bytes = b"", size: int | None = None) -> Break:
    table = struct.pack("<I", len(trie) if size is None else size) + trie + texts
    return tokenizer(normalizer={"type": "Precompiled", "precompiled_charsmap": base64.b64encode(table).decode()})


def model(kind: str, **entries: Any) -> Break:
    return tokenizer(model={"type": kind, **entries})


def replaced(pattern: Any, content: str = " ") -> Break:
    return tokenizer(normalizer={"type": "Replace", "pattern": pattern, "content": content})


def added(*contents: str) -> Break:
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized", "special"), False)
    return tokenizer(added_tokens=[{"id": 500 + number, "content": content, **flags} for number, content in enumerate(contents)])


def template(*ids: int) -> Break:
    """A post-processor that puts these ids before a text, and the last of them after it."""
    known = {f"<{number}>": {"id": f"<{number}>", "ids": [number], "tokens": [f"<{number}>"]} for number in ids}
    special = [{"SpecialToken": {"id": name, "type_id": 0}} for name in known]
    single = [*special[:-1], {"Sequence": {"id": "A", "type_id": 0}}, *special[-1:]]
    return tokenizer(post_processor={"type": "TemplateProcessing", "single": single, "pair": single, "special_tokens": known})


def sequences(depth: int) -> dict[str, Any]:
    nested: dict[str, Any] = {"type": "Lowercase"}
    for _ in range(depth):
        nested = {"type": "Sequence", "normalizers": [nested]}
    return nested


def twice(name: str) -> Break:
    """A tokenizer whose normalizer stands there twice: one parser may take the first, another the last."""
    evil = '{"normalizer": {"type": "Replace", "pattern": {"Regex": "(a*)*b"}, "content": "c"}, '
    return lambda folder: (folder / name).write_text(evil + (folder / name).read_text()[1:])


WORDPIECE = {"unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100, "vocab": {"[UNK]": 0, "a": 1}}
BPE = {"vocab": {"a": 0, "b": 1, "ab": 2}, "merges": [["a", "b"]], "unk_token": None}
UNIGRAM = {"unk_id": 0, "vocab": [["<unk>", 0.0], ["a", -1.0]]}
UNITS = 256
EMPTY_TREE = bytes(4 * UNITS)

HOSTILE: dict[str, tuple[str, Break]] = {
    # safetensors
    "empty": ("is damaged, or no safetensors file (header too small); fetch the folder anew", file(WEIGHTS, b"")),
    "seven bytes": ("header too small", file(WEIGHTS, bytes(7))),
    "a header of 2^60 bytes": ("claims a header of 1,152,921,504,606,846,976 bytes", header(FIRST, size=1 << 60)),
    "a header of 2^64 - 1 bytes": ("claims a header of 18,446,744,073,709,551,615 bytes", header(FIRST, size=(1 << 64) - 1)),
    "a header beyond the file": ("invalid header length", header(FIRST, size=400)),
    "a header that ends early": ("invalid JSON in header", header(FIRST, size=20)),
    "a header of 5 MB": ("claims a header of 5,000,0", header(b" " * 5_000_000 + b"{}")),
    "a header of brackets": ("recursion limit exceeded", header(b'{"a":' + b"[" * 100_000)),
    "a header that is no text": ("invalid UTF-8", header(b"\xff\xfe")),
    "a header that is a list": ("invalid type: sequence", header([])),
    "no tensors": (f"has no tensor {WORDS}; config.json describes another encoder", header({}, b"")),
    "overlapping": ("invalid offset", header(FIRST | {"b": {"dtype": "F32", "shape": [2], "data_offsets": [8, 16]}})),
    "a hole": ("invalid offset", header({"a": {"dtype": "F32", "shape": [2], "data_offsets": [8, 16]}})),
    "beyond the end": ("file not fully covered", header({"a": {"dtype": "F32", "shape": [400], "data_offsets": [0, 1600]}})),
    "bytes after the last": ("file not fully covered", header(FIRST, bytes(20))),
    "backwards": ("invalid offset", header({"a": {"dtype": "F32", "shape": [4], "data_offsets": [16, 0]}})),
    "a negative size": ("expected usize", header({"a": {"dtype": "F32", "shape": [-4], "data_offsets": [0, 16]}})),
    "sizes that overflow": ("overflow", header({"a": {"dtype": "F32", "shape": [1 << 62, 1 << 62], "data_offsets": [0, 16]}})),
    "a shape that is not its bytes'": ("invalid shape", header({"a": {"dtype": "F32", "shape": [5], "data_offsets": [0, 16]}})),
    "an unknown type": ("unknown variant", header({"a": {"dtype": "F99", "shape": [4], "data_offsets": [0, 16]}})),
    "a name twice": ("has no tensor", header(f"{json.dumps(FIRST)[:-1]}, {json.dumps(FIRST)[1:]}".encode())),
    "a tensor less": ("has no tensor", tensor(lambda _: None)),
    "a row more": ("has the shape (152, 21); config.json implies (151, 21)", tensor(lambda x: np.concatenate([x, x[:1]]))),
    "transposed": ("has the shape (21, 151)", tensor(lambda x: x.T)),
    "an axis more": ("has the shape (151, 21, 1)", tensor(lambda x: x[:, :, None])),
    "one number": ("has the shape (1,)", tensor(lambda x: x[0, :1])),
    "no numbers": ("has the shape (0, 21)", tensor(lambda x: x[:0])),
    "float64": ("is of type F64; mha reads F32, F16, BF16", tensor(lambda x: x.astype(np.float64))),
    "int8": ("is of type I8", tensor(lambda x: x.astype(np.int8))),
    "8-bit floats": (
        "is of type F8_E4M3",
        header({WORDS: {"dtype": "F8_E4M3", "shape": [151, WIDTH], "data_offsets": [0, 3171]}}, bytes(3171)),
    ),
    "NaN": ("holds NaN or numbers that are too large; fetch the folder anew", tensor(lambda x: np.where(x == x[0, 0], np.nan, x))),
    "infinity": ("holds NaN or numbers that are too large", tensor(lambda x: np.where(x == x[0, 0], -np.inf, x))),
    "float16 infinity": ("holds NaN or numbers that are too large", tensor(lambda x: np.full(x.shape, np.inf, np.float16))),
    "numbers that float16 does not hold": (
        "holds NaN or numbers that are too large",
        tensor(lambda x: x * np.float32(1e6), "embeddings.position_embeddings.weight"),
    ),
    "3 GB of nothing": ("is damaged, or no safetensors file", instead(WEIGHTS, sparse(3_000_000_000))),
    # several files
    "an index that points outside": ("weight_map names no files beside it", sharded({WORDS: "../model-1.safetensors"})),
    "an index with an absolute path": ("weight_map names no files beside it", sharded({WORDS: "/etc/passwd"})),
    "an index of nothing": ("weight_map names no files beside it", sharded({})),
    "an index of numbers": ("weight_map names no files beside it", sharded({WORDS: 1})),
    "an index that is a list": ("weight_map names no files beside it", sharded([WORDS])),
    "an index of folders": ("is not a file", sharded({WORDS: ".."})),
    "an index with an empty name": ("is not a file", sharded({WORDS: ""})),
    "an index with a NUL": ("no such file", sharded({WORDS: "a\0b"})),
    "an index with half a character": ("no such file", sharded({WORDS: "\ud800"})),
    "an index with a long name": ("File name too long", sharded({WORDS: "a" * 300})),
    "an index of a file that is not there": ("model-2.safetensors: no such file", sharded({WORDS: "model-2.safetensors"})),
    "an index that is no JSON": (
        "is not valid JSON",
        lambda folder: (sharded({})(folder), file("model.safetensors.index.json", b"{")(folder)),
    ),
    # other files in place of these
    "only a pickle": (
        "has pytorch_model.bin and no model.safetensors; mha reads no pickles",
        lambda folder: (folder / WEIGHTS).rename(folder / "pytorch_model.bin").write_bytes(pickle.dumps(os.getcwd)),
    ),
    "no weights": ("model.safetensors: no such file; a pretrained encoder has", lambda folder: (folder / WEIGHTS).unlink()),
    "no tokenizer": ("tokenizer.json: no such file", lambda folder: (folder / TOKENIZER).unlink()),
    "no config": ("config.json: no such file", lambda folder: (folder / CONFIG).unlink()),
    **{f"a FIFO for {name}": (f"{name}: is not a file", instead(name, os.mkfifo)) for name in (WEIGHTS, TOKENIZER, CONFIG)},
    **{f"a folder for {name}": (f"{name}: is not a file", instead(name, Path.mkdir)) for name in (WEIGHTS, TOKENIZER, CONFIG)},
    **{
        f"a device for {name}": (f"{name}: is not a file", instead(name, lambda path: path.symlink_to("/dev/zero")))
        for name in (WEIGHTS, CONFIG)
    },
    **{
        f"a loop for {name}": (f"{name}: ", instead(name, lambda path: path.symlink_to(path.name))) for name in (WEIGHTS, TOKENIZER, CONFIG)
    },
    "a dangling link": ("model.safetensors: no such file", instead(WEIGHTS, lambda path: path.symlink_to("gone"))),
    "a FIFO for modules.json": ("modules.json: is not a file", lambda folder: os.mkfifo(folder / "modules.json")),
    # config.json
    "config.json is no JSON": ("config.json: is not valid JSON", file(CONFIG, b"{")),
    "config.json is no text": ("config.json: is not valid JSON", file(CONFIG, b"\xff\xfe\xfd")),
    "config.json is a list": ("config.json: holds no JSON object", file(CONFIG, b"[]")),
    "config.json of brackets": ("config.json: is not valid JSON", file(CONFIG, b"[" * 1_000_000)),
    "config.json of 5 MB": ("config.json: has more than 4,000,000 bytes", file(CONFIG, b" " * 5_000_000)),
    "another family": ("model_type is gpt2; mha reads these families: bert, distilbert, roberta, xlm-roberta", config(model_type="gpt2")),
    "no family": ("model_type is missing", config(model_type=None)),
    "a family in a list": ("model_type is missing", config(model_type=["bert"])),
    "a family of control characters": ("model_type is", config(model_type="\x1b[31m\n" * 1_000)),
    "a decoder": ("is_decoder is True; it should be false", config(is_decoder=True)),
    "relative positions": (
        "position_embedding_type is 'relative_key_query'; it should be 'absolute'; fetch the file anew, or take another encoder",
        config(position_embedding_type="relative_key_query"),
    ),
    "another activation": ("hidden_act is 'gelu_new'; it should be 'gelu' or 'relu'", config(hidden_act="gelu_new")),
    "an activation of control characters": ("hidden_act is '\\x1b[2J'", config(hidden_act="\x1b[2J")),
    "an activation in a list": ("hidden_act is missing or no such value; it should be 'gelu' or 'relu'", config(hidden_act=["gelu"])),
    "no width": (
        "hidden_size is missing or no such value; field required",
        lambda folder: (folder / CONFIG).write_text('{"model_type": "bert", "vocab_size": 151}'),
    ),
    "heads that do not divide": ("4 heads do not divide 21 units", config(num_attention_heads=4)),
    "heads that lie": (
        "has the shape (21, 21); config.json implies (24, 24)",
        lambda folder: (
            config(hidden_size=24)(folder),
            tensor(lambda x: np.zeros((151, 24), np.float32))(folder),
            tensor(lambda x: np.zeros((37, 24), np.float32), "embeddings.position_embeddings.weight")(folder),
            tensor(lambda x: np.zeros((2, 24), np.float32), "embeddings.token_type_embeddings.weight")(folder),
            *(tensor(lambda x: np.zeros(24, np.float32), f"embeddings.LayerNorm.{name}")(folder) for name in ("weight", "bias")),
        ),
    ),
    "blocks that lie": ("has no tensor encoder.layer.2", config(num_hidden_layers=100)),
    "positions that lie": ("config.json implies (38, 21)", config(max_position_embeddings=38)),
    "a first position": (
        "config.json implies (151, 22)",
        config(first_position=-9, _first_position=-9, hidden_size=22, num_attention_heads=2),
    ),
    "a gigantic width": ("hidden_size is 1208925819614629174706176; it should be less than", config(hidden_size=1 << 80)),
    "a negative width": ("hidden_size is -21; it should be greater than", config(hidden_size=-21)),
    "no epsilon": ("layer_norm_eps is 0; it should be greater than 0", config(layer_norm_eps=0)),
    "an epsilon that is no number": ("layer_norm_eps is nan; it should be", config(layer_norm_eps=float("nan"))),
    "another padding": ("its padding has the id 0, and pad_token_id of config.json is 1; the files belong", config(pad_token_id=1)),
    "too many pieces": ("vocab_size is 1000000000; it should be less than", config(vocab_size=10**9)),
    "fewer rows than pieces": ("to 150, and the encoder has 11 pieces; the files belong", config(vocab_size=11)),
    # sentence-transformers
    "a module outside": ("path ../a is no name of a folder", modules({"type": "Transformer", "path": "../a"})),
    "a module in the folder above": ("path .. is no name of a folder", modules({"type": "Transformer", "path": ".."})),
    "a module of code": ("has a module Evil; mha reads Transformer, Pooling and Normalize", modules({"type": "os.Evil", "path": ""})),
    "a module that is no object": ("has a module without type and path; fetch", modules("Transformer")),
    "modules that are an object": ("modules.json: holds no JSON array", file("modules.json", b"{}")),
    "a module that is not there": ("1_Pooling/config.json: no such file", modules({"type": "Pooling", "path": "1_Pooling"})),
    "a module with a NUL": ("config.json: no such file", modules({"type": "Transformer", "path": "a\0b"})),
    "two poolings": (
        "pools by mean_tokens and max_tokens; mha pools by one of",
        lambda folder: (
            modules({"type": "Pooling", "path": ""})(folder),
            config(pooling_mode_mean_tokens=True, pooling_mode_max_tokens=True)(folder),
        ),
    ),
    "no pooling": ("pools by nothing", modules({"type": "Pooling", "path": ""})),
    # tokenizer.json
    "tokenizer.json of 100 MB": ("tokenizer.json: has more than 40,000,000 bytes", instead(TOKENIZER, sparse(100_000_000))),
    "tokenizer.json of many values": ("has more than 2,000,000 values", file(TOKENIZER, b"[[]" + b",[]" * 2_500_000 + b"]")),
    "tokenizer.json of brackets": ("tokenizer.json: is not valid JSON", file(TOKENIZER, b"[" * 1_000_000)),
    "tokenizer.json is a list": ("tokenizer.json: has no model", file(TOKENIZER, b"[]")),
    "tokenizer.json is empty": ("tokenizer.json: is not valid JSON", file(TOKENIZER, b"")),
    "tokenizer.json of nothing": ("tokenizer.json: has no model", file(TOKENIZER, b"{}")),
    "a number that is infinite": ("tokenizer.json: ", tokenizer(model__vocab=lambda v: v | {"a": float("inf")})),
    "a regular expression": ("normalizer Replace has the regular expression (a*)*b", replaced({"Regex": "(a*)*b"})),
    "a regular expression among others": (
        "has the regular expression",
        tokenizer(normalizer={"type": "Sequence", "normalizers": [{"type": "Replace", "pattern": {"Regex": "(x+x+)+y"}, "content": ""}]}),
    ),
    "a replacement that grows": ("puts more than one character", replaced({"String": "a"}, "aa")),
    "a replacement of nothing": ("replaces an empty text", replaced({"String": ""}, "a")),
    "a pre-tokenizer that splits": (
        "pre_tokenizer is Split; mha reads",
        tokenizer(pre_tokenizer={"type": "Split", "pattern": {"Regex": "a"}, "behavior": "Removed", "invert": False}),
    ),
    "an unknown part": ("normalizer is Evil", tokenizer(normalizer={"type": "Evil"})),
    "a part without a type": ("normalizer is without a type", tokenizer(normalizer={"lowercase": True})),
    "a part that is a list of types": ("normalizer is without a type", tokenizer(normalizer={"type": ["NFC"]})),
    "a part that is text": ("cannot be used", tokenizer(normalizer="NFC")),
    "no model": ("has no model; fetch the file anew", tokenizer(model=None)),
    "another model": ("model is WordLevel", model("WordLevel", vocab={"a": 0}, unk_token="a")),
    "parts in parts": ("normalizer has more than 10 parts", tokenizer(normalizer=sequences(100))),
    "many parts": (
        "normalizer has more than 10 parts",
        tokenizer(normalizer={"type": "Sequence", "normalizers": [{"type": "NFC"}] * 100_000}),
    ),
    "an id beyond the table": (
        "to 4294967295, and the encoder has 151 pieces",
        tokenizer(model__vocab=lambda v: v | {"film": (1 << 32) - 1}),
    ),
    "a negative id": ("cannot be used: invalid value: integer `-1`", tokenizer(model__vocab=lambda v: v | {"film": -1})),
    "a gigantic id": ("cannot be used", tokenizer(model__vocab=lambda v: v | {"film": 1 << 80})),
    "a special id beyond the table": ("has pieces with the ids 0 to 4000000000", template(2, 4_000_000_000)),
    "three special pieces": ("does not put one special piece before a text", template(1, 2, 3)),
    "special pieces that are both before": (
        "does not put one special piece before a text",
        lambda folder: (template(2, 3)(folder), tokenizer(post_processor__single=lambda single: [single[0], single[2], single[1]])(folder)),
    ),
    "no special pieces": ("does not put one special piece before a text", tokenizer(post_processor=None)),
    "an added token beyond the table": ("has pieces with the ids 0 to 151, and", added("duck")),
    "added tokens that are long": ("added_tokens are too long; take another encoder", added("a" * 300_000)),
    "added tokens that are no objects": ("added_tokens is no list of objects", tokenizer(added_tokens=["a"])),
    "a prefix that is long": (
        "or has a prefix of more than 16",
        model("WordPiece", **WORDPIECE | {"continuing_subword_prefix": "#" * 1_000_000}),
    ),
    "words without end": (
        "cuts words of more than 1,000 characters",
        model("WordPiece", **WORDPIECE | {"max_input_chars_per_word": 10**9}),
    ),
    "no unknown piece": ("Missing [UNK] token", model("WordPiece", **WORDPIECE | {"vocab": {"a": 1}})),
    "pieces at random": ("model BPE has a dropout", model("BPE", **BPE, dropout=0.5)),
    "a prefix that is longer than pieces": (
        "model BPE has a continuing_subword_prefix",
        model("BPE", **BPE, continuing_subword_prefix="###"),
    ),
    "merges of unknown pieces": ("Token `x` out of vocabulary", model("BPE", **BPE | {"merges": [["a", "x"]]})),
    "a piece of a million characters": (
        "has pieces of more than 500 characters",
        model("Unigram", **UNIGRAM | {"vocab": [["<unk>", 0.0], ["a" * 1_000_000, -1.0]]}),
    ),
    "pieces of 5 MB": (
        "or more than 4,000,000 bytes of them",
        model("Unigram", **UNIGRAM | {"vocab": [[f"{number:0500}", -1.0] for number in range(10_000)]}),
    ),
    "Unigram without an unknown piece": ("`unk_id` is missing", model("Unigram", **UNIGRAM | {"unk_id": None})),
    "an unknown piece beyond the table": ("cannot be used", model("Unigram", **UNIGRAM | {"unk_id": 99})),
    "characters that are no base64": (
        "normalizer Precompiled is damaged",
        tokenizer(normalizer={"type": "Precompiled", "precompiled_charsmap": "%"}),
    ),
    "no characters": ("is damaged", tokenizer(normalizer={"type": "Precompiled"})),
    "no tree": ("is damaged", charsmap(b"")),
    "a tree whose size lies": ("is damaged", charsmap(EMPTY_TREE, size=1 << 31)),
    "a tree of seven bytes": ("is damaged", charsmap(bytes(7))),
    "a tree that points outside": ("is damaged", charsmap(struct.pack(f"<{UNITS}I", 1 << 18, *[0] * (UNITS - 1)))),
    "a leaf that points outside": (
        "is damaged",
        charsmap(struct.pack(f"<{UNITS}I", 1 << 8, *[0] * (UNITS - 1)).replace(bytes(4), struct.pack("<I", (1 << 31) + 99)), b"a\0"),
    ),
    "texts that are none": ("is damaged", charsmap(EMPTY_TREE, b"\xff\xfe\0")),
    "a text of a megabyte for a character": (
        "puts 1,000,000 bytes in place of a character",
        charsmap(EMPTY_TREE, b"a" * 1_000_000 + b"\0"),
    ),
    "characters twice": (
        "normalizer has Precompiled twice",
        tokenizer(
            normalizer={
                "type": "Sequence",
                "normalizers": [
                    {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(struct.pack("<I", 1024) + EMPTY_TREE).decode()}
                ]
                * 2,
            }
        ),
    ),
}


@pytest.mark.parametrize(("message", "spoil"), HOSTILE.values(), ids=HOSTILE.keys())
@pytest.mark.filterwarnings("error")
def test_is_refused_in_one_line(message: str, spoil: Break, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = tiny_folder(tmp_path / "encoder", "bert")
    spoil(folder)
    line = error_of(read_pretrained, folder)
    assert re.search(".*".join(map(re.escape, message.split("…"))), line), line
    assert "; " in line
    assert len(line) < 600
    assert capfd.readouterr().err == ""


def test_the_command_says_it_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tiny_folder(tmp_path / "encoder", "bert")
    replaced({"Regex": "(a*)*b"})(folder)
    (tmp_path / "mine.yaml").write_text("data: {source: sample}\nmodel: {pretrained: encoder}\n")
    done = run_here("train", "--config", "mine.yaml", cwd=tmp_path, monkeypatch=monkeypatch)
    assert done.code == 2
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert done.stderr.endswith("has the regular expression (a*)*b; take another encoder\n")


CHARSMAP = base64.b64encode(struct.pack("<I", 4 * UNITS) + EMPTY_TREE).decode()


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


@pytest.mark.parametrize("family", ["bert", "roberta", "xlm-roberta"])
def test_any_value_anywhere_in_a_tokenizer_is_used_or_refused(family: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    whole = entries_of(tiny_folder(tmp_path, family))
    if family == "xlm-roberta":
        whole["normalizer"]["normalizers"].append({"type": "Precompiled", "precompiled_charsmap": CHARSMAP})
    places = paths_in(whole)

    @given(st.lists(st.tuples(st.sampled_from(places), ANYTHING), min_size=1, max_size=2))
    @settings(max_examples=300)
    def check(changes: list[tuple[Any, Any]]) -> None:
        changed = whole
        try:
            for place, value in changes:
                changed = with_value(changed, place, value)
        except (KeyError, IndexError, TypeError):  # the place is gone
            return
        try:
            tokenizer = PieceTokenizer(json.dumps(changed).encode(), 400, 13, "head", "tokenizer.json")
            ids = tokenizer.ids("The film was superb, 這部電影 \0 é!")
        except MhaError as error:
            assert str(error).startswith("tokenizer.json: ")
        else:
            assert ids.min() >= 0
            assert ids.max() < 400
            assert len(ids) <= 13

    check()
    assert "panicked" not in capfd.readouterr().err


@pytest.mark.parametrize("name", [CONFIG, WEIGHTS, TOKENIZER])
def test_any_damage_is_refused_or_harmless(name: str, tmp_path: Path) -> None:
    folder = tiny_folder(tmp_path, "bert")
    whole = (folder / name).read_bytes()

    @given(
        st.lists(st.tuples(st.integers(0, min(len(whole), 5_000) - 1), st.integers(0, 255)), max_size=5),
        st.none() | st.integers(0, len(whole)),
    )
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
import re, resource, sys
from pathlib import Path
from mha_cli.errors import MhaError
from mha_cli.text.pieces import PieceTokenizer
resource.setrlimit(resource.RLIMIT_CPU, (120, 120))
try:
    PieceTokenizer(Path(sys.argv[1]).read_bytes(), 3_000_000, 512, "head", "tokenizer.json").ids("the film was superb " * 1_000)
except MhaError as error:
    print(error)
print(int(re.search(r"VmHWM:\\s*(\\d+) kB", Path("/proc/self/status").read_text())[1]) // 1024)
"""
"""Builds a tokenizer and prints the megabytes that it took at most."""

LARGEST: dict[str, Break] = {
    "many pieces": lambda folder: model(
        "WordPiece", **WORDPIECE | {"vocab": {f"{number:x}": number for number in range(1_900_000)} | {"[UNK]": 1_900_000}}
    )(folder),
    "a tree of pieces": lambda folder: model(
        "Unigram", **UNIGRAM | {"vocab": [["<unk>", 0.0], *([f"{number * 7919 % 10**9:0499}"[::-1], -1.0] for number in range(8_000))]}
    )(folder),
    "added tokens": lambda folder: added(*(f"{number:x}{'a' * 1_900}" for number in range(100)))(folder),
    "many values": file(TOKENIZER, b'{"a": [1' + b",[]" * 990_000 + b"]}"),
    "a long text": file(TOKENIZER, b'{"a": "' + b"a" * 39_000_000 + b'"}'),
}


@pytest.mark.exhaustive
@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
@pytest.mark.parametrize("spoil", LARGEST.values(), ids=LARGEST.keys())
def test_the_largest_that_is_read_takes_a_bounded_memory(spoil: Break, tmp_path: Path) -> None:
    folder = tiny_folder(tmp_path, "bert")
    spoil(folder)
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, folder / TOKENIZER], capture_output=True, text=True, env=environment(), check=True
    )
    assert done.stderr == ""
    assert int(done.stdout.split()[-1]) < 1_500
