"""The reader of weights against h5py, the reference implementation, and against files that mean no good."""

from __future__ import annotations

import io
import struct
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mha_cli.checkpoint.hdf5 import read_arrays

if TYPE_CHECKING:
    from collections.abc import Mapping

Arrays = dict[str, Any]


def written(arrays: Mapping[str, np.ndarray], libver: str = "earliest") -> bytearray:
    """An HDF5 file of these arrays."""
    buffer = io.BytesIO()
    with h5py.File(buffer, "w", libver=libver) as file:
        for path, array in arrays.items():
            file.create_dataset(path, data=array)
    return bytearray(buffer.getvalue())


def shapes(arrays: Mapping[str, np.ndarray]) -> dict[str, tuple[int, ...]]:
    return {path: array.shape for path, array in arrays.items()}


def drawn(paths: list[str], seed: int = 0) -> Arrays:
    """Random arrays of different shapes."""
    rng = np.random.default_rng(seed)
    return {path: rng.normal(size=rng.integers(1, 5, rng.integers(1, 4))).astype(np.float32) for path in paths}


SMALL = drawn(["a/b/0", "a/b/1", "a/c", "d"])
FILE = written(SMALL)


def refusal(data: bytearray, arrays: Mapping[str, np.ndarray] = SMALL) -> str:
    with pytest.raises(ValueError) as raised:
        read_arrays(data, shapes(arrays))
    assert type(raised.value) is ValueError
    return str(raised.value)


@pytest.mark.parametrize("number", [1, 8, 9, 70, 300, 1300])
def test_what_h5py_writes_is_read(number: int) -> None:
    arrays = drawn([f"layers/some_{index}/vars/{index % 3}" for index in range(number)])
    found = read_arrays(written(arrays), shapes(arrays))
    assert found.keys() == arrays.keys()
    for path, array in arrays.items():
        assert found[path].dtype == np.float32
        np.testing.assert_array_equal(found[path], array)


@given(st.lists(st.text("abz019_", min_size=1, max_size=4), min_size=1, max_size=12, unique=True), st.integers(0, 99))
def test_trees_of_any_form(names: list[str], seed: int) -> None:
    paths = ["/".join([*(f"g{letter}" for letter in name[:-1]), f"{name}.x"]) for name in names]
    arrays = drawn(paths, seed)
    found = read_arrays(written(arrays), shapes(arrays))
    assert all(np.array_equal(found[path], array) for path, array in arrays.items())


def test_nothing_is_copied() -> None:
    data = bytearray(FILE)
    found = read_arrays(data, shapes(SMALL))
    assert all(np.shares_memory(array, np.frombuffer(data, np.uint8)) for array in found.values())


def test_newer_forms_of_the_format() -> None:
    assert refusal(written(SMALL, "latest")) == "another form of HDF5 than mha writes"


def test_more_and_less_than_is_wanted() -> None:
    assert refusal(FILE, {**SMALL, "a/e": SMALL["d"]}) == "a/e is missing"
    assert refusal(FILE, {**SMALL, "e/f": SMALL["d"]}) == "e is missing"
    assert refusal(FILE, {"d": SMALL["d"]}) == "holds a, which does not belong there"
    assert refusal(FILE, {**SMALL, "d": np.ones((99, 2))}) == f"d has the shape {SMALL['d'].shape}, not (99, 2)"
    assert refusal(FILE, {"a": SMALL["d"], "d": SMALL["d"]}) == "a is not an array"


def test_a_file_cut_anywhere() -> None:
    for size in range(0, len(FILE) - 4, 7):
        refusal(FILE[:size])


def test_a_group_that_holds_itself() -> None:
    data = bytearray(FILE)
    (root,) = struct.unpack_from("<Q", data, 64)
    entry = data.index(b"SNOD") + 8 + 8
    struct.pack_into("<Q", data, entry, root)
    assert refusal(data) == "holds a/a, which does not belong there"


def test_a_tree_that_holds_itself() -> None:
    data = bytearray(FILE)
    tree = data.index(b"TREE")
    data[tree + 5] = 3
    struct.pack_into("<Q", data, tree + 32, tree)
    assert refusal(data) == "a group's tree is damaged"


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
    assert refusal(data) == message


def test_two_arrays_in_one_place() -> None:
    arrays = drawn(["a"]) | drawn(["b"])
    data = written(arrays)
    kernel = arrays["a"].tobytes()
    first = data.index(kernel)
    second = data.index(kernel, first + 1)
    place = data.index(struct.pack("<QQ", second, len(kernel)))
    struct.pack_into("<Q", data, place, first + 4)
    assert refusal(data, arrays) == "two arrays overlap"


@given(st.data())
def test_damage_is_refused_or_leaves_the_shapes(data: st.DataObject) -> None:
    damaged = bytearray(FILE)
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(damaged) - 8))
        if data.draw(st.booleans()):
            damaged[place] = data.draw(st.integers(0, 255))
        else:  # an address, or what is taken for one
            struct.pack_into("<Q", damaged, place // 8 * 8, data.draw(st.integers(0, len(FILE)) | st.integers(0, 2**64 - 1)))
    try:
        found = read_arrays(damaged, shapes(SMALL))
    except ValueError as error:
        assert type(error) is ValueError
    else:
        assert shapes(found) == shapes(SMALL)


def test_every_byte_that_matters() -> None:
    for place in range(len(FILE)):
        for value in {FILE[place] ^ 1, FILE[place] ^ 255, 0, 255}:
            damaged = bytearray(FILE)
            damaged[place] = value
            try:
                assert shapes(read_arrays(damaged, shapes(SMALL))) == shapes(SMALL)
            except ValueError as error:
                assert type(error) is ValueError
