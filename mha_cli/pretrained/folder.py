"""A folder with a pretrained encoder: its sizes, its weights in our layers' shapes, its tokenizer and its pooling.

The folder is what the Hugging Face libraries write: ``config.json``, ``model.safetensors`` (one file, or several and their index) and
``tokenizer.json``; a folder of sentence-transformers has ``modules.json`` beside them. Reading it runs nothing that it brings.
"""

import json
import math
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from os.path import isdir, lexists
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from pydantic import ValidationError

from mha_cli.arrays import Floats
from mha_cli.config.settings import Config, TextConfig
from mha_cli.errors import MhaError, need, printable, reason_of, shown_path
from mha_cli.pretrained.families import FAMILIES, Architecture, Family, Pooling, unusable
from mha_cli.system.input_files import open_regular
from mha_cli.text.pieces import MAX_TOKENIZER_BYTES, PieceTokenizer

TOKENIZER, WEIGHTS = "tokenizer.json", "model.safetensors"
MAX_JSON_BYTES, MAX_WEIGHT_BYTES = 4_000_000, 1_200_000_000  # of other JSON or a header of safetensors, and of weights on disk (XLM-R)
OTHER_KINDS = {  # how other files begin, what they are, and what to do
    b"version https://git-lfs": ("is a pointer of Git LFS and not the file itself", "fetch the file with git lfs pull"),
    b"PK\3\4": ("is a zip archive", "unzip it, and take the file in it"),
    b"\xff\xfe": ("is text in UTF-16", "save it in UTF-8"),
}
LARGEST_WEIGHT = 65_504  # largest number in float16, the type that a checkpoint keeps weights in
DTYPES = {"F32": 4, "F16": 2, "BF16": 2}  # bytes of the types of weights that are read, by safetensors' names
SMALLER = f"mha reads {MAX_WEIGHT_BYTES:,} bytes of weights at most; take a smaller encoder"
FLAGS = {  # settings of ``tokenizer_config.json`` that most classes of transformers take, and what ``tokenizer.json`` calls them
    "do_lower_case": "lowercase", "strip_accents": "strip_accents",
    "tokenize_chinese_chars": "handle_chinese_chars", "add_prefix_space": "add_prefix_space",
}  # fmt: skip
WITHOUT_FLAGS = ("PreTrainedTokenizerFast", "TokenizersBackend")  # classes that take ``tokenizer.json`` as it is
WITHOUT_PROMPT = "write null as its default_prompt_name, and set text.prompt"
PARTS_OF_A_FOLDER = "a pretrained encoder has config.json, model.safetensors and tokenizer.json"

POOLINGS: dict[str, Pooling] = {  # by sentence-transformers' names, from 5.4 on and before; of several, the first here counts
    "mean": "mean", "pooling_mode_mean_tokens": "mean", "mean_sqrt_len_tokens": "mean", "pooling_mode_mean_sqrt_len_tokens": "mean",
    "cls": "first", "pooling_mode_cls_token": "first", "max": "max", "pooling_mode_max_tokens": "max",
    "lasttoken": "last", "pooling_mode_lasttoken": "last",
}  # fmt: skip


@dataclass(frozen=True)
class PretrainedEncoder:
    """An encoder that others have trained."""

    family: Family  # names of its tensors, and what it has in common with others
    architecture: Architecture  # its sizes
    pooling: Pooling  # how its authors pool hidden states, or what is usual in its family
    max_pieces: int  # longest text that it was made for, in pieces, special ones included
    prompt: str  # text that its authors put before every text; empty for none
    weights: dict[str, Floats]  # float32 arrays by Keras variable path, as ``parameter_table`` names them
    tokenizer: bytes  # the bytes of ``tokenizer.json``

    def piece_tokenizer(self, settings: TextConfig) -> PieceTokenizer:
        """The tokenizer as a config cuts texts."""
        longest = settings.max_pieces or self.max_pieces
        return PieceTokenizer(self.tokenizer, self.architecture.num_rows, longest, settings.truncation, TOKENIZER, settings.prompt or "")


