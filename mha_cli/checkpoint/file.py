"""``checkpoint.keras``: one file that holds the model and everything that a command needs to use it.

The file is a Keras 3 archive, which ``keras.models.load_model`` opens once ``mha_cli.layers`` is imported, with two members of ours; see
docs/checkpoint.md. In the small form ``weights.int8`` replaces Keras's three members, and Keras does not open it.

Reading never calls Keras's deserializer and runs nothing that the file brings: the settings go through the config model, they imply
the name, shape and type of every weight, and only such arrays are taken.
"""

import hashlib
import io
import json
import math
import zipfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from mha_cli.arrays import Floats
from mha_cli.checkpoint.archive import Archive, open_archive, require
from mha_cli.checkpoint.hdf5 import read_arrays
from mha_cli.checkpoint.held_out import HeldOut, most_bytes
from mha_cli.checkpoint.linear_alone import LinearAlone
from mha_cli.checkpoint.quantization import dequantize, quantize, quantized_size
from mha_cli.config.loading import config_from_dict, config_to_dict
from mha_cli.config.parameters import Parameter, encoder_length, num_outputs, num_parameters, parameter_table
from mha_cli.config.settings import Config, FilesData
from mha_cli.config.yaml_file import MAX_BYTES
from mha_cli.errors import JOINT, MhaError, printable, shown_path
from mha_cli.system.whole_files import atomic_write
from mha_cli.system.working_memory import MemoryEstimate
from mha_cli.text.encoding import TextPipeline
from mha_cli.text.pieces import MAX_TOKENIZER_BYTES, PieceTokenizer
from mha_cli.text.vocabulary import MAX_TOKEN_LENGTH, SPECIAL_TOKENS, Vocabulary

FORMAT_VERSION = 3
MEMBERS = ("metadata.json", "config.json", "model.weights.h5", "vocabulary.txt", "mha.json")
SMALL_WEIGHTS = "weights.int8"
SMALL_MEMBERS = (SMALL_WEIGHTS, "vocabulary.txt", "mha.json")
TOKENIZER, HELD_OUT = "tokenizer.json", "held_out.f2"
OPTIONAL = ((), (TOKENIZER,), (HELD_OUT,), (TOKENIZER, HELD_OUT))  # a tokenizer: pretrained encoders
MEMBER_SETS = tuple((*members, *more) for members in (MEMBERS, SMALL_MEMBERS) for more in OPTIONAL)
MAX_DESCRIPTION_BYTES = 1_000_000
MAX_CONFIG_CHARACTERS = 2 * MAX_BYTES  # limit of the config as JSON: any YAML file fits, and a list of its faults takes little memory
MAX_JSON_BYTES = 4_000_000
MAX_ID_BYTES = 4 * MAX_TOKEN_LENGTH + 1  # bytes of a token in the vocabulary, at most: four a character in UTF-8, and a line feed
HDF5_BYTES_A_WEIGHT = 10_000  # bytes that HDF5 adds to the numbers of a weight, at most


