"""Damaged and hostile checkpoints, made by kind from a good one, each with the one outcome that is right.

What a mutant has to come to is worked out here, from how it was made and from the format's own description, never by asking the reader.
Most are sealed: their checksums fit again, as an attacker would make them, so that the checks behind are reached.
"""

import io
import json
import os
import random
import re
import struct
import warnings
import zipfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mha_cli.checkpoint.file import Checkpoint, write_checkpoint
from mha_cli.checkpoint.held_out import HeldOut
from mha_cli.checkpoint.linear_alone import LinearAlone
from mha_cli.config.loading import config_from_dict, config_to_dict
from mha_cli.config.parameters import parameter_table
from mha_cli.errors import MhaError
from mha_cli.text.vocabulary import Vocabulary
from tests.checkpoints import described, digests, members_of, small_checkpoint, with_text

Members = dict[str, bytes]


class Mutant(NamedTuple):
    """A file, and the right outcome of reading it."""

    what: str  # change to the original
    data: bytes | Callable[[Path], object]  # bytes of the file, or a function that puts something else at its path
    right: str | Checkpoint  # pattern of the whole message behind the file's name and before the way out, or what has to be read
    name: str = "mutant.keras"  # of the file


def damaged(reason: str = ".+") -> str:
    """The refusal for a reason that the reader of a member gives."""
    return rf"damaged, or no checkpoint \(({reason})\)"


class Original(NamedTuple):
    """A good checkpoint, from which mutants are made."""

    whole: bytes
    members: Members
    checkpoint: Checkpoint


def originals(folder: Path) -> list[Original]:
    """A tiny checkpoint that has every kind of weight, in both forms."""
    sizes = {"embed_dim": 6, "feed_forward_dim": 5, "max_ngram": 2, "ngram_buckets": 8}
    made = small_checkpoint(("negative", "positive"), linear={"max_ngram": 2, "buckets": 16}, **sizes)
    checkpoint, path, found = with_text(made, vocabulary_size=20), folder / "tiny.keras", []
    for small in (False, True):
        write_checkpoint(path, checkpoint, small)
        members = members_of(path)
        written = replace(checkpoint, keras_config="", weights=from_bytes(members["weights.int8"], checkpoint)) if small else checkpoint
        found.append(Original(path.read_bytes(), members, written))
    return found


Made = Iterator[tuple[str, bytes, str | Checkpoint]]


def mutants(folder: Path, rng: random.Random) -> list[Mutant]:
    """Every mutant once; where and by how much it differs from its original is drawn."""
    whole, small = originals(folder)
    for_whole, for_small = (container, checksums, description, config, vocabulary, arrays), (container, checksums, quantization)
    makers = [(make, whole) for make in for_whole] + [(make, small) for make in for_small]
    return NO_FILES + [Mutant(f"{make.__name__}, {what}", *made) for make, original in makers for what, *made in make(original, rng)]


NO_FILES = [
    Mutant("data", b"text,label", "is data, not a checkpoint", "a.csv"),
    Mutant("a config", b"seed: 1", "is a config, not a checkpoint", "a.yaml"),
    Mutant("nothing there", lambda path: None, "no such file"),
    Mutant("a null byte", lambda path: None, "cannot be read: embedded null byte", "a\0b"),
    Mutant("a pipe", os.mkfifo, "is not a regular file"),
    Mutant("a folder", Path.mkdir, "is a folder without checkpoint.keras"),
    Mutant("an empty file", b"", "is empty"),
    Mutant("a huge file", lambda path: (path.touch(), os.truncate(path, 8_000_000_001)), "is larger than 8,000,000,000 bytes"),
]
"""Paths at which there is no file to read."""


# The container


def packed(members: Members | Iterable[tuple[str, bytes]], compression: int = zipfile.ZIP_STORED, extra: bytes = b"") -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive, warnings.catch_warnings(action="ignore"):  # names that stand twice
        for name, data in members.items() if isinstance(members, dict) else members:
            entry = zipfile.ZipInfo(name)
            entry.extra = extra
            archive.writestr(entry, data, compression)
    return buffer.getvalue()


def patched(data: bytes, address: int, form: str, *values: Any) -> bytes:
    changed = bytearray(data)
    struct.pack_into(f"<{form}", changed, address, *values)
    return bytes(changed)


