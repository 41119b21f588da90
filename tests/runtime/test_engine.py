import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mha_cli.checkpoint.file import Checkpoint
from mha_cli.errors import EXIT_FAILURE, MhaError
from mha_cli.runtime import probabilities
from mha_cli.runtime.classifier import Classifier
from mha_cli.runtime.engine import MANY_TEXTS, Engine, Precision, multiplications, usual_engine
from mha_cli.system.processor import bfloat16_features
from mha_cli.text.encoding import EncodedText
from mha_cli.text.vocabulary import Vocabulary
from tests.checkpoints import as_read, small_checkpoint, with_text
from tests.conftest import ModelCase
from tests.errors import error_of
from tests.reviews import with_characters


def checkpoint_of(case: ModelCase, weights: dict[str, np.ndarray]) -> Checkpoint:
    vocabulary = Vocabulary(f"w{number}" for number in range(case.vocabulary_size - 2))
    return Checkpoint(case.config, tuple(map(str, range(case.num_classes))), vocabulary, {}, weights, "{}")


def reviews(checkpoint: Checkpoint, longest: int) -> list[EncodedText]:
    """Reviews of random words, one without any."""
    rng, characters = np.random.default_rng(0), checkpoint.config.text.subword_characters
    lengths = [longest, 0, 1, 2, *rng.integers(1, longest + 1, 5)]
    words = [rng.integers(1, len(checkpoint.vocabulary), (1, length)).astype(np.int32) for length in lengths]
    return as_read(with_characters(ids, characters)[0] for ids in words)


def with_openvino(checkpoint: Checkpoint, precision: Precision = "float32") -> Engine:
    """An engine that computes with OpenVINO from the first review on."""
    pytest.importorskip("openvino")
    return Engine(checkpoint, "openvino", precision)


@pytest.mark.extras
def test_every_kind_of_model_equals_numpy(model_case: ModelCase, random_weights: Callable[..., dict[str, np.ndarray]]) -> None:
    checkpoint = checkpoint_of(model_case, random_weights(*model_case))
    given = reviews(checkpoint, 13)
    probabilities = Classifier(checkpoint, with_openvino(checkpoint)).probabilities(given)
    np.testing.assert_allclose(probabilities, Classifier(checkpoint).probabilities(given), rtol=0, atol=1e-5)


@pytest.mark.extras
def test_what_has_no_room_is_computed_by_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint = with_text(small_checkpoint(positions="none"), sequence_length=800)
    engine, given = with_openvino(checkpoint), as_read([np.full(length, 3, np.int32) for length in (700, 5)])
    expected = Classifier(checkpoint).probabilities(given)
    monkeypatch.setattr("mha_cli.runtime.openvino_encoder.MOST_BYTES", checkpoint.memory_estimate.at_once().num_bytes(2, 32))
    monkeypatch.setattr(probabilities, "BATCH_TOKENS", 1)
    from mha_cli.runtime.openvino_encoder import OpenVinoEncoder  # after the check that OpenVINO is there

    lengths = []
    compute = OpenVinoEncoder.__call__
    monkeypatch.setattr(OpenVinoEncoder, "__call__", lambda self, x, mask: lengths.append(x.shape[1]) or compute(self, x, mask))
    np.testing.assert_allclose(Classifier(checkpoint, engine).probabilities(given), expected, rtol=0, atol=1e-5)
    assert lengths == [8]  # 5, padded


@pytest.mark.extras
@pytest.mark.parametrize("normalization", ["post", "pre"])
def test_numbers_that_overflow_are_told_as_by_numpy(normalization: str) -> None:
    def said(given: Checkpoint, engine: Engine | None) -> Any:
        try:
            return Classifier(given, engine).probabilities(reviews(given, 13))
        except MhaError as error:
            return error.message

    checkpoint = small_checkpoint(normalization=normalization)
    for path in ("embedding/token_embedding/words", "encoder_0/attention/query_kernel", "encoder_0/feed_forward_out/kernel"):
        for factor in (1e12, 1e35):
            large = replace(checkpoint, weights={**checkpoint.weights, path: checkpoint.weights[path] * np.float32(factor)})
            expected = said(large, None)
            assert said(large, with_openvino(large)) == (expected if isinstance(expected, str) else pytest.approx(expected, abs=1e-5))


@pytest.mark.extras
def test_bfloat16_is_near(random_weights: Callable[..., dict[str, np.ndarray]]) -> None:
    if not bfloat16_features():
        pytest.skip("this processor has no instructions for it")
    checkpoint = small_checkpoint(seed=3)
    given = reviews(checkpoint, 13)
    differences = np.abs(
        Classifier(checkpoint, with_openvino(checkpoint, "bfloat16")).probabilities(given) - Classifier(checkpoint).probabilities(given)
    )
    assert 1e-5 < differences.max() < 0.05


@pytest.mark.extras
def test_auto_starts_after_much_work_where_many_texts_come_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("openvino")
    checkpoint = small_checkpoint()
    few, many = np.full(MANY_TEXTS - 1, 13), np.full(MANY_TEXTS, 13)
    monkeypatch.setattr("mha_cli.runtime.engine.WORTH_STARTING", 3 * multiplications(checkpoint.config.model, many).sum())
    engine = Engine(checkpoint, "auto")
    assert [engine.choose_encoder(lengths) is None for lengths in (many, few, few, few, many, few, many, few)] == [True] * 6 + [False] * 2
    assert all(Engine(checkpoint).choose_encoder(many) is None for _ in range(9))


def test_auto_is_numpy_where_openvino_is_not_installed_or_cannot_start(monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint, many = small_checkpoint(), np.full(MANY_TEXTS, 13)
    monkeypatch.setattr("mha_cli.runtime.engine.WORTH_STARTING", 1)
    monkeypatch.setattr("mha_cli.runtime.engine.find_spec", lambda _: None)
    assert usual_engine() == "numpy"
    assert Engine(checkpoint, "auto").choose_encoder(many) is None
    monkeypatch.setattr("mha_cli.runtime.engine.find_spec", lambda name: name)
    monkeypatch.setattr("mha_cli.errors.find_spec", lambda name: name)
    monkeypatch.setitem(sys.modules, "mha_cli.runtime.openvino_encoder", None)
    assert usual_engine() == "openvino"
    engine = Engine(checkpoint, "auto")
    assert [engine.choose_encoder(many) for _ in range(2)] == [None, None]
    with pytest.raises(MhaError, match=r"^--engine openvino cannot be started: .*; take --engine numpy$") as raised:
        Engine(checkpoint, "openvino").choose_encoder(np.array([1]))
    assert raised.value.exit_code == EXIT_FAILURE


def test_what_cannot_be_had_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mha_cli.errors.find_spec", lambda name: name)
    monkeypatch.setattr("mha_cli.runtime.engine.bfloat16_features", tuple)
    said = error_of(lambda: Engine(small_checkpoint(), "openvino", "bfloat16"))
    assert said == "--precision bfloat16: this processor has no instructions for it; leave it out"
