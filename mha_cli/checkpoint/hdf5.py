"""Arrays of numbers out of an HDF5 file that nobody has to trust.

HDF5 is a large format, and its library is written for files that mean well. Weights need very little of it, so this reads that little and
refuses the rest: what h5py writes for plain arrays in the oldest form of the format. That is a superblock of version 0, groups as
symbol tables, and contiguous datasets of little-endian floats without filters, attributes, links or other files.

    superblock ─▶ group: object header ─▶ B-tree ─▶ nodes of (name, object header)
                  dataset: object header ─▶ shape, type, address of the numbers

Every address is checked against the file before anything is read there. Every node of a tree has to lead to names that are wanted and
were not met before, so that no knot of nodes is work without end. Nothing is copied: the arrays are views of the bytes.
Source: HDF5 File Format Specification Version 3.0, sections II.A, III.A.1, III.B to III.D, IV.A.
"""

import math
import struct
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import PurePosixPath
from typing import Any

import numpy as np

from mha_cli.arrays import Array

SIGNATURE = b"\x89HDF\r\n\x1a\n"
DATATYPES = {  # the datatype messages of IEEE float32 and float16, little-endian, by NumPy's names
    "<f4": bytes.fromhex("11201f00 04000000 0000 2000 17 08 00 17 7f000000"),
    "<f2": bytes.fromhex("11200f00 02000000 0000 1000 0a 05 00 0a 0f000000"),
}
MESSAGES = NIL, DATASPACE, DATATYPE, FILL_VALUE, LAYOUT, SYMBOL_TABLE = 0x00, 0x01, 0x03, 0x05, 0x08, 0x11  # kinds in an object header
MAX_HEADER_BYTES = 512
MAX_NAME_BYTES = 100
MAX_TREE_LEVELS = 4


def read_arrays(data: bytearray | memoryview, shapes: Mapping[str, tuple[int, ...]], dtype: str = "<f4") -> dict[str, Array]:
    """The arrays of an HDF5 file, by path, as views of ``data``; a ValueError for anything but arrays of these shapes and this type."""
    return _Reader(data, shapes, dtype).read()