def flipped(data: bytes, rng: random.Random) -> bytes:
    address = rng.randrange(len(data))
    return patched(data, address, "B", data[address] ^ 1 << rng.randrange(8))


def entry_addresses(whole: bytes) -> dict[str, tuple[int, int]]:
    """Addresses of an archive's members, and of their entries in the directory."""
    with zipfile.ZipFile(io.BytesIO(whole)) as archive:
        entry, found = archive.start_dir, {}
        for info in archive.infolist():
            found[info.filename] = (info.header_offset, entry)
            entry += 46 + len(info.filename)
    return found


def container(original: Original, rng: random.Random) -> Made:
    """Bytes that are not one plain archive of the right members."""
    whole, members, same = original
    items, entries = list(members.items()), entry_addresses(whole)
    directory, victim = struct.unpack_from("<I", whole, len(whole) - 6)[0], rng.choice(list(members))
    start, entry = entries[victim]
    begin = start + 30 + len(victim)
    other = packed([(name, b"{}") for name in members])
    strange, more = "not a checkpoint of mha: has ", "is cut off, or holds more than its members one after another"
    unfit = f"{strange}members that do not belong there"
    yield "an extra field", packed(members, extra=struct.pack("<HH4s", 0x7777, 4, rng.randbytes(4))), same
    changed = whole[:begin] + flipped(members[victim], rng) + whole[begin + len(members[victim]) :]
    yield "a bit of a member", changed, damaged("Bad CRC-32 .+")
    yield "end cut off", whole[: -rng.randrange(1, len(whole))], damaged()
    yield "beginning cut off", whole[rng.randrange(1, directory) :], f"{damaged()}|{more}"
    yield "another archive behind", whole + other, more
    yield "another archive in front", other + whole, more
    yield "another archive in the comment", patched(whole, len(whole) - 2, "H", len(other)) + other, more
    between = whole[:directory] + other + whole[directory:]
    yield "another archive between", patched(between, len(between) - 6, "I", directory + len(other)), more
    yield "bytes shared", patched(whole, entries["vocabulary.txt"][1] + 42, "I", entries["mha.json"][0]), more
    evil = packed((f"{n}@evil", d) for n, d in items).replace(b"@evil", b"\0evil")
    yield "a name that goes on behind a null byte", evil, f"{strange}no .+"
    yield "a member missing", packed((n, d) for n, d in items if n != victim), f"{strange}no .+"
    yield "a member twice", packed([*items, (victim, rng.choice((members[victim], b"", b"{}")))]), unfit
    yield "a member too many", packed([*items, (rng.choice(("../../escape", "/etc/passwd", "a" * 1000, "é", "a/")), b"")]), unfit
    yield "compression", packed(items, rng.choice((zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA))), "holds compressed members"
    yield "a compression that is not there", patched(whole, entry + 10, "H", rng.choice((8, 12, 14, 99))), "holds compressed members"
    last, (_, last_entry) = list(entries.items())[-1]
    larger = patched(patched(whole, last_entry + 20, "I", len(members[last]) + 9), len(whole) - 6, "I", directory + 9)
    yield "bytes behind a member's end", larger[:directory] + bytes(9) + larger[directory:], "holds compressed members"
    yield "a link", patched(whole, entry + 38, "I", 0o120777 << 16), "holds members that are no regular files"
    yield "encrypted", patched(whole, entry + 8, "H", 1), damaged()
    yield "header of a member", patched(whole, start, "I", rng.randrange(1 << 32)), damaged()
    yield "name of a member", patched(whole, start + 30, "B", rng.choice(b"ABC\0/")), damaged()
    keras = packed(dict.fromkeys(("metadata.json", "config.json", "model.weights.h5"), b""))
    yield "saved by Keras", keras, "not a checkpoint of mha: has no vocabulary.txt"
    yield "many members", packed((f"{number}", b"") for number in range(3000)), damaged("its directory is too large")
    yield "no archive", rng.randbytes(3000), damaged("File is not a zip file")


# Checksums and the description


def sealed(members: Members, **entries: Any) -> bytes:
    """An archive whose checksums fit, as an attacker would make it."""
    return packed(described(members, sha256=digests(members), **entries))


