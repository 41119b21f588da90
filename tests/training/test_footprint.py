"""A training that would not fit is refused before it starts."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from mha_cli.config.loading import load_config
from mha_cli.data.preparation import PreparedData, prepare
from mha_cli.errors import EXIT_USAGE, MhaError
from mha_cli.training import footprint
from mha_cli.training.footprint import memory_estimate, refuse_what_does_not_fit
from tests.training.interruptions import train

TINY = Path(__file__).parents[1] / "cli" / "tiny.yaml"


@pytest.fixture(scope="module")
def data() -> PreparedData:
    return prepare(load_config(TINY, ["data.num_reviews=400"]))


def total(data: PreparedData, *settings: str) -> int:
    return sum(memory_estimate(load_config(TINY, list(settings)), data).values())


def test_weights_count_with_the_moments_of_their_optimizer(data: PreparedData) -> None:
    table = ("model.max_ngram=2", "model.ngram_buckets=1048576")
    grown = total(data, *table) - total(data)
    assert grown == 2**20 * 64 * 4 * 3


def test_additive_scores_have_the_width_of_the_keys_and_never_go_by_blocks() -> None:
    plain, additive = (load_config(TINY, [f"model.scoring={scoring}"]) for scoring in ("dot_product", "additive"))
    assert footprint._step_bytes(additive, 8, 50) - footprint._step_bytes(plain, 8, 50) == 4 * 4 * 4 * (16 - 1) * 8 * 50**2
    assert footprint._step_bytes(additive, 1, 20_000) > 4 * 4 * 4 * 16 * 20_000**2 > footprint._step_bytes(plain, 1, 20_000)


def test_texts_without_labels_count_where_they_are_trained_on(data: PreparedData) -> None:
    offsets = data.train.offsets[::3]
    longer = dataclasses.replace(
        data, unlabelled=dataclasses.replace(data.train, offsets=offsets, labels=data.train.labels[1 : len(offsets)])
    )
    scores = ("model.score_ngrams=1", "model.score_buckets=64")
    assert total(longer, *scores) == total(data, *scores)
    assert total(longer, *scores, "training.distil_scores=true") > total(data, *scores)


def test_a_checkpoint_that_could_not_be_read_again_is_refused(data: PreparedData, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(footprint, "MAX_FILE_BYTES", 100_000)
    with pytest.raises(MhaError, match=r"the checkpoint would have 0\.\d GB; 0 at most can be read again; lower model\.embed_dim, "):
        refuse_what_does_not_fit(load_config(TINY), data)


@pytest.mark.parametrize(
    "settings", [("training.batch_size=320",), ("model.num_heads=64",), ("model.feed_forward_dim=8192",), ("model.num_blocks=6",)]
)
def test_steps_count(data: PreparedData, settings: tuple[str, ...]) -> None:
    assert total(data, *settings) > total(data)


def test_scores_count_the_reviews_that_they_are_fitted_on(data: PreparedData, monkeypatch: pytest.MonkeyPatch) -> None:
    scores = ("model.score_ngrams=2", "model.score_buckets=4096")
    whole = total(data, *scores) - total(data)
    assert whole > 80 * 2 * len(data.train.tokens)
    monkeypatch.setattr(footprint, "MOST_REVIEWS", len(data.train) // 2)
    assert whole - (total(data, *scores) - total(data)) == pytest.approx(80 * len(data.train.tokens), rel=1e-2)


def test_vectors_count_all_texts(data: PreparedData, monkeypatch: pytest.MonkeyPatch) -> None:
    scores, vectors = ("model.score_ngrams=2", "model.score_buckets=4096"), "training.score_vectors=true"
    more = dataclasses.replace(data, unlabelled=data.train)
    assert total(more, *scores) == total(data, *scores)
    tokens = len(data.train.tokens)
    assert total(data, *scores, vectors) - total(data, *scores) == pytest.approx(60 * 2 * tokens, abs=2)
    assert total(more, *scores, vectors) - total(data, *scores) == pytest.approx(60 * 2 * 2 * tokens, abs=2)
    monkeypatch.setattr(footprint, "MOST_REVIEWS", len(data.train) // 2)
    assert total(more, *scores, vectors) - total(data, *scores) == pytest.approx(60 * 2 * tokens, rel=1e-3)


def test_subwords_count_by_the_length_of_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(footprint, "available_cores", lambda: 16)
    scores = ["data.num_reviews=400", "text.subword_characters=12", "model.score_ngrams=2", "model.score_buckets=4096"]
    data = prepare(load_config(TINY, [*scores, "model.subword_buckets=64"]))
    without, scored = (total(data, *scores, "model.subword_buckets=64", f"model.score_subwords={on}") for on in ("false", "true"))
    words = [token[1:][token[1:] > 0] for token in data.train.tokens[:]]
    subwords = sum(max(0, len(word) + 1 - n) for word in words for n in (3, 4, 5))
    assert scored - without == pytest.approx(80 * 0.4 * subwords, rel=0.02)


def test_solvers_of_many_classes_count(data: PreparedData, monkeypatch: pytest.MonkeyPatch) -> None:
    many = dataclasses.replace(data, class_names=tuple("abcdefg"))
    scores = ("model.score_ngrams=2", "model.score_buckets=4096")
    totals = []
    for cores in (1, 2, 16):
        monkeypatch.setattr(footprint, "available_cores", lambda cores=cores: cores)
        totals.append(total(many, *scores))
    tokens = len(data.train.tokens)
    assert (totals[1] - totals[0], totals[2] - totals[0]) == pytest.approx((25 * 2 * tokens, 6 * 25 * 2 * tokens))


def test_salience_counts_the_scores_that_it_is_learnt_on(data: PreparedData) -> None:
    scores = ("model.score_ngrams=2", "model.score_buckets=4096")
    more = total(data, *scores, "model.score_windows=[5]") - total(data, *scores)
    assert more == pytest.approx(8 * 2 * len(data.train.tokens) + 44 * len(data.train), rel=0.05)


def test_answers_count_texts_by_classes(data: PreparedData, monkeypatch: pytest.MonkeyPatch) -> None:
    many = dataclasses.replace(data, class_names=tuple(map(str, range(1000))), unlabelled=data.validation)
    num_train, num_validation = len(many.train), len(many.validation)
    scores, part = ("model.score_ngrams=1", "model.score_buckets=64"), "the number of classes, or of texts"
    for settings, expected in {
        (): 44 * num_validation,
        scores: 24 * num_train / 3,
        (*scores, "model.score_windows=[5]"): 44 * num_train,
        (*scores, "training.distil_scores=true"): 44 * num_train + 4 * (num_train + num_validation),
    }.items():
        assert memory_estimate(load_config(TINY, [*settings]), many)[part] == 1000 * expected
    monkeypatch.setattr(footprint, "available_memory", lambda: 1_000_000_000)
    more = dataclasses.replace(data, class_names=tuple(map(str, range(500_000))))
    with pytest.raises(
        MhaError, match=r"training would take about 1\.6 GB of memory; 1\.0 GB are free; lower the number of classes, or of "
    ):
        refuse_what_does_not_fit(load_config(TINY, ["model.embed_dim=4", "model.num_heads=1"]), more)


def test_attention_by_blocks_takes_less(data: PreparedData, monkeypatch: pytest.MonkeyPatch) -> None:
    by_blocks, at_once = (total(data, f"model.attention_form={form}") for form in ("blockwise", "fused"))
    assert by_blocks < total(data) == at_once
    monkeypatch.setattr("mha_cli.layers.fast.dispatch.MOST_WEIGHTS", 0)
    assert by_blocks == total(data) < at_once


def test_what_does_not_fit_is_refused_and_leaves_nothing(data: PreparedData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(footprint, "available_memory", lambda: 2_000_000_000)
    config = load_config(TINY, ["data.num_reviews=400"])
    refuse_what_does_not_fit(config, data)
    too_large = load_config(TINY, ["data.num_reviews=400", "training.batch_size=400", "model.num_heads=64", "model.feed_forward_dim=60000"])
    with pytest.raises(MhaError) as raised:
        train(too_large, tmp_path / "run", data=data)
    assert raised.value.exit_code == EXIT_USAGE
    assert "training would take about " in str(raised.value)
    assert "2.0 GB are free; lower training.batch_size or text.sequence_length" in str(raised.value)
    assert not (tmp_path / "run").exists()


def test_a_machine_that_does_not_tell(data: PreparedData, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(footprint, "available_memory", lambda: None)
    refuse_what_does_not_fit(load_config(TINY, ["model.feed_forward_dim=60000"]), data)