def read_pretrained(folder: Path) -> PretrainedEncoder:
    """Read a folder that may come from anywhere."""
    need("model.pretrained", "pretrained", "safetensors", "tokenizers")
    if not isdir(folder):  # false, no error, for any name that no folder can have
        raise MhaError(f"model.pretrained: {shown_path(folder)} is no folder", f"{PARTS_OF_A_FOLDER}; mha downloads nothing")
    transformer, pooling = _sentence_transformers(folder)
    path = transformer / "config.json"
    described = read_json(path)
    name = described.get("model_type")
    if (family := FAMILIES.get(name) if isinstance(name, str) else None) is None:
        given_name = printable(name) if isinstance(name, str) else "missing"
        raise unusable(path, f"model_type is {given_name}", f"mha reads these families: {', '.join(FAMILIES)}")
    architecture = family.architecture(described, path)
    if (num_weights := family.num_weights(architecture)) * min(DTYPES.values()) > MAX_WEIGHT_BYTES:
        raise unusable(path, f"describes {num_weights:,} weights", SMALLER)
    path = transformer / TOKENIZER if lexists(transformer / TOKENIZER) else folder / TOKENIZER
    tokenizer = _bytes(path, MAX_TOKENIZER_BYTES)
    pieces = PieceTokenizer(tokenizer, architecture.vocabulary_size, architecture.max_pieces, "head", shown_path(path))
    if architecture.padding_id is None:
        architecture.padding_id = pieces.padding_id
    if pieces.padding_id != architecture.padding_id:
        theirs = f"its padding has the id {pieces.padding_id}, and pad_token_id of config.json is {architecture.padding_id}"
        raise unusable(path, theirs, "the files belong to different encoders")
    longest, prompt = _longest_text(path, transformer, pieces.flags), _prompt(folder / "config_sentence_transformers.json")
    weights, most = _weights(transformer, family, architecture), architecture.max_pieces
    return PretrainedEncoder(family, architecture, pooling or family.pooling, int(min(longest, most)), prompt, weights, tokenizer)


def with_pretrained(config: Config, encoder: PretrainedEncoder) -> Config:
    """The config with all that the encoder decides: its sizes and, if the config says nothing, its pooling, longest text and prompt."""
    sizes, longest = encoder.architecture, encoder.max_pieces
    asked = config.text.max_pieces or longest
    if asked > sizes.max_pieces:
        most = sizes.max_pieces
        raise MhaError(f"text.max_pieces={asked}: the encoder has {most} positions", f"take text.max_pieces={most} or less")
    decided = encoder.family.model_settings(sizes)
    if "pooling" not in config.model.model_fields_set:
        decided["pooling"] = encoder.pooling
    prompt = {"prompt": encoder.prompt} if encoder.prompt and config.text.prompt is None else {}
    return config.changed(text={"max_pieces": asked, **prompt}, model=decided)


def _sentence_transformers(folder: Path) -> tuple[Path, Pooling | None]:
    """The folder of the encoder itself and its pooling, as sentence-transformers describes them; None if it does not."""
    path = folder / "modules.json"
    if not lexists(path):
        return folder, None
    pooling: Pooling | None = None
    modules, transformer = read_json(path, list), folder
    for module in modules:
        if not isinstance(module, dict) or not all(isinstance(module.get(key), str) for key in ("type", "path")):
            raise unusable(path, "has a module without type and path")
        kind, place = module["type"].rpartition(".")[2], module["path"]
        if place and (Path(place).name != place or place == ".."):
            raise unusable(path, f"path {printable(place)} is no name of a folder beside it")
        if kind not in ("Transformer", "Pooling", "Normalize"):  # the last makes lengths 1; a classifier learns its own scale
            raise unusable(path, f"has a module {printable(kind)}", "mha reads Transformer, Pooling and Normalize")
        if kind == "Transformer":
            transformer = folder / place
        elif kind == "Pooling":
            pooling = _pooling(folder / place / "config.json")
    return transformer, pooling