def checksums(original: Original, rng: random.Random) -> Made:
    """Members that differ from what their SHA-256 was taken of, with every CRC as it should be."""
    members = original.members
    right = digests(members)
    yield "none", packed(described(members, sha256=rng.choice((None, [], 1)))), "has no checksums"
    for name in right:
        stale = f"{re.escape(name)} is damaged \\(its checksum does not fit\\)"
        yield f"{name} changed", packed(members | {name: flipped(members[name], rng)}), stale
        without = {other: digest for other, digest in right.items() if other != name}
        yield f"{name} without one", packed(described(members, sha256=without)), stale
        wrong = right[name].translate(str.maketrans("0123456789abcdef", "123456789abcdef0"))
        yield f"{name} with another", packed(described(members, sha256=right | {name: wrong})), stale


def description(original: Original, rng: random.Random) -> Made:
    """Other class names, metrics and format; JSON that is none."""
    members, same = original.members, original.checkpoint
    for format_version in (None, 4, "3", "\x1b[31m"):
        yield f"format {format_version}", sealed(members, format=format_version), r"has format .+; this version of mha reads format 3"
    for text in (b"", b"\xff\xfe", members["mha.json"][:-1], b"[" * 100_000, b'{"a":' * 5000):
        yield f"{text[:9]!r}", packed(members | {"mha.json": text}), damaged()
    yield "no object", packed(members | {"mha.json": b"[3]"}), r"mha\.json is not an object"
    for value in (None, "no", {"a": 1, "b": 2}, ["one"], ["one", "one"], ["one", 2], [[], "a"]):
        yield f"class names {value}", sealed(members, class_names=value), "its class names are not two or more distinct words"
    for value in (["\x1b[31m", "\n"], ["", "🙂"]):
        yield f"class names {value}", sealed(members, class_names=value), replace(same, class_names=tuple(value))
    yield "class names with half a character", sealed(members, class_names=["a", "\ud800"]), damaged("'utf-8' codec .+")
    yield "three classes", sealed(members, class_names=["a", "b", "c"]), damaged("layers/.+ has the shape .+")
    for value in (None, [], {"a": None}, {"a": "1"}, {"a": True}, {"a": np.nan}, {"a": -np.inf}):
        yield f"metrics {value}", sealed(members, metrics=value), "its metrics are not finite numbers"
    yield "a huge metric", sealed(members, metrics={"a": 10**400}), damaged()
    yield "other metrics", sealed(members, metrics={"\x1b": -0.5}), replace(same, metrics={"\x1b": -0.5})
    for value in (None, [["positive", 0.5]], {"other": 0.5}, {"positive": 0.5, "": 0.5}):
        yield f"thresholds {value}", sealed(members, thresholds=value), "its thresholds are not those of its classes"
    for number in (None, "0.5", True, {}, -0.1, 1.1, 10**400, np.nan):
        unfit = sealed(members, thresholds={"negative": 0.5, "positive": number})
        yield f"a threshold of {str(number)[:9]}", unfit, r"its thresholds are not numbers from 0 to 1"
        of_levels = sealed(members, level_threshold=number)
        yield f"a threshold of levels, {str(number)[:9]}", of_levels, r"its thresholds are not numbers from 0 to 1"
    for value in ({"positive": 0}, {"positive": 1, "negative": rng.random()}):
        yield f"thresholds {value}", sealed(members, thresholds=value), replace(same, thresholds=value)
    yield "a threshold of levels", sealed(members, level_threshold=0.15), replace(same, level_threshold=0.15)
    alone = {"margin": 0.5, "scale": 2, "shift": [rng.random()]}
    yield "linear_alone", sealed(members, linear_alone=alone), replace(same, linear_alone=LinearAlone(0.5, 2, tuple(alone["shift"])))
    for value in ([], True, {"margin": 0.5}, alone | {"more": 1}, alone | {"shift": 0.0}):
        yield f"linear_alone {value}", sealed(members, linear_alone=value), "linear_alone does not belong to its settings"
    for other in (
        {"margin": -0.5},
        {"scale": 0},
        {"margin": np.nan},
        {"scale": True},
        {"shift": []},
        {"shift": [0.0, 0.0]},
        {"shift": [[]]},
    ):
        yield f"linear_alone {other}", sealed(members, linear_alone=alone | other), "linear_alone has odd numbers"
    yield "an entry too many", sealed(members, nonsense=1), same
    row = np.array([0.25, 0.75], "<f2").tobytes()
    held_out = HeldOut(np.array([[0.25, 0.75]], np.float32), np.array([1], np.int32))
    yield "held-out texts", sealed(members | {"held_out.f2": b"\1\0\0\0" + row}), replace(same, held_out=held_out)
    odd = [np.array(values, "<f2").tobytes() for values in ((np.nan, 1), (-0.5, 1.5), (np.inf, 0), (0.5, 0.25))]
    for content in (b"", b"\1", row + row, b"\2\0\0\0" + row, b"\xff\xff\xff\xff" + row, *(bytes(4) + values for values in odd)):
        fault = "held_out.f2 holds no labels and probabilities of its classes"
        yield f"held-out texts {content!r}", sealed(members | {"held_out.f2": content}), fault
    large = sealed(members | {"held_out.f2": bytes(40_001)})
    yield "many held-out texts", large, "held_out.f2 has 40,001 bytes; at most 40,000 belong there"
    yield "a tokenizer", sealed(members | {"tokenizer.json": b"{}"}), "its settings and tokenizer.json do not go together"
    for name, most in (("mha.json", 1_000_000), ("metadata.json", 4_000_000), ("config.json", 4_000_000)):
        for size, right in ((most, same), (most + 1, rf"{re.escape(name)} has {most + 1:,} bytes; at most {most:,} belong there")):
            large = members | {name: members[name].ljust(size)}
            if name == "config.json" and size == most:
                right = replace(same, keras_config=large[name].decode())
            yield f"{name} of {size} bytes", packed(large) if name == "mha.json" else sealed(large), right
    yield "for Keras", sealed(members | {"config.json": b"no JSON"}), replace(same, keras_config="no JSON")


