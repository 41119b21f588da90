"""Damaged and hostile checkpoints, made from a good one; see fuzz_checkpoint.py."""

from __future__ import annotations

import hashlib
import io
import json
import random
import struct
import warnings
import zipfile
from collections.abc import Callable, Iterable
from typing import NamedTuple

Members = dict[str, bytes]
NUMBERS = (0, 1, 2, 3, 7, 8, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**64 - 1)
VALUES = (
    None,
    True,
    -1,
    0,
    1,
    2,
    10**9,
    2**70,
    10**400,
    1e308,
    float("nan"),
    float("inf"),
    "",
    "a",
    "\x1b[31m",
    "\ud800",
    [],
    [1],
    [[]],
    {},
)


def packed(members: Iterable[tuple[str, bytes]], compression: int = zipfile.ZIP_STORED) -> bytes:
    """An archive of these names and contents."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive, warnings.catch_warnings(action="ignore"):  # names that stand twice
        for name, data in members:
            archive.writestr(name, data)
    return buffer.getvalue()


def sealed(members: Members) -> bytes:
    """An archive whose checksums fit."""
    try:
        description = json.loads(members["mha.json"])
        description["sha256"] = {name: hashlib.sha256(data).hexdigest() for name, data in members.items() if name != "mha.json"}
        members = members | {"mha.json": json.dumps(description).encode()}
    except (ValueError, TypeError, RecursionError):
        pass  # a description that is beyond repair goes in as it is
    return packed(members.items())


# Mutations of bytes


def flip(data: bytes, rng: random.Random) -> bytes:
    """Some bits the other way round."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 10, 100))):
        if changed:
            changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def truncate(data: bytes, rng: random.Random) -> bytes:
    """The beginning or the end only."""
    place = rng.randrange(len(data) + 1)
    return rng.choice((data[:place], data[:place], data[place:]))


def splice(data: bytes, rng: random.Random) -> bytes:
    """A piece of it somewhere else: over what was there, or put in between, or only taken out."""
    size = rng.choice((1, 4, 8, 40, 300))
    start, target = rng.randrange(len(data) + 1), rng.randrange(len(data) + 1)
    piece = data[start : start + size]
    return rng.choice(
        (data[:target] + piece + data[target + size :], data[:target] + piece + data[target:], data[:start] + data[start + size :])
    )


def resize(data: bytes, rng: random.Random) -> bytes:
    """More bytes at one end."""
    more = rng.choice((bytes, rng.randbytes))(rng.choice((1, 22, 1000, 100_000)))
    return rng.choice((data + more, more + data))


def renumber(data: bytes, rng: random.Random) -> bytes:
    """Sizes, counts and addresses that promise something else."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 5))):
        form = rng.choice("BHIQ")
        width = struct.calcsize(form)
        if len(data) < width:
            break
        # Half of them near the end, where the archive's directory is, and on the places that HDF5 prefers.
        place = rng.randrange(len(data) - width + 1) if rng.random() < 0.5 else max(0, len(data) - width - rng.randrange(500))
        place = place if rng.random() < 0.5 else place // 4 * 4
        number = rng.choice(NUMBERS) if rng.random() < 0.6 else rng.randrange(2 * len(data))
        struct.pack_into(f"<{form}", changed, place, number % 256**width)
    return bytes(changed)


BYTES: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "flip": flip,
    "truncate": truncate,
    "splice": splice,
    "resize": resize,
    "renumber": renumber,
}


# Mutations of an archive


def rename(members: Members, rng: random.Random) -> bytes:
    """A member under another name."""
    victim = rng.choice(list(members))
    name = rng.choice(("../../escape", "/etc/passwd", "a" * 1000, "mha.json/", "MHA.JSON", "é", *members))
    return packed((name if member == victim else member, data) for member, data in members.items())


def duplicate(members: Members, rng: random.Random) -> bytes:
    """A member twice, the second time with other content."""
    victim = rng.choice(list(members))
    return packed([*members.items(), (victim, rng.choice((members[victim], b"", b"{}", b"other")))])


def drop(members: Members, rng: random.Random) -> bytes:
    """A member is missing."""
    victim = rng.choice(list(members))
    return packed((member, data) for member, data in members.items() if member != victim)


def exchange(members: Members, rng: random.Random) -> bytes:
    """Two members with each other's content."""
    one, other = rng.sample(list(members), 2)
    return sealed(members | {one: members[other], other: members[one]})


def compress(members: Members, rng: random.Random) -> bytes:
    """Members that have to be unpacked, to very much perhaps."""
    more = {rng.choice(list(members)): bytes(rng.choice((1, 50_000_000)))}
    return packed((members | more).items(), rng.choice((zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2)))


def edit_config(members: Members, rng: random.Random) -> bytes:
    """Other settings, sealed."""
    description = json.loads(members["mha.json"])
    for _ in range(rng.choice((1, 1, 2))):
        section = rng.choice(["", *description["config"]])
        node = description["config"][section] if section else description["config"]
        node = node if isinstance(node, dict) else description["config"]
        node[rng.choice([*node, "nonsense"])] = rng.choice(
            (*VALUES, rng.randrange(100), rng.choice(("none", "pre", "gelu", "tail", "sinusoidal")))
        )
    return sealed(members | {"mha.json": json.dumps(description).encode()})


