"""A folder with a pretrained encoder: its sizes, its weights in our layers' shapes, its tokenizer and its pooling.

The folder is what the Hugging Face libraries write: ``config.json``, ``model.safetensors`` (one file, or several and their index) and
``tokenizer.json``; a folder of sentence-transformers has ``modules.json`` beside them. Reading it runs nothing that it brings.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from mha_cli.config.settings import Config, TextConfig
from mha_cli.errors import MhaError, need, plural, printable, shown_path
from mha_cli.pretrained.families import FAMILIES, WORDS, Architecture, Family
from mha_cli.text.pieces import MAX_TOKENIZER_BYTES, PieceTokenizer

TOKENIZER = "tokenizer.json"
MAX_JSON_BYTES = 4_000_000
MAX_WEIGHT_BYTES = 1_000_000_000
"""Bytes of the weights that are read, in the type of the file."""

DTYPES = {"F32": "<f4", "F16": "<f2", "BF16": "<u2"}
"""Types of weights that are read, by safetensors' names; bfloat16 as the upper half of a float32."""

Floats = npt.NDArray[np.float32]
Pooling = Literal["mean", "max", "first"]


@dataclass(frozen=True)
class PretrainedEncoder:
    """An encoder that others have trained.

    Args:
        architecture: its sizes.
        pooling: how its authors pool hidden states; ``mean`` where they do not say.
        max_pieces: longest text that it was made for, in pieces, the two special ones included.
        weights: float32 arrays by Keras variable path, as ``parameter_table`` names them.
        tokenizer: the bytes of ``tokenizer.json``.
    """

    architecture: Architecture
    pooling: Pooling
    max_pieces: int
    weights: dict[str, Floats]
    tokenizer: bytes

    def piece_tokenizer(self, settings: TextConfig) -> PieceTokenizer:
        """The tokenizer as a config cuts texts."""
        return PieceTokenizer(self.tokenizer, settings.max_pieces or self.max_pieces, settings.truncation, TOKENIZER)


def read_pretrained(folder: Path) -> PretrainedEncoder:
    """Read a folder that may come from anywhere."""
    need("model.pretrained", "pretrained", "safetensors", "tokenizers")
    if not folder.is_dir():
        raise MhaError(
            f"model.pretrained: {shown_path(folder)} is no folder",
            "give a folder with config.json, model.safetensors and tokenizer.json; mha downloads nothing",
        )
    transformer, pooling, longest = _sentence_transformers(folder)
    described = _json(transformer / "config.json")
    family = _family(described, transformer / "config.json")
    architecture = family.architecture(described, shown_path(transformer / "config.json"))
    path = transformer / "tokenizer.json"
    tokenizer = _bytes(path if path.is_file() else folder / "tokenizer.json", MAX_TOKENIZER_BYTES)
    num_pieces = PieceTokenizer(tokenizer, architecture.max_pieces, "head", shown_path(path)).num_pieces
    if num_pieces > architecture.vocabulary_size:
        rows = f"the encoder has {architecture.vocabulary_size:,} rows for pieces"
        raise MhaError(f"{shown_path(path)}: {plural(num_pieces, 'piece')}, and {rows}", "the files belong to different encoders")
    weights = _weights(transformer, family, architecture)
    return PretrainedEncoder(architecture, pooling, min(longest, architecture.max_pieces), weights, tokenizer)


def with_pretrained(config: Config, encoder: PretrainedEncoder) -> Config:
    """The config with all that the encoder decides: its sizes, its pooling and, if the config says nothing, its longest text."""
    sizes, longest = encoder.architecture, encoder.max_pieces
    asked = config.text.max_pieces or longest
    if asked > sizes.max_pieces:
        raise MhaError(
            f"text.max_pieces={asked}: the encoder has {sizes.max_pieces} positions", f"take text.max_pieces={sizes.max_pieces} or less"
        )
    model = config.model.model_copy(
        update={
            "num_pieces": sizes.vocabulary_size,
            "embed_dim": sizes.embed_dim,
            "positions": "learned",
            "num_blocks": sizes.num_blocks,
            "num_heads": sizes.num_heads,
            "feed_forward_dim": sizes.feed_forward_dim,
            "activation": sizes.activation,
            "normalization": "post",
            "norm_epsilon": sizes.norm_epsilon,
            "embedding_norm": True,
            "pooling": config.model.pooling if "pooling" in config.model.model_fields_set else encoder.pooling,
        }
    )
    return config.model_copy(update={"text": config.text.model_copy(update={"max_pieces": asked}), "model": model})


def _family(described: dict[str, Any], path: Path) -> Family:
    name = described.get("model_type")
    if not isinstance(name, str) or name not in FAMILIES:
        known = ", ".join(FAMILIES)
        raise MhaError(f"{shown_path(path)}: model_type is {printable(json.dumps(name))}", f"mha reads these families: {known}")
    return FAMILIES[name]