# Settings


VALUES = json.loads(
    r'[null, true, -1, 0, 1, 2, 1000000000, 1180591620717411303424, 1e308, NaN, Infinity, "", "a", "\u001b[31m", [], [1], {}, '
    '"none", "pre", "gelu", "tail", "sinusoidal"]'
)


def config(original: Original, rng: random.Random) -> Made:
    """Other settings; the config model says which are in order, and the table of parameters which of those fit the weights."""
    members, same = original.members, original.checkpoint
    settings = config_to_dict(same.config)
    changes = [(section, name) for section, entries in settings.items() if isinstance(entries, dict) for name in entries]
    for section, name in [*changes, ("model", "nonsense"), ("nonsense", "a")]:
        value = rng.choice((*VALUES, rng.randrange(100)))
        edited = settings | {section: settings.get(section, {}) | {name: value}}
        yield f"{section}.{name}={value!r}", sealed(members, config=edited), outcome_of(edited, same)
    for most in (len(same.vocabulary), len(same.vocabulary) - 1):
        edited = settings | {"text": settings["text"] | {"vocabulary_size": most}}
        yield f"room for {most} ids", sealed(members, config=edited), outcome_of(edited, same)
    yield "none", sealed(members, config=None), outcome_of(None, same)
    declared = settings | {"model": settings["model"] | {"embed_dim": 50, "ngram_buckets": 2**24}}  # 3.4 GB, which are not there
    yield "declared sizes", sealed(members, config=declared), damaged("layers/.+ has the shape .+")
    open_settings = settings | {"auto": True, "model": settings["model"] | {"ngram_buckets": 0}}
    yield "auto", sealed(members, config=open_settings), "mha.json: auto=true leaves settings open, which a checkpoint has decided"
    long = settings | {"model": settings["model"] | {"num_heads": [1] * 70_000}}
    yield "long", sealed(members, config=long), r"mha\.json: the config has more than 200,000 characters"


def outcome_of(settings: Any, same: Checkpoint) -> str | Checkpoint:
    try:
        config = config_from_dict(settings, "mha.json")
    except MhaError as error:
        return re.escape(error.message)
    if config.text.vocabulary_size < len(same.vocabulary):
        return "its vocabulary has .+ ids; its settings allow .+|vocabulary.txt has .+ bytes; at most .+ belong there"
    if parameter_table(config, len(same.vocabulary), 2) != same.parameters:
        return damaged()
    return replace(same, config=config)


# Words