def edit_description(members: Members, rng: random.Random) -> bytes:
    """Other class names, metrics, format or checksums."""
    description = json.loads(members["mha.json"])
    choices = (*VALUES, ["a", "b"], ["\x1b[31m", "\n"], ["a", "b", "c"], {"epoch": float("nan")}, {"\x1b[31m": 1})
    description[rng.choice([*description, "nonsense"])] = rng.choice(choices)
    return (sealed if rng.random() < 0.7 else lambda members: packed(members.items()))(
        members | {"mha.json": json.dumps(description).encode()}
    )


def nest(members: Members, rng: random.Random) -> bytes:
    """JSON without end."""
    depth = rng.choice((100, 900, 990, 5_000, 100_000))
    deep = rng.choice((b"[" * depth + b"]" * depth, b'{"a":' * depth + b"1" + b"}" * depth))
    return packed((members | {"mha.json": rng.choice((deep, b'{"format":3,"sha256":{},"config":' + deep + b"}"))}).items())


def within(member: str, kinds: tuple[str, ...]) -> Callable[[Members, random.Random], bytes]:
    """Bytes of one member changed, sealed."""
    return lambda members, rng: sealed(members | {member: BYTES[rng.choice(kinds)](members[member], rng)})


def hdf5_header(members: Members, rng: random.Random) -> bytes:
    """Bytes of the HDF5 file that are not zero, and so most likely mean something; sealed."""
    data = bytearray(members["model.weights.h5"])
    marks = [
        mark for mark in (b"\x89HDF", b"TREE", b"HEAP", b"SNOD", b"\x01\x00\x05\x00\x01\x00\x00\x00", b"\x11\x20\x1f\x00") if mark in data
    ]
    for _ in range(rng.choice((1, 1, 2, 4))):
        mark = rng.choice(marks)
        starts = [place for place in range(len(data)) if data.startswith(mark, place)]
        if not starts:
            continue
        place = min(rng.choice(starts) + rng.randrange(96), len(data) - 8)
        if rng.random() < 0.5:
            data[place] = rng.choice((rng.randrange(256), data[place] ^ 1 << rng.randrange(8)))
        else:
            struct.pack_into("<Q", data, min(place // 4 * 4, len(data) - 8), rng.choice((*NUMBERS, *starts)))
    return sealed(members | {"model.weights.h5": bytes(data)})


class Mutation(NamedTuple):
    """A way to make mutants.

    Args:
        change: from the bytes and the members of a checkpoint to the bytes of a mutant.
        sealed: whether checksums are made to fit.
        small: whether the checkpoint is in the small form.
    """

    change: Callable[[bytes, Members, random.Random], bytes]
    sealed: bool = False
    small: bool = False


def anywhere(whole: bytes, members: Members, rng: random.Random) -> bytes:
    """Any of the mutations of bytes."""
    return rng.choice(list(BYTES.values()))(whole, rng)


def of_bytes(change: Callable[[bytes, random.Random], bytes]) -> Mutation:
    """Bytes of the archive changed, wherever they are."""
    return Mutation(lambda whole, members, rng: change(whole, rng))


def of_members(change: Callable[[Members, random.Random], bytes], sealed: bool = False, small: bool = False) -> Mutation:
    """An archive of other members."""
    return Mutation(lambda whole, members, rng: change(members, rng), sealed, small)


ANY = tuple(BYTES)
MUTATIONS = {
    **{name: of_bytes(change) for name, change in BYTES.items()},
    "rename": of_members(rename),
    "duplicate": of_members(duplicate),
    "drop": of_members(drop),
    "exchange": of_members(exchange, sealed=True),
    "compress": of_members(compress),
    "config": of_members(edit_config, sealed=True),
    "description": of_members(edit_description, sealed=True),
    "description bytes": of_members(within("mha.json", ANY), sealed=True),
    "nest": of_members(nest),
    "vocabulary": of_members(within("vocabulary.txt", ANY), sealed=True),
    "weights": of_members(within("model.weights.h5", ANY), sealed=True),
    "HDF5 header": of_members(hdf5_header, sealed=True),
    "HDF5 numbers": of_members(within("model.weights.h5", ("renumber",)), sealed=True),
    "for Keras": of_members(within("config.json", ANY), sealed=True),
    "small form": Mutation(anywhere, small=True),
    "small config": of_members(edit_config, sealed=True, small=True),
    "small weights": of_members(within("weights.int8", ANY), sealed=True, small=True),
}


def kind_of(seed: int, number: int) -> tuple[str, random.Random]:
    """Which mutation makes a mutant, and what draws the rest; both depend on seed and number alone."""
    rng = random.Random(f"{seed}/{number}")
    return rng.choice(list(MUTATIONS)), rng
