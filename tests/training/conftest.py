"""What the tests with a trainer in NumPy share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.training.numpy_trainer import in_numpy, numpy_data

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mha_cli.data.preparation import PreparedData


@pytest.fixture(scope="module")
def trained_in_numpy() -> Iterator[None]:
    """Every trainer is one in NumPy."""
    with pytest.MonkeyPatch.context() as patch:
        in_numpy(patch.setattr)
        yield


@pytest.fixture(scope="module")
def data() -> PreparedData:
    """The texts of a trainer in NumPy."""
    return numpy_data()