@dataclass(frozen=True)
class Checkpoint:
    """A trained classifier.

    An answer needs the probability in ``thresholds``, in [0, 1], of its class; a class without one needs none, or one half where a text
    may have several labels. In levels, the answer is the finest node that reaches ``level_threshold``, in [0, 1].
    """

    config: Config
    class_names: tuple[str, ...]  # names in the order of their ids
    vocabulary: Vocabulary
    metrics: Mapping[str, float]  # figures of the training, such as ``validation_accuracy`` in [0, 1]
    weights: Mapping[str, Floats]  # float32 arrays by Keras variable path
    keras_config: str  # architecture as Keras serializes it; kept for Keras, never read by us; empty if it came in the small form
    thresholds: Mapping[str, float] = field(default_factory=dict)
    level_threshold: float = 0.0
    linear_alone: LinearAlone | None = None  # where the linear model answers alone; None for nowhere
    tokenizer: bytes | None = None  # bytes of a pretrained encoder's ``tokenizer.json``; None without one
    held_out: HeldOut | None = None  # probabilities of held-out texts; None for a training that held out none
    name: str = field(default="", compare=False)  # file that it was read from, for messages; empty for one that was not read

    @cached_property
    def text_pipeline(self) -> TextPipeline:
        """The way from a text to what the model reads; a large tokenizer takes a fifth of a second."""
        text, rows, name = self.config.text, self.config.model.num_pieces, f"{self.name or 'this model'}: {TOKENIZER}"
        limits = encoder_length(self.config), text.truncation
        pieces = None if self.tokenizer is None else PieceTokenizer(self.tokenizer, rows, *limits, name, text.prompt or "")
        return TextPipeline(text, self.vocabulary, pieces)

    def __getstate__(self) -> dict[str, Any]:
        """The fields alone: a text pipeline cannot be pickled."""
        return {name: value for name, value in vars(self).items() if name != "text_pipeline"}

    @property
    def parameters(self) -> list[Parameter]:
        """Name and shape of every weight."""
        return parameter_table(self.config, len(self.vocabulary), len(self.class_names))

    @property
    def num_weights(self) -> int:
        """Number of weights."""
        return num_parameters(self.config, len(self.vocabulary), len(self.class_names))

    @property
    def label_thresholds(self) -> Floats:
        """The threshold of each class where a text may have several labels, (C,)."""
        return np.array([self.thresholds.get(name, 0.5) for name in self.class_names], np.float32)

    @property
    def always_encoding(self) -> "Checkpoint":
        """The same classifier, whose encoder reads every text."""
        if self.linear_alone is None:
            return self
        alike = replace(self, linear_alone=None)
        vars(alike)["text_pipeline"] = self.text_pipeline
        return alike

    @property
    def text_column(self) -> str:
        """Text column of the files that it was trained on, or several with ``JOINT`` between them; ``text`` without files."""
        return (isinstance(self.config.data, FilesData) and self.config.data.text_column) or "text"

    @property
    def text_columns(self) -> list[str]:
        """The columns of ``text_column``."""
        return self.text_column.split(JOINT)

    @property
    def memory_estimate(self) -> MemoryEstimate:
        """The measures that decide how much memory the model takes."""
        config, name = self.config, self.name or "this model"
        characters = config.text.subword_characters
        return MemoryEstimate(config.model, len(self.class_names), name, characters=characters, linear=config.linear)

    def __repr__(self) -> str:
        """The classifier in one line; the weights and words would fill a screen."""
        width, heads, names = self.config.model.embed_dim, self.config.model.heads, printable(", ".join(self.class_names), 200)
        size = f"{self.num_weights:,} weights; {width} wide, heads {' + '.join(map(str, heads))}; {len(self.vocabulary):,} ids"
        accuracy = self.metrics.get("validation_accuracy")
        figure = "" if accuracy is None else f"; validation accuracy {accuracy:.2%}"
        return f"<Checkpoint {self.name or 'in memory'}: {size}; classes {names}{figure}>"


def write_checkpoint(path: Path, checkpoint: Checkpoint, small: bool = False) -> None:
    """Write a checkpoint, on request in the small form; an earlier file of that name is replaced only by a whole one."""
    config = config_to_dict(checkpoint.config)
    if _is_too_long(config):
        raise MhaError(f"{shown_path(path)}: the settings are too long to be read again", "name files by patterns, such as 'parts/*.csv'")
    if small:
        members = {SMALL_WEIGHTS: quantize(checkpoint.weights, checkpoint.parameters)}
    else:
        metadata = {"keras_version": version("keras"), "date_saved": datetime.now(UTC).strftime("%Y-%m-%d@%H:%M:%S")}
        members = {"metadata.json": json.dumps(metadata).encode(), "config.json": checkpoint.keras_config.encode()}
        members["model.weights.h5"] = _weights_to_hdf5(checkpoint)
    if checkpoint.tokenizer is not None:
        members[TOKENIZER] = checkpoint.tokenizer
    if checkpoint.held_out is not None:
        members[HELD_OUT] = checkpoint.held_out.to_bytes()
    members["vocabulary.txt"] = "\n".join(checkpoint.vocabulary.tokens[len(SPECIAL_TOKENS) :]).encode()
    description = {
        "format": FORMAT_VERSION,
        "config": config,
        "class_names": list(checkpoint.class_names),
        "metrics": dict(checkpoint.metrics),
        **({"thresholds": dict(checkpoint.thresholds)} if checkpoint.thresholds else {}),
        **({"level_threshold": checkpoint.level_threshold} if checkpoint.level_threshold else {}),
        **({"linear_alone": asdict(checkpoint.linear_alone)} if checkpoint.linear_alone else {}),
        "sha256": {name: hashlib.sha256(data).hexdigest() for name, data in members.items()},
    }
    members["mha.json"] = json.dumps(description, indent=1, ensure_ascii=False).encode()
    if len(members["mha.json"]) > MAX_DESCRIPTION_BYTES:
        raise MhaError(f"{shown_path(path)}: the names of the classes are too long to be read again", "give them shorter ones")
    with atomic_write(path) as file, zipfile.ZipFile(file, "w") as archive:
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(name), data)  # without the hour, so that the same model gives the same bytes


