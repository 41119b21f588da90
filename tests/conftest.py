"""What several folders of tests share: a range of small configs, and random weights for them."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest
from hypothesis import settings

from mha_cli.config.loading import config_from_dict
from mha_cli.config.parameters import parameter_table
from mha_cli.config.settings import Config, ModelConfig, SampleData, TextConfig, TrainingConfig
from mha_cli.preparation.prepare import PreparedData
from tests.checkpoints import small_checkpoint_file

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from tests.cli.command import Mha

# Before anything imports Keras.
os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

settings.register_profile("mha", deadline=None)  # no test asserts a time
settings.load_profile("mha")

TAKE_MINUTES = ("test_imdb.py", "test_backends.py", "test_docs.py")
"""Files that begin first, so that no process is left with one of their tests when the others have ended."""


def pytest_configure(config: pytest.Config) -> None:
    # Keras's variables have not yet learnt NumPy 2's argument.
    config.addinivalue_line("filterwarnings", "ignore:__array__ implementation doesn't accept a copy keyword:DeprecationWarning")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path.name not in TAKE_MINUTES)


def pytest_collection_finish() -> None:
    gc.freeze()  # what has been imported stays, and need not be looked through again and again


class ModelCase(NamedTuple):
    """A config with all that ``build_classifier`` and ``parameter_table`` want beside it."""

    config: Config
    vocabulary_size: int
    num_classes: int


def _case(num_classes: int = 2, characters: int = 0, linear: dict[str, Any] | None = None, **model: Any) -> ModelCase:
    sizes = {"embed_dim": 14, "num_heads": 2, "feed_forward_dim": 17}
    text = {"vocabulary_size": 29, "sequence_length": 13}  # more ids allowed than the vocabulary really has
    text["subword_characters"] = characters
    config = config_from_dict({"text": text, "model": {**sizes, **model}, "linear": linear}, "test")
    return ModelCase(config, 23, num_classes)


MODEL_CASES = {
    "post": _case(),
    "pre": _case(normalization="pre", num_classes=3),
    "gelu": _case(activation="gelu", pooling="first"),
    "sinusoidal-odd-width": _case(positions="sinusoidal", embed_dim=11, key_dim=5),
    "no-positions": _case(positions="none", num_classes=3),
    "key-dim": _case(key_dim=3, normalization="pre", positions="sinusoidal", num_classes=5),
    "bigrams": _case(max_ngram=2, ngram_buckets=32),
    "five-grams-sinusoidal": _case(max_ngram=5, ngram_buckets=64, positions="sinusoidal", num_classes=3),
    "convolution": _case(conv_kernel_size=3, max_ngram=2, ngram_buckets=32, num_classes=3),
    "wide-convolution": _case(conv_kernel_size=9, positions="sinusoidal"),
    "linear": _case(linear={"max_ngram": 3, "buckets": 64}),
    "linear-and-ngrams": _case(linear={"max_ngram": 2, "buckets": 32, "end_decay": 3}, max_ngram=3, ngram_buckets=32, num_classes=3),
    "linear-in-windows": _case(linear={"max_ngram": 2, "buckets": 32, "end_decay": 3, "context_windows": [1, 4]}, num_classes=3),
    "linear-no-positions": _case(linear={"max_ngram": 1, "buckets": 8}, positions="none", num_classes=5),
    "subwords": _case(characters=11, subword_buckets=32, max_ngram=2, ngram_buckets=32, num_classes=77),
    "subwords-in-linear": _case(characters=7, linear={"max_ngram": 2, "buckets": 64, "end_decay": 3, "context_windows": [2]}),
    "subwords-of-three": _case(characters=3, subword_buckets=1, linear={"max_ngram": 1, "buckets": 8}, positions="none", num_classes=3),
    "heads-by-block": _case(num_blocks=3, num_heads=[3, 1, 5], key_dim=3),
    "three-blocks": _case(num_blocks=3, normalization="pre", activation="gelu"),
    "rotary": _case(positions="rotary", key_dim=6, rotary_base=100.0, activation="silu"),
    "local-and-global": _case(
        positions="rotary", num_blocks=3, key_dim=4, max_distance=2, global_every=2, local_rotary_base=50.0, normalization="pre", gated=True
    ),
    "linear-biases-causal": _case(positions="linear_biases", num_heads=3, key_dim=5, causal=True, pooling="last", num_classes=3),
    "grouped-rms": _case(num_heads=6, num_key_value_heads=2, key_dim=5, norm="rms", query_key_norm=True, gated=True, activation="silu"),
    "normalized-keys": _case(positions="rotary", key_dim=4, query_key_norm=True, max_distance=3, causal=True, num_key_value_heads=1),
}


@pytest.fixture(params=MODEL_CASES.values(), ids=MODEL_CASES.keys())
def model_case(request: pytest.FixtureRequest) -> ModelCase:
    """Every kind of model in turn, in small and mostly prime sizes."""
    return request.param


@pytest.fixture
def random_weights() -> Callable[[Config, int, int], dict[str, np.ndarray]]:
    """A function from config, vocabulary size and number of classes to random weights by path, biases and norms included."""

    def draw(config: Config, vocabulary_size: int, num_classes: int) -> dict[str, np.ndarray]:
        return {
            parameter.path: np.random.default_rng(zlib.crc32(parameter.path.encode())).normal(0.0, 0.4, parameter.shape).astype(np.float32)
            for parameter in parameter_table(config, vocabulary_size, num_classes)
        }

    return draw


@pytest.fixture
def in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``tmp_path`` is the current folder."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint with random weights, for commands that only have to have one. Not to be written to."""
    return small_checkpoint_file(tmp_path_factory.mktemp("small") / "small.keras")


