"""A training that would not fit is refused before it starts."""

import dataclasses
from pathlib import Path

import pytest

from mha_cli.config.loading import load_config
from mha_cli.errors import MhaError
from mha_cli.preparation.prepare import PreparedData, prepare
from mha_cli.training import memory_estimate as estimates
from mha_cli.training.memory_estimate import memory_estimate, refuse_what_does_not_fit
from tests.cli.command import TINY
from tests.errors import error_of
from tests.training.interruptions import train


@pytest.fixture(scope="module")
def data() -> PreparedData:
    return prepare(load_config(TINY, ["data.num_texts=400"]))


def total(data: PreparedData, *settings: str) -> int:
    return sum(memory_estimate(load_config(TINY, list(settings)), data).values())


def test_weights_count_with_the_moments_of_their_optimizer_and_steps_by_their_size(data: PreparedData) -> None:
    table = ("model.max_ngram=2", "model.ngram_buckets=1048576")
    grown = total(data, *table) - total(data)
    assert grown == 1_048_576 * 64 * 4 * 3
    for larger in ("training.batch_size=320", "model.num_heads=64", "model.feed_forward_dim=8192", "model.num_blocks=6"):
        assert total(data, larger) > total(data)


def test_a_checkpoint_that_could_not_be_read_again_is_refused(data: PreparedData, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimates, "MAX_FILE_BYTES", 100_000)
    with pytest.raises(MhaError, match=r"the checkpoint would have 0\.\d GB; 0 at most can be read again; lower model\.embed_dim, "):
        refuse_what_does_not_fit(load_config(TINY), data)


def test_the_linear_model_counts_its_texts_and_classes(data: PreparedData) -> None:
    linear = ("linear.max_ngram=2", "linear.buckets=4096")
    more = dataclasses.replace(data, unlabelled=data.train)
    many = dataclasses.replace(data, class_names=tuple("abcdefg"))
    assert total(data) < total(data, *linear) == total(more, *linear) < total(more, *linear, "linear.ngram_embeddings=true")
    assert total(many, *linear) > total(data, *linear)


def test_so_many_classes_that_their_answers_do_not_fit(data: PreparedData, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimates, "available_memory", lambda: 1_000_000_000)
    more = dataclasses.replace(data, class_names=tuple(map(str, range(500_000))))
    with pytest.raises(MhaError, match=r"training would take about .* GB of memory; 1\.0 GB are free; lower the number of classes, or of "):
        refuse_what_does_not_fit(load_config(TINY, ["model.embed_dim=4", "model.num_heads=1"]), more)


def test_what_does_not_fit_is_refused_and_leaves_nothing(data: PreparedData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimates, "available_memory", lambda: 2_000_000_000)
    config = load_config(TINY, ["data.num_texts=400"])
    refuse_what_does_not_fit(config, data)
    too_large = load_config(TINY, ["data.num_texts=400", "training.batch_size=400", "model.num_heads=64", "model.feed_forward_dim=60000"])
    said = error_of(lambda: train(too_large, tmp_path / "run", data=data))
    assert "training would take about " in said
    assert "2.0 GB are free; lower training.batch_size or text.sequence_length" in said
    assert not (tmp_path / "run").exists()
    monkeypatch.setattr(estimates, "available_memory", lambda: None)  # a machine that does not tell
    refuse_what_does_not_fit(too_large, data)
