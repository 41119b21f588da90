"""The reader of weights against h5py, the reference implementation, and against files that mean no good."""

import io
import random
import struct
from collections.abc import Mapping
from itertools import combinations

import h5py
import numpy as np
import pytest

from mha_cli.checkpoint import hdf5
from mha_cli.checkpoint.hdf5 import read_arrays
from tests.checkpoint.refusals import Line, lines_of, refusals_of


def written(arrays: Mapping[str, np.ndarray]) -> bytearray:
    """An HDF5 file of these arrays."""
    buffer = io.BytesIO()
    with h5py.File(buffer, "w", libver="earliest") as file:
        for path, array in arrays.items():
            file.create_dataset(path, data=array)
    return bytearray(buffer.getvalue())


def shapes(arrays: Mapping[str, np.ndarray]) -> dict[str, tuple[int, ...]]:
    return {path: array.shape for path, array in arrays.items()}


def drawn(paths: list[str], dtype: str = "<f4") -> dict[str, np.ndarray]:
    """Random arrays of different shapes."""
    rng = np.random.default_rng(0)
    return {path: rng.normal(size=rng.integers(1, 5, rng.integers(1, 4))).astype(dtype) for path in paths}


SMALL = drawn(["a/b/0", "a/b/1", "a/c", "d"])
FILE = written(SMALL)


@pytest.mark.parametrize(("number", "dtype"), [(1, "<f4"), (9, "<f2"), (70, "<f4"), (1300, "<f4")])
def test_what_h5py_writes_is_read(number: int, dtype: str) -> None:
    arrays = drawn([f"layers/some_{index}/vars/{index % 3}" for index in range(number)], dtype)
    data = written(arrays)
    found = read_arrays(data, shapes(arrays), dtype)
    assert found.keys() == arrays.keys()
    for path, array in arrays.items():
        assert found[path].dtype == dtype
        np.testing.assert_array_equal(found[path], array)
        assert np.shares_memory(found[path], np.frombuffer(data, np.uint8))  # nothing is copied


@pytest.mark.parametrize(("dtype", "name"), [("<f4", "float16"), ("<f2", "float32"), (">f2", "float16"), ("<i2", "float16")])
def test_numbers_of_another_type_are_refused(dtype: str, name: str) -> None:
    with pytest.raises(ValueError, match=f"^a does not hold little-endian {name} numbers$"):
        read_arrays(written(drawn(["a"], dtype)), shapes(drawn(["a"])), {"float32": "<f4", "float16": "<f2"}[name])


@pytest.mark.parametrize(("used", "message"), [(0, "a group's tree is damaged"), (1, "holds a, which does not belong there")])
def test_a_knot_of_nodes_is_no_work_without_end(used: int, message: str) -> None:
    data = bytearray(FILE)
    below = data.index(b"TREE")
    root = data.index(struct.pack("<Q", below), 96)  # the superblock has it, too, and it is not read there
    struct.pack_into("<H", data, below + 6, used)
    for level in (1, 2, 3):  # each has the one below 65,535 times
        node = struct.pack("<4sBBH16x", b"TREE", 0, level, 65_535) + struct.pack("<8xQ", below) * 65_535
        below = len(data)
        data += node
    struct.pack_into("<Q", data, root, below)
    struct.pack_into("<Q", data, 40, len(data))
    with pytest.raises(ValueError, match=f"^{message}$"):
        read_arrays(data, shapes(SMALL))


def test_damage_anywhere_is_refused_or_harmless() -> None:
    """Another byte at every address, and eight bytes from elsewhere at some: every refusal is reached."""
    rng, reached = random.Random(0), set[Line]()
    bytes_changed = [(place, bytes([value])) for place, byte in enumerate(FILE) for value in (byte ^ 1, (byte - 1) % 256)]
    words = [FILE[address : address + 8] for address in range(0, len(FILE), 8) if any(FILE[address : address + 8])]
    words_moved = [(rng.randrange(0, len(FILE), 8), rng.choice(words)) for _ in range(3000)]
    for place, other in (*bytes_changed, *words_moved):
        damaged = bytearray(FILE)
        damaged[place : place + len(other)] = other
        try:
            found = read_arrays(damaged, shapes(SMALL))
        except ValueError as error:
            assert type(error) is ValueError
            reached.update(lines_of(error))
        else:
            assert shapes(found) == shapes(SMALL)
            assert not any(np.shares_memory(one, other) for one, other in combinations(found.values(), 2))
    assert refusals_of(hdf5) <= reached


def test_a_name_with_a_slash_is_no_path() -> None:
    data = bytearray(written(drawn(["a_0"])).replace(b"a_0", b"a/0"))
    with pytest.raises(ValueError, match=r"^holds a/0, which does not belong there$"):
        read_arrays(data, {"a/0": (2, 3)})
