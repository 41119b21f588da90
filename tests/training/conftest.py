"""The texts of a trainer in NumPy."""

import pytest

from mha_cli.preparation.prepare import PreparedData
from tests.training.numpy_trainer import numpy_data


@pytest.fixture(scope="module")
def data() -> PreparedData:
    return numpy_data()