def _sentence_transformers(folder: Path) -> tuple[Path, Pooling, int]:
    """The folder of the encoder itself, its pooling, and the longest text in pieces, as sentence-transformers describes them."""
    path = folder / "modules.json"
    if not path.exists():
        return folder, "mean", 1 << 30
    pooling: Pooling = "mean"
    modules, transformer = _json(path, list), folder
    for module in modules:
        kind, place = (str(module.get(key, "")) if isinstance(module, dict) else "" for key in ("type", "path"))
        if place and (Path(place).name != place or place == ".."):
            raise MhaError(f"{shown_path(path)}: path {printable(place)} is no name of a folder beside it", "fetch the folder anew")
        match kind.rpartition(".")[2]:
            case "Transformer":
                transformer = folder / place
            case "Pooling":
                pooling = _pooling(folder / place / "config.json")
            case "Normalize":
                pass  # a length of 1, for cosines; a classifier learns its own scale
            case other:
                raise MhaError(
                    f"{shown_path(path)}: has a module {printable(other or kind)}", "mha reads Transformer, Pooling and Normalize"
                )
    path = transformer / "sentence_bert_config.json"
    longest = _json(path).get("max_seq_length") if path.exists() else None
    return transformer, pooling, longest if isinstance(longest, int) and longest > 2 else 1 << 30


def _pooling(path: Path) -> Pooling:
    described = _json(path)
    kinds: dict[str, Pooling] = {"mean_tokens": "mean", "max_tokens": "max", "cls_token": "first"}
    chosen = [name.removeprefix("pooling_mode_") for name, on in described.items() if name.startswith("pooling_mode_") and on is True]
    if len(chosen) != 1 or chosen[0] not in kinds:
        raise MhaError(
            f"{shown_path(path)}: pools by {printable(' and '.join(chosen)) or 'nothing'}", f"mha pools by one of {', '.join(kinds)}"
        )
    return kinds[chosen[0]]


def _weights(folder: Path, family: Family, architecture: Architecture) -> dict[str, Floats]:
    with _tensors(folder) as (read, names):
        prefix = next((name.removesuffix(WORDS) for name in names if name.endswith(WORDS)), "")
        return family.weights(architecture, lambda name, shape: read(prefix + name, shape))


@contextmanager
def _tensors(folder: Path) -> Iterator[tuple[Callable[[str, tuple[int, ...]], Floats], list[str]]]:
    """A function from a tensor's name and shape to its numbers, and the names of all tensors."""
    from safetensors import SafetensorError, safe_open

    index = folder / "model.safetensors.index.json"
    paths = [folder / "model.safetensors"]
    if not paths[0].exists() and index.exists():
        files = _json(index).get("weight_map")
        if not isinstance(files, dict) or not all(isinstance(name, str) and Path(name).name == name for name in files.values()):
            raise MhaError(f"{shown_path(index)}: weight_map names no files beside it", "fetch the folder anew")
        paths = [folder / name for name in sorted(set(files.values()))]
    if not paths[0].exists():
        pickled = "; mha reads no pickles, which may run code" if (folder / "pytorch_model.bin").exists() else ""
        raise MhaError(f"{shown_path(folder)}: has no model.safetensors{pickled}", "save the model with safe_serialization=True")
    with ExitStack() as stack:
        files = {}
        for path in paths:
            if path.stat().st_size > 2 * MAX_WEIGHT_BYTES:
                raise MhaError(f"{shown_path(path)}: has {path.stat().st_size:,} bytes", "mha reads encoders of up to 1 GB")
            try:
                file = stack.enter_context(safe_open(path, "numpy"))
            except (SafetensorError, OSError) as error:
                raise MhaError(f"{shown_path(path)}: {printable(str(error), 200)}", "fetch the file anew") from None
            files |= dict.fromkeys(file.keys(), (path, file))
        left = MAX_WEIGHT_BYTES

        def read(name: str, shape: tuple[int, ...]) -> Floats:
            nonlocal left
            if name not in files:
                raise MhaError(f"{shown_path(paths[0])}: has no tensor {printable(name)}", "config.json describes another encoder")
            path, file = files[name]
            part = file.get_slice(name)
            dtype, found = part.get_dtype(), tuple(part.get_shape())
            if found != shape:
                raise MhaError(
                    f"{shown_path(path)}: {printable(name)} has the shape {found}; config.json implies {shape}", "fetch the folder anew"
                )
            if dtype not in DTYPES:
                raise MhaError(
                    f"{shown_path(path)}: {printable(name)} is of type {printable(str(dtype))}", f"mha reads {', '.join(DTYPES)}"
                )
            left -= np.dtype(DTYPES[dtype]).itemsize * int(np.prod(shape))
            if left < 0:
                raise MhaError(f"{shown_path(path)}: more than {MAX_WEIGHT_BYTES:,} bytes of weights", "take a smaller encoder")
            numbers = np.array(file.get_tensor(name), np.float32)
            if not np.isfinite(numbers).all():
                raise MhaError(f"{shown_path(path)}: {printable(name)} holds NaN or infinite numbers", "fetch the folder anew")
            return numbers

        yield read, list(files)


def _json(path: Path, kind: type = dict) -> Any:
    try:
        found = json.loads(_bytes(path, MAX_JSON_BYTES))
    except (ValueError, RecursionError) as error:
        raise MhaError(f"{shown_path(path)}: is not valid JSON: {printable(str(error))}", "fetch the file anew") from None
    if not isinstance(found, kind):
        raise MhaError(f"{shown_path(path)}: holds no JSON {'object' if kind is dict else 'array'}", "fetch the file anew")
    return found


def _bytes(path: Path, limit: int) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(limit + 1)
    except OSError as error:
        raise MhaError(
            f"{shown_path(path)}: {error.strerror}", "a pretrained encoder has config.json, model.safetensors and tokenizer.json"
        ) from None
    if len(data) > limit:
        raise MhaError(f"{shown_path(path)}: has more than {limit:,} bytes", "mha reads none that large")
    return data
