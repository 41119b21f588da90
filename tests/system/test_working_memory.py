"""No forward pass in NumPy takes more than is said before, and what would take too much is computed in smaller parts or refused."""

import dataclasses
from typing import Any

import numpy as np
import pytest

from mha_cli.checkpoint.file import Checkpoint
from mha_cli.runtime.classifier import Classifier
from mha_cli.runtime.forward import class_probabilities
from mha_cli.runtime.inspection import view_attention
from mha_cli.system import working_memory
from mha_cli.system.working_memory import MemoryEstimate, blocks
from tests.checkpoints import small_checkpoint, with_text
from tests.cli.command import ROOT
from tests.conftest import MODEL_CASES, ModelCase
from tests.errors import error_of
from tests.limits import traced_peak
from tests.reviews import with_characters

SPARE = 100_000  # bytes of what is no array of the sizes that count

WIDE: dict[str, dict[str, Any]] = {
    "feed-forward": {"feed_forward_dim": 4_093, "activation": "gelu"},
    "embedding": {"embed_dim": 4_001, "key_dim": 3},
    "heads": {"num_heads": 31, "key_dim": 101},
    "classes of the linear model": {"linear": {"max_ngram": 1, "buckets": 32}},
}


def peak_bytes(checkpoint: Checkpoint, texts: int, length: int) -> int:
    """Of the arrays alive at once in a forward pass."""
    rng = np.random.default_rng(0)
    token_ids = rng.integers(1, len(checkpoint.vocabulary), (texts, length)).astype(np.int32)
    token_ids = with_characters(token_ids, checkpoint.config.text.subword_characters)
    class_probabilities(token_ids[:1, :1], checkpoint.weights, checkpoint.config)  # whatever it imports
    return traced_peak(lambda: class_probabilities(token_ids, checkpoint.weights, checkpoint.config))


def wide(name: str, length: int = 512) -> Checkpoint:
    """A checkpoint of few bytes whose forward pass is wide."""
    names = tuple(str(number) for number in range(3_001)) if name.startswith("classes") else ("neg", "pos")
    checkpoint = small_checkpoint(names, **{"embed_dim": 2, "positions": "none", "feed_forward_dim": 3, "num_heads": 1, **WIDE[name]})
    return with_text(checkpoint, sequence_length=length)


def in_numpy(checkpoint: Checkpoint) -> MemoryEstimate:
    return dataclasses.replace(checkpoint.memory_estimate, in_blocks=True)


@pytest.mark.parametrize("case", MODEL_CASES.values(), ids=MODEL_CASES.keys())
@pytest.mark.parametrize("texts", [1, 997])
def test_the_estimate_is_an_upper_bound(case: ModelCase, texts: int) -> None:
    names = tuple(str(number) for number in range(case.num_classes))
    checkpoint = small_checkpoint(names, **case.config.model.model_dump())
    assert peak_bytes(checkpoint, texts, 13) < in_numpy(checkpoint).num_bytes(texts, 13) + SPARE


@pytest.mark.parametrize("name", WIDE)
def test_wide_models_are_computed_in_blocks(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint, texts, length = wide(name), 29, 41
    whole = checkpoint.memory_estimate.num_bytes(texts, length)
    at_once = class_probabilities(np.full((texts, length), 3, np.int32), checkpoint.weights, checkpoint.config)
    monkeypatch.setattr(working_memory, "BLOCK_BYTES", 1 << 18)
    estimate = in_numpy(checkpoint).num_bytes(texts, length)
    assert peak_bytes(checkpoint, texts, length) < estimate + SPARE
    assert estimate < whole / 2 or name in {"embedding", "feed-forward", "heads"}  # which are computed whole
    by_blocks = class_probabilities(np.full((texts, length), 3, np.int32), checkpoint.weights, checkpoint.config)
    np.testing.assert_allclose(by_blocks, at_once, rtol=1e-4, atol=1e-6)


def test_blocks_cover_everything_once() -> None:
    assert list(blocks(7, working_memory.BLOCK_BYTES // 3)) == [slice(0, 3), slice(3, 6), slice(6, 7)]
    assert list(blocks(2, 2 * working_memory.BLOCK_BYTES)) == [slice(0, 1), slice(1, 2)]
    assert list(blocks(0, 5)) == []


def test_a_text_that_does_not_fit_is_refused_before_it_is_computed() -> None:
    checkpoint = dataclasses.replace(wide("embedding", 100_000), name="wide.keras")
    said = f"would take about {in_numpy(checkpoint).num_bytes(1, 100_000) / 1e9:.1f} GB of memory; mha takes 2 GB at most"
    message = f"wide.keras: a text of 100,000 tokens {said}; give shorter texts"
    assert error_of(Classifier(checkpoint).predict, ["film", "film " * 100_000]) == message
    assert Classifier(checkpoint).predict(["film"])


def test_the_refusal_that_the_page_shows() -> None:
    model = small_checkpoint(embed_dim=16_384, num_heads=1, key_dim=1, feed_forward_dim=1, positions="none").config.model
    estimate = MemoryEstimate(model, 2, "wide.keras", in_blocks=True)
    assert f"`error: {error_of(estimate.refuse_too_long, 20_000)}`" in (ROOT / "docs" / "checkpoint.md").read_text("utf-8")
    assert estimate.most_texts(600, 100) == 1
    assert estimate.num_bytes(1, 600) < 500_000_000


@pytest.mark.parametrize(("whole_scores", "grows"), [(True, 4), (False, 2)])
def test_attention_of_a_long_text_is_computed_in_blocks_unless_all_scores_are_wanted(whole_scores: bool, grows: int) -> None:
    memory_estimate = MemoryEstimate(small_checkpoint().config.model, 2, whole_scores=whole_scores)
    assert memory_estimate.num_bytes(1, 800_000) == pytest.approx(grows * memory_estimate.num_bytes(1, 400_000), rel=0.1)
    sizes = [memory_estimate.num_bytes(texts, length) for texts in (1, 7) for length in range(500, 20_000, 500)]
    assert sizes == sorted(sizes[:39]) + sorted(sizes[39:])
    assert all(one <= more for one, more in zip(sizes, sizes[39:], strict=False))


def test_attention_that_would_fill_the_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint = small_checkpoint(num_blocks=2, num_heads=2)
    monkeypatch.setattr(working_memory, "MOST_BYTES", 20_000_000)
    assert view_attention(checkpoint, "film " * 12).words == ["film"] * 12
    monkeypatch.setattr(working_memory, "MOST_BYTES", 60 * 4 * 13**2 - 1)
    said = error_of(view_attention, checkpoint, "film " * 13)
    assert said.startswith("this model: the attention of a text of 13 tokens would take about 0.0 GB of memory; ")
