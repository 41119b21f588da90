import io
import math
import zipfile
from collections.abc import Callable
from pathlib import Path

import h5py
import keras
import numpy as np
import pytest

from mha_cli.config.loading import config_from_dict
from mha_cli.config.parameters import num_parameters, parameter_table
from mha_cli.model.classifier import build_classifier
from tests.conftest import MODEL_CASES, ModelCase
from tests.reviews import with_characters


def test_table_equals_the_keras_model(model_case: ModelCase) -> None:
    table = parameter_table(*model_case)
    model = build_classifier(*model_case)
    assert [(parameter.path, parameter.shape) for parameter in table] == [
        (variable.path, tuple(variable.shape)) for variable in model.weights
    ]
    total = sum(math.prod(parameter.shape) for parameter in table)
    assert total == num_parameters(model_case.config, model_case.vocabulary_size, model_case.num_classes)


@pytest.mark.parametrize("name", ["heads-by-block", "linear-in-windows", "subwords", "sinusoidal-odd-width"])
def test_table_equals_a_file_that_keras_saved(name: str, random_weights: Callable[..., dict[str, np.ndarray]], tmp_path: Path) -> None:
    model_case = MODEL_CASES[name]
    table, model, weights = parameter_table(*model_case), build_classifier(*model_case), random_weights(*model_case)
    for variable in model.weights:
        variable.assign(weights[variable.path])
    model.save(tmp_path / "model.keras")
    token_ids = np.array([[7, 2, 1, 22, 5], [11, 0, 0, 0, 0], [0] * 5], np.int32)
    tokens = with_characters(token_ids, model_case.config.text.subword_characters)
    np.testing.assert_array_equal(keras.models.load_model(tmp_path / "model.keras")(tokens), model(tokens))

    with zipfile.ZipFile(tmp_path / "model.keras") as archive:
        file = h5py.File(io.BytesIO(archive.read("model.weights.h5")))
    stored: dict[str, np.ndarray] = {}
    file.visititems(lambda path, node: stored.update({path: node[()]}) if isinstance(node, h5py.Dataset) else None)
    # Dropout layers keep the state of their random numbers there too.
    stored = {path: array for path, array in stored.items() if "seed_generator" not in path}
    assert {parameter.hdf5_path: parameter.shape for parameter in table} == {path: array.shape for path, array in stored.items()}
    for parameter in table:
        assert stored[parameter.hdf5_path].dtype == np.float32
        np.testing.assert_array_equal(stored[parameter.hdf5_path], weights[parameter.path], err_msg=parameter.path)


def test_known_sizes() -> None:
    # 20,000 × 64 + 600 × 64 + (4 × (64 × 64 + 64) + 2 × (64 + 64) + 64 × 128 + 128 + 128 × 64 + 64) + 64 + 1
    config = config_from_dict({"text": {"vocabulary_size": 20_000, "sequence_length": 600}}, "test")
    assert num_parameters(config, 20_000) == 1_351_937
