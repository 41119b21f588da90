"""One tiny run that the tests of this folder share."""

import dataclasses
from pathlib import Path

import pytest

from mha_cli.analysis.shuffle import ShuffleResult
from mha_cli.config.settings import Config
from mha_cli.preparation.prepare import PreparedData


@pytest.fixture(scope="session")
def shuffle_run(tiny_config: Config, tiny_data: PreparedData, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[ShuffleResult]]:
    """The model of ``tiny_config``, trained in NumPy with and without positions, and what the shuffle test says of both."""
    from mha_cli.analysis.shuffle import train_and_compare
    from tests.training.numpy_trainer import in_numpy

    output = tmp_path_factory.mktemp("shuffle") / "run"
    orderless = tiny_config.changed(model={"positions": "none"})
    with pytest.MonkeyPatch.context() as patch:
        in_numpy(patch.setattr)
        return output, train_and_compare(dataclasses.replace(tiny_data, config=orderless), output, num_shuffles=3)


@pytest.fixture(scope="session")
def checkpoint_path(shuffle_run: tuple[Path, list[ShuffleResult]]) -> Path:
    """A trained checkpoint with learned positions."""
    return shuffle_run[0] / "with-positions" / "checkpoint.keras"