def read_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint that may come from anywhere."""
    with open_archive(path, *MEMBER_SETS) as archive:
        return _read_archive(archive)


def read_config_and_metrics(path: Path) -> tuple[Config, dict[str, float]]:
    """The config and the metrics of the training, without the weights."""
    with open_archive(path, *MEMBER_SETS) as archive:
        description = _read_description(archive)
        return _config(description, archive.name), _metrics(description, archive.name)


def _read_archive(archive: Archive) -> Checkpoint:
    name = archive.name
    description = _read_description(archive)
    if description.get("format") != FORMAT_VERSION:
        written = printable(repr(description.get("format")), 20)
        raise MhaError(f"{name}: has format {written}; this version of mha reads format {FORMAT_VERSION}", "update mha, or train anew")
    digests: Any = description.get("sha256")
    require(isinstance(digests, dict), name, "has no checksums")

    def checked(member: str, limit: int) -> memoryview:
        data, digest = archive.read(member, limit)
        if digest != digests.get(member):
            raise MhaError(f"{name}: {member} is damaged (its checksum does not fit)", "fetch or train it anew")
        return data

    config = _config(description, name)
    class_names: Any = description.get("class_names")
    thresholds: Any = description.get("thresholds", {})
    are_names = isinstance(class_names, list) and all(isinstance(item, str) for item in class_names)
    require(are_names and len(set(class_names)) >= max(2, len(class_names)), name, "its class names are not two or more distinct words")
    metrics = _metrics(description, name)
    of_classes = isinstance(thresholds, dict) and thresholds.keys() <= set(class_names)
    require(of_classes, name, "its thresholds are not those of its classes")
    level_threshold: Any = description.get("level_threshold", 0.0)
    least = (*thresholds.values(), level_threshold)
    are_probabilities = all(type(number) in {int, float} and 0 <= number <= 1 for number in least)
    require(are_probabilities, name, "its thresholds are not numbers from 0 to 1")
    linear_alone = _linear_alone(description, config, len(class_names), name)

    words, most_ids = bytes(checked("vocabulary.txt", MAX_ID_BYTES * config.text.vocabulary_size)), config.text.vocabulary_size
    num_ids = len(SPECIAL_TOKENS) + (words.count(b"\n") + 1 if words else 0)
    require(num_ids <= most_ids, name, f"its vocabulary has {num_ids:,} ids; its settings allow {most_ids:,}")
    parameters = parameter_table(config, num_ids, len(class_names))
    small = SMALL_WEIGHTS in archive
    if small:
        size = quantized_size(parameters)
        data = checked(SMALL_WEIGHTS, size)
        require(len(data) == size, name, f"{SMALL_WEIGHTS} has {len(data):,} bytes; the settings imply {size:,}")
        weights = dequantize(data, parameters)
        del data
    else:
        dtype = _dtype(config)
        most = sum(np.dtype(dtype).itemsize * math.prod(parameter.shape) + HDF5_BYTES_A_WEIGHT for parameter in parameters)
        arrays = read_arrays(checked("model.weights.h5", most), {parameter.hdf5_path: parameter.shape for parameter in parameters}, dtype)
        weights = {parameter.path: arrays.pop(parameter.hdf5_path).astype(np.float32, copy=False) for parameter in parameters}
        checked("metadata.json", MAX_JSON_BYTES)
    for path, weight in weights.items():
        if not np.isfinite(weight).all():
            raise MhaError(f"{name}: the weight {path} holds NaN or infinite numbers", "train anew, with a lower learning rate")
    vocabulary = Vocabulary(words.decode().split("\n") if words else [])  # late: it takes many times the bytes of the words
    require(not vocabulary.repeats, name, "a token occurs twice in its vocabulary")
    tokenizer = bytes(checked(TOKENIZER, MAX_TOKENIZER_BYTES)) if TOKENIZER in archive else None
    fits = tokenizer != b"" and (tokenizer is not None) == bool(config.model.num_pieces)
    require(fits, name, f"its settings and {TOKENIZER} do not go together")
    held_out, kind = None, (len(class_names), config.is_multi_label)
    if HELD_OUT in archive:
        held_out = HeldOut.from_bytes(checked(HELD_OUT, most_bytes(*kind)), *kind)
        require(held_out is not None, name, f"{HELD_OUT} holds no labels and probabilities of its classes")
    keras_config = "" if small else bytes(checked("config.json", MAX_JSON_BYTES)).decode()
    decided = thresholds, level_threshold, linear_alone
    return Checkpoint(config, tuple(class_names), vocabulary, metrics, weights, keras_config, *decided, tokenizer, held_out, name)


def _read_description(archive: Archive) -> dict[str, Any]:
    description: dict[str, Any] = json.loads(bytes(archive.read("mha.json", MAX_DESCRIPTION_BYTES)[0]))
    json.dumps(description, ensure_ascii=False).encode()  # half a surrogate pair, which JSON can spell, could not be written again
    require(isinstance(description, dict), archive.name, "mha.json is not an object")
    return description


def _config(description: dict[str, Any], name: str) -> Config:
    value = description.get("config")
    require(not _is_too_long(value), name, f"mha.json: the config has more than {MAX_CONFIG_CHARACTERS:,} characters")
    config = config_from_dict(value, f"{name}: mha.json")
    require(not config.auto, name, "mha.json: auto=true leaves settings open, which a checkpoint has decided")
    return config


def _is_too_long(config: object) -> bool:
    return len(json.dumps(config, ensure_ascii=False)) > MAX_CONFIG_CHARACTERS


def _metrics(description: dict[str, Any], name: str) -> dict[str, float]:
    metrics: Any = description.get("metrics")
    are_finite = isinstance(metrics, dict) and all(type(item) in {int, float} and math.isfinite(item) for item in metrics.values())
    require(are_finite, name, "its metrics are not finite numbers")
    return dict(metrics)


def _linear_alone(description: dict[str, Any], config: Config, num_classes: int, name: str) -> LinearAlone | None:
    given: Any = description.get("linear_alone")
    if given is None:
        return None
    fits = isinstance(given, dict) and given.keys() == LinearAlone.__dataclass_fields__.keys() and isinstance(given["shift"], list)
    require(fits and config.linear is not None and not config.is_multi_label, name, "linear_alone does not belong to its settings")
    rule = LinearAlone(given["margin"], given["scale"], tuple(given["shift"]))
    require(rule.is_valid and len(rule.shift) == num_outputs(num_classes, config.is_multi_label), name, "linear_alone has odd numbers")
    return rule


def _dtype(config: Config) -> str:
    """NumPy's type of the weights in the whole form: float16 with a pretrained encoder, which is large."""
    return "<f2" if config.model.num_pieces else "<f4"


def _weights_to_hdf5(checkpoint: Checkpoint) -> bytes:
    import h5py  # only to write: a prediction need not wait for it

    buffer = io.BytesIO()
    with h5py.File(buffer, "w", libver="earliest") as file:  # the form that hdf5.py reads
        for parameter in checkpoint.parameters:
            weight = checkpoint.weights[parameter.path]
            if weight.shape != parameter.shape:
                raise ValueError(f"{parameter.path} has the shape {weight.shape}; the settings imply {parameter.shape}")
            file.create_dataset(parameter.hdf5_path, data=np.asarray(weight, dtype=_dtype(checkpoint.config)))
    return buffer.getvalue()