def vocabulary(original: Original, rng: random.Random) -> Made:
    """Other words, under checksums that fit."""
    members, same = original.members, original.checkpoint
    words = members["vocabulary.txt"].decode().split("\n")

    def given(words: list[str]) -> bytes:
        return sealed(members | {"vocabulary.txt": "\n".join(words).encode()})

    one, other = rng.sample(range(len(words)), 2)
    others = [*words[:one], rng.choice(("", "\x1b[31m", "x" * 1000, "🙂", " ")), *words[one + 1 :]]
    yield "another word", given(others), replace(same, vocabulary=Vocabulary(others))
    yield "a word twice", given([*words[:one], words[other], *words[one + 1 :]]), "a token occurs twice in its vocabulary"
    for number in (0, len(words) - 1, len(words) + 1):
        message = rf"layers/.+ has the shape \(13, 6\), not \({number + 2}, 6\)"
        yield f"{number} words", given([*words, "more"][:number]), damaged(message)
    yield "too many words", given([*words, *"bcdefghi"]), "its vocabulary has 21 ids; its settings allow 20"
    foreign = members["vocabulary.txt"].replace(b"the", b"th\xe9", 1)
    yield "not UTF-8", sealed(members | {"vocabulary.txt": foreign}), damaged("'utf-8' codec .+")
    yield "large", given(["x" * 8021]), r"vocabulary\.txt has 8,021 bytes; at most 8,020 belong there"


# Arrays in HDF5


def arrays(original: Original, rng: random.Random) -> Made:
    """Other bytes of HDF5, under checksums that fit; test_hdf5.py changes each of them."""
    members, same = original.members, original.checkpoint
    data = members["model.weights.h5"]

    def given(data: bytes) -> bytes:
        return sealed(members | {"model.weights.h5": data})

    yield "cut off", given(data[: rng.randrange(1, len(data))]), damaged()
    most = sum(4 * weight.size + 10_000 for weight in same.weights.values())
    largest = patched(data, 40, "Q", most) + bytes(most - len(data))  # its first block counts the bytes
    yield "as large as can be", given(largest), same
    yield "large", given(largest + b"\0"), rf"model\.weights\.h5 has .+ bytes; at most {most:,} belong there"
    for path, weight in rng.sample(list(same.weights.items()), 3):
        index = rng.randrange(weight.size)
        address = data.index(weight.tobytes()) + 4 * index
        for value in (np.nan, -np.inf):
            yield f"{value}", given(patched(data, address, "f", value)), f"the weight {path} holds NaN or infinite numbers"
        changed = weight.copy()
        changed.flat[index] = value = rng.choice((0.0, 3.4e38, -1e-40, rng.gauss(0, 1)))
        yield f"{value}", given(patched(data, address, "f", value)), replace(same, weights={**same.weights, path: changed})


# One byte a weight


def from_bytes(data: bytes, same: Checkpoint) -> dict[str, Any]:
    """The weights that bytes stand for, as docs/checkpoint.md has it."""
    weights, address = {}, 0
    for parameter in same.parameters:
        width, size = parameter.shape[-1], int(np.prod(parameter.shape))
        scales = np.frombuffer(data, "<f4", width, address)
        numbers = np.frombuffer(data, np.int8, size, address + 4 * width).reshape(parameter.shape)
        weights[parameter.path] = numbers.astype(np.float32) * scales
        address += 4 * width + size
    return weights


def quantization(original: Original, rng: random.Random) -> Made:
    """Other bytes of weights, under checksums that fit and that do not."""
    members, same = original.members, original.checkpoint
    data = members["weights.int8"]
    address, starts = 0, {}
    for parameter in same.parameters:
        starts[parameter.path] = address
        address += 4 * parameter.shape[-1] + int(np.prod(parameter.shape))

    def given(data: bytes) -> bytes:
        return sealed(members | {"weights.int8": data})

    path = rng.choice(list(starts))
    scale = starts[path] + 4 * rng.randrange(same.weights[path].shape[-1])
    for number in (np.nan, np.inf, -np.inf, 3e38, -3e38):
        message = rf"the weight {path} holds NaN or infinite numbers"
        yield f"a scale of {number}", given(patched(data, scale, "f", number)), message
    for number in (0.0, -0.5, 1e-44):
        other = patched(data, scale, "f", number)
        yield f"a scale of {number}", given(other), replace(same, weights=from_bytes(other, same))
    other = patched(data, len(data) - rng.randrange(1, 9), "b", -128)
    yield "a weight of -128", given(other), replace(same, weights=from_bytes(other, same))
    for other in (b"", data[:-1], data + b"\0"):
        message = rf"weights\.int8 has {len(other):,} bytes; (the settings imply|at most) {len(data):,}.*"
        yield f"{len(other) - len(data):+} bytes", given(other), message