class _Reader:
    def __init__(self, data: bytearray | memoryview, shapes: Mapping[str, tuple[int, ...]], dtype: str) -> None:
        self._data, self._shapes, self._dtype, self._datatype = data, shapes, np.dtype(dtype), DATATYPES[dtype]
        self._wanted = {*shapes, *(str(group) for path in shapes for group in PurePosixPath(path).parents)} - {"."}  # and not met yet
        self._blocks: list[tuple[int, int]] = []

    def read(self) -> dict[str, Array]:
        _require(self._slice(0, len(SIGNATURE)) == SIGNATURE, "not an HDF5 file")
        version, offset_bytes, length_bytes = self._unpack("8x B 4x B B", 0)
        is_oldest = (version, offset_bytes, length_bytes, *self._unpack("Q", 24)) == (0, 8, 8, 0)
        _require(is_oldest, "another form of HDF5 than mha writes")
        _require(self._unpack("Q", 40) == (len(self._data),), "has another length than its first block says")
        (root,) = self._unpack("Q", 64)
        arrays = dict(self._read_group(root, ""))
        for path in sorted(self._wanted):
            raise ValueError(f"{path} is missing")
        _require(all(end <= start for (_, end), (start, _) in pairwise(sorted(self._blocks))), "two arrays overlap")
        return arrays

    def _read_group(self, address: int, path: str) -> Iterator[tuple[str, Array]]:
        messages = self._messages(address, path)
        _require(set(messages) == {SYMBOL_TABLE}, f"{path or '/'} is not a plain group")
        for name, header in self._entries(*self._unpack("QQ", messages[SYMBOL_TABLE])):
            below = f"{path}/{name.decode(errors='backslashreplace')}".lstrip("/")
            _require(b"/" not in name and below in self._wanted, f"holds {below}, which does not belong there")
            self._wanted.remove(below)
            if below in self._shapes:
                yield below, self._read_array(header, below)
            else:
                yield from self._read_group(header, below)

    def _entries(self, tree: int, heap: int) -> Iterator[tuple[bytes, int]]:
        signature, version, heap_size, names = self._unpack("4s B 3x Q 8x Q", heap)
        _require(signature == b"HEAP" and version == 0, "a group's names are damaged")
        for node in self._leaves(tree, MAX_TREE_LEVELS):
            signature, version, used = self._unpack("4s B x H", node)
            _require(signature == b"SNOD" and version == 1 and used > 0, "a group's table is damaged")
            for entry in range(node + 8, node + 8 + 40 * used, 40):
                name_offset, header, cached = self._unpack("Q Q I", entry)
                _require(name_offset < heap_size, "a name lies outside its group")
                name = self._slice(names + name_offset, MAX_NAME_BYTES).partition(b"\0")[0]
                _require(cached <= 1, f"{name.decode(errors='backslashreplace')} is a link")
                yield name, header

    def _leaves(self, address: int, levels: int) -> Iterator[int]:
        """Addresses of the leaves of a B-tree of at most ``levels`` levels."""
        signature, kind, level, used = self._unpack("4s B B H", address)
        _require(signature == b"TREE" and kind == 0 and level < levels and used > 0, "a group's tree is damaged")
        for entry in range(address + 32, address + 32 + 16 * used, 16):
            (child,) = self._unpack("Q", entry)
            if level:
                yield from self._leaves(child, level)
            else:
                yield child

    def _read_array(self, address: int, path: str) -> Array:
        messages = self._messages(address, path)
        _require(set(messages) - {FILL_VALUE} == {DATASPACE, DATATYPE, LAYOUT}, f"{path} is not an array")
        address = messages[DATASPACE]
        version, rank, flags = self._unpack("BBB", address)
        _require(version == 1 and flags <= 1, f"{path} has no plain shape")
        shape = self._unpack(f"{rank}Q", address + 8)
        _require(not flags or self._unpack(f"{rank}Q", address + 8 + 8 * rank) == shape, f"{path} can grow")
        _require(shape == self._shapes[path], f"{path} has the shape {shape}, not {self._shapes[path]}")
        has_type = self._slice(messages[DATATYPE], len(self._datatype)) == self._datatype
        _require(has_type, f"{path} does not hold little-endian {self._dtype.name} numbers")
        version, kind, start, size = self._unpack("BBQQ", messages[LAYOUT])
        count = math.prod(shape)
        _require((version, kind) == (3, 1), f"{path} is not stored as one plain block")
        _require(size == self._dtype.itemsize * count and start <= len(self._data) - size, f"{path} does not lie in the file")
        self._blocks.append((start, start + size))
        return np.frombuffer(self._data, self._dtype, count, start).reshape(shape)

    def _messages(self, address: int, path: str) -> dict[int, int]:
        """Addresses of the bodies of an object header's messages, by kind."""
        version, count, references, size = self._unpack("B x H I I", address)
        _require(version == 1 and size <= MAX_HEADER_BYTES, f"{path or '/'} has another kind of header than mha writes")
        _require(references == 1, f"{path or '/'} is linked more than once")
        messages: dict[int, int] = {}
        message, end = address + 16, address + 16 + size
        for _ in range(count):
            kind, length, flags = self._unpack("HHB", message)
            body, message = message + 8, message + 8 + length
            is_plain = message <= end and flags <= 1 and kind not in messages and kind in MESSAGES
            _require(is_plain, f"{path or '/'} has more than a plain array or group has")
            if kind != NIL:
                messages[kind] = body
        return messages

    def _unpack(self, fields: str, address: int) -> tuple[Any, ...]:
        layout = struct.Struct("<" + fields)
        _require(address <= len(self._data) - layout.size, "an address lies outside the file")
        return layout.unpack_from(self._data, address)

    def _slice(self, address: int, size: int) -> bytes:
        return bytes(self._data[address : address + size])


def _require(holds: bool, problem: str) -> None:
    if not holds:
        raise ValueError(problem)