def _pooling(path: Path) -> Pooling:
    described = read_json(path)
    if described.get("include_prompt") is False:
        raise unusable(path, "include_prompt is false, and mha pools the prompt as well", "write true, if the encoder needs no prompt")
    on = [name for name, value in described.items() if name.startswith("pooling_mode_") and value is True]
    named = described.get("pooling_mode", on or "mean")
    chosen = named if isinstance(named, list) else [named]
    for name, pooling in POOLINGS.items():
        if name in chosen:
            return pooling
    raise unusable(path, f"pools by {printable(', '.join(map(str, chosen)))}", "mha pools by mean, cls, max or lasttoken")


def _prompt(path: Path) -> str:
    """The text that sentence-transformers puts before every text."""
    described = read_json(path) if lexists(path) else {}
    name, prompts = described.get("default_prompt_name"), described.get("prompts")
    if name is None:
        return ""
    prompt = prompts.get(name) if isinstance(name, str) and isinstance(prompts, dict) else None
    try:
        if isinstance(prompt, str):
            return TextConfig(prompt=prompt).prompt or ""
    except ValidationError as error:
        reason = error.errors()[0]["msg"].removeprefix("Value error, ")
        raise unusable(path, f"prompt {printable(name)}: {reason}", WITHOUT_PROMPT) from None
    raise unusable(path, f"default_prompt_name is {printable(str(name))}, and prompts has no text of that name", WITHOUT_PROMPT)


def _longest_text(tokenizer: Path, transformer: Path, flags: Mapping[str, bool]) -> float:
    """The longest text, in pieces, that the files beside a tokenizer name; infinity where they name none.

    ``flags`` of the tokenizer that these files contradict are refused: capitals would become unknown, or lose what they tell.
    """
    config, *named = tokenizer.with_name("tokenizer_config.json"), *(transformer / f"sentence_{name}_config.json" for name in FAMILIES)
    sentences = next(filter(lexists, named), named[0])
    of_pieces, of_sentences = (read_json(path) if lexists(path) else {} for path in (config, sentences))
    told = {} if of_pieces.get("tokenizer_class") in WITHOUT_FLAGS else of_pieces
    wrong = [(name, config) for name, ours in FLAGS.items() if ours in flags and told.get(name) is (not flags[ours])]
    if of_sentences.get("do_lower_case") is True and not (flags.get("lowercase") or "Lowercase" in flags):
        wrong.append(("do_lower_case", sentences))
    for name, path in wrong:
        flag = flags.get(FLAGS[name], False)
        problem = f"{FLAGS[name]} is {flag}, and {name} of {path.name} is {not flag}"
        raise unusable(tokenizer, problem, "write into both what the encoder was trained with")
    limits = of_sentences.get("max_seq_length"), of_pieces.get("model_max_length")
    return next((limit for limit in limits if isinstance(limit, int | float) and limit >= 3), math.inf)


def open_tensors(path: Path, stack: ExitStack) -> Any:
    """A safetensors file whose header is whole and not too long, open until the stack ends."""
    import ml_dtypes  # noqa: F401, teaches NumPy the type of BF16
    from safetensors import SafetensorError, safe_open

    with open_file(path) as opened:
        header = int.from_bytes(opened.read(8), "little")
    if header > MAX_JSON_BYTES:
        raise unusable(path, f"claims a header of {header:,} bytes")
    try:
        return stack.enter_context(safe_open(path, "numpy"))
    except (SafetensorError, OSError) as error:
        reason = printable(str(error).removeprefix("Error while deserializing header: "), 200)
        raise unusable(path, f"is damaged, or no safetensors file ({reason})") from None


