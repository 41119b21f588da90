"""The texts of a trainer in NumPy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.training.numpy_trainer import numpy_data

if TYPE_CHECKING:
    from mha_cli.data.preparation import PreparedData


@pytest.fixture(scope="module")
def data() -> PreparedData:
    """The texts of a trainer in NumPy."""
    return numpy_data()