@pytest.fixture
def cwd(tmp_path: Path) -> Path:
    """The folder that ``mha`` runs in: an empty one."""
    return tmp_path


@pytest.fixture
def mha(cwd: Path) -> Mha:
    """``mha ARGS`` in that folder, in this process."""
    from tests.cli.command import run_here

    return partial(run_here, cwd=cwd)


@pytest.fixture
def untraced() -> Iterator[None]:
    """A test ``step_by_step``."""
    from tests.cli.command import step_by_step

    with step_by_step():
        yield


@pytest.fixture(scope="module")
def trained_in_numpy() -> Iterator[None]:
    """Every trainer is one in NumPy."""
    from tests.training.numpy_trainer import in_numpy

    with pytest.MonkeyPatch.context() as patch:
        in_numpy(patch.setattr)
        yield


@pytest.fixture
def sigint_obeyed() -> Iterator[None]:
    """Ctrl-C as a terminal's shell sets it up; tests that were started in the background would ignore it."""
    earlier = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, earlier)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One Chromium for a file of tests; every page has a profile of its own."""
    sync_api = pytest.importorskip("playwright.sync_api")
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome") or ""
    with sync_api.sync_playwright() as playwright, playwright.chromium.launch(executable_path=path, args=["--no-sandbox"]) as browser:
        yield browser


@pytest.fixture(scope="session")
def tiny_config() -> Config:
    """400 sample reviews, 360 of them to train on, and a model of a few thousand weights."""
    return Config(
        seed=3,
        data=SampleData(num_texts=400),
        text=TextConfig(vocabulary_size=300, sequence_length=24),
        model=ModelConfig(embed_dim=16, num_heads=2, feed_forward_dim=24, dropout=0.0),
        training=TrainingConfig(epochs=2, batch_size=32, learning_rate=3e-3),
    )


@pytest.fixture(scope="session")
def tiny_data(tiny_config: Config) -> PreparedData:
    from mha_cli.preparation.prepare import prepare

    return prepare(tiny_config)