def _weights(folder: Path, family: Family, architecture: Architecture) -> dict[str, Floats]:
    paths = _weight_files(folder)
    with ExitStack() as stack:
        tensors = {}
        for path in paths:
            file = open_tensors(path, stack)
            for name in file.keys():  # noqa: SIM118, it is no dictionary
                tensors[name.replace("Norm.gamma", "Norm.weight").replace("Norm.beta", "Norm.bias")] = (path, file, name)
        prefix = next((name.removesuffix(family.words) for name in tensors if name.endswith(family.words)), "")
        beginnings = (prefix + family.words.partition(".")[0], prefix + family.block)
        slices = [file.get_slice(theirs) for name, (_, file, theirs) in tensors.items() if name.startswith(beginnings)]
        size = sum(DTYPES.get(tensor.get_dtype(), 0) * math.prod(tensor.get_shape()) for tensor in slices)
        if size > MAX_WEIGHT_BYTES:
            raise unusable(paths[0], f"holds {size:,} bytes of weights", SMALLER)

        def read(name: str, shape: tuple[int, ...]) -> Floats:
            if prefix + name not in tensors:
                raise unusable(paths[0], f"has no tensor {printable(prefix + name)}", "config.json describes another encoder")
            path, file, theirs = tensors[prefix + name]
            tensor, shown = file.get_slice(theirs), printable(theirs)
            dtype, shape_on_disk = tensor.get_dtype(), tuple(tensor.get_shape())
            if shape_on_disk != shape:
                raise unusable(path, f"{shown} has the shape {shape_on_disk}; config.json implies {shape}")
            if dtype not in DTYPES:
                raise unusable(path, f"{shown} is of type {printable(str(dtype))}", f"mha reads {', '.join(DTYPES)}")
            numbers = np.array(file.get_tensor(theirs), np.float32)
            if not np.abs(numbers).max() < LARGEST_WEIGHT:
                raise unusable(path, f"{shown} holds NaN or numbers that are too large")
            return numbers

        return family.weights(architecture, read)


def _weight_files(folder: Path) -> list[Path]:
    """The file of the weights, or those that its index lists."""
    path, index = folder / WEIGHTS, folder / "model.safetensors.index.json"
    if not lexists(path) and lexists(index):
        listed = read_json(index).get("weight_map")
        names = set(filter(lambda name: isinstance(name, str), listed.values())) if isinstance(listed, dict) else set()
        if not names or any(Path(name).name != name for name in names):
            raise unusable(index, "weight_map names no files beside it")
        return [folder / name for name in sorted(names)]
    if not lexists(path) and lexists(folder / "pytorch_model.bin"):
        pickled = "has pytorch_model.bin and no model.safetensors; mha reads no pickles, which may run code"
        raise unusable(folder, pickled, "save the model anew with save_pretrained of transformers")
    return [path]


def read_json(path: Path, kind: type = dict, limit: int = MAX_JSON_BYTES) -> Any:
    """The JSON object, or another ``kind``, in a file of at most ``limit`` bytes."""
    try:
        value = json.loads(_bytes(path, limit))
    except (ValueError, RecursionError) as error:
        raise unusable(path, f"is not valid JSON: {reason_of(error)}") from None
    if not isinstance(value, kind):
        raise unusable(path, f"holds no JSON {'object' if kind is dict else 'array'}")
    return value


def _bytes(path: Path, limit: int) -> bytes:
    with open_file(path) as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise unusable(path, f"has more than {limit:,} bytes", "mha reads none that large")
    return data


def open_file(path: Path, hint: str = PARTS_OF_A_FOLDER) -> BinaryIO:
    """A regular file, open for reading, that does not begin as one of ``OTHER_KINDS``."""
    file = open_regular(path, hint)
    start = file.peek(1)
    for beginning, (kind, way_out) in OTHER_KINDS.items():
        if start.startswith(beginning):
            file.close()
            raise unusable(path, kind, way_out)
    return file
