"""What heads are worth, and models without some of them."""

import dataclasses
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from mha_cli.analysis.inside.head_scores import HeadReport, HeadScore, gradient_importance, head_targets, masked_forward, score_heads
from mha_cli.analysis.inside.pruning import least_important, retrain, without_heads
from mha_cli.checkpoint.file import Checkpoint, read_checkpoint, write_checkpoint
from mha_cli.config.loading import load_config
from mha_cli.config.settings import Config, SampleData
from mha_cli.corpus.encoded_texts import EncodedTexts
from mha_cli.linear.composition import decompose
from mha_cli.linear.fit import fit_linear_model
from mha_cli.model.classifier import start_from, to_model
from mha_cli.preparation.prepare import prepare
from mha_cli.preparation.scored_texts import labelled_texts
from mha_cli.runtime.forward import class_probabilities
from mha_cli.runtime.inspection import view_attention
from mha_cli.runtime.metrics import mean_loss_and_accuracy
from mha_cli.runtime.probabilities import Scorer
from mha_cli.system.callbacks import Callbacks, EpochRecord
from mha_cli.training.trainer import Trainer
from mha_cli.training.validation import Validation
from tests.checkpoints import small_checkpoint
from tests.cli.command import TINY
from tests.errors import error_of
from tests.reviews import encoded
from tests.tables import write_table
from tests.training.interruptions import train
from tests.training.numpy_trainer import in_numpy

MODELS: dict[str, tuple[tuple[str, ...], dict[str, Any], list[tuple[int, int]]]] = {
    "one-block": (("neg", "pos"), {"num_heads": 7}, [(0, 1), (0, 2), (0, 5)]),
    "three-classes-pre": (
        ("bad", "mixed", "good"),
        {"num_blocks": 3, "num_heads": [3, 1, 5], "key_dim": 5, "normalization": "pre"},
        [(0, 0), (2, 1), (2, 4)],
    ),
}
"""Class names, settings, and the heads to remove."""


def some_reviews(num_classes: int = 2, count: int = 29) -> EncodedTexts:
    """Reviews of all lengths from 1 to 13, labelled by chance."""
    rng = np.random.default_rng(count)
    return encoded([rng.integers(1, 13, length) for length in rng.integers(1, 14, count)], rng.integers(0, num_classes, count))


def with_linear_output(model: keras.Model) -> keras.Model:
    """The same model with logits as its output."""
    model.get_layer("classifier").activation = keras.activations.linear
    return model


def silenced(checkpoint: Checkpoint, heads: list[tuple[int, int]]) -> Checkpoint:
    """The same model with the rows of W^O that belong to these heads set to zero."""
    weights = {path: weight.copy() for path, weight in checkpoint.weights.items()}
    for block, head in heads:
        weights[f"encoder_{block}/attention/output_kernel"][head] = 0.0
    return dataclasses.replace(checkpoint, weights=weights)


def masks_without(checkpoint: Checkpoint, heads: list[tuple[int, int]]) -> list[Any]:
    masks = [np.ones(count, dtype=np.float32) for count in checkpoint.config.model.heads]
    for block, head in heads:
        masks[block][head] = 0.0
    return [tf.constant(mask) for mask in masks]


# Removing heads


@pytest.mark.parametrize(("class_names", "model", "removed"), MODELS.values(), ids=MODELS)
def test_the_pruned_model_is_the_masked_model(
    class_names: tuple[str, ...], model: dict[str, Any], removed: list[tuple[int, int]], tmp_path: Path
) -> None:
    """The logits of three: heads cut out of the matrices, multiplied by zero, and with zero rows in W^O."""
    checkpoint = small_checkpoint(class_names, **model)
    token_ids = some_reviews().padded(np.arange(29))
    decided = {"thresholds": dict.fromkeys(class_names, 0.5), "level_threshold": 0.15}
    cut = without_heads(dataclasses.replace(checkpoint, **decided), removed)
    pruned = np.array(with_linear_output(to_model(cut))(token_ids))
    masked = masked_forward(with_linear_output(to_model(checkpoint)), [tf.constant(token_ids)], masks_without(checkpoint, removed))
    zeroed = with_linear_output(to_model(silenced(checkpoint, removed)))(token_ids)
    whole = with_linear_output(to_model(checkpoint))(token_ids)
    np.testing.assert_allclose(pruned, masked, rtol=0, atol=1e-5)
    np.testing.assert_allclose(pruned, zeroed, rtol=0, atol=1e-5)
    assert np.abs(pruned - whole).max() > 1e-3
    # Its checkpoint is read by our reader, by the NumPy runtime and by plain Keras.
    write_checkpoint(tmp_path / "pruned.keras", cut)
    found = read_checkpoint(tmp_path / "pruned.keras")
    assert found.thresholds == {}  # they were those of another model
    assert found.level_threshold == 0.15  # without one, each answer would be on the finest level
    assert found.config == cut.config
    assert found.config.model.num_heads == list(cut.config.model.heads)
    for path, weight in cut.weights.items():
        np.testing.assert_array_equal(found.weights[path], weight)
    theirs = np.array(keras.models.load_model(tmp_path / "pruned.keras")(token_ids))
    ours = class_probabilities(token_ids, found.weights, found.config)
    np.testing.assert_allclose(ours[:, 1:] if theirs.shape[1] == 1 else ours, theirs, rtol=0, atol=1e-5)
    # Once pruned, it can be pruned again.
    again = [(int(np.argmax(cut.config.model.heads)), 0)]
    masked = masked_forward(to_model(found), [tf.constant(token_ids)], masks_without(found, again))
    np.testing.assert_allclose(to_model(without_heads(found, again))(token_ids), masked, rtol=0, atol=1e-5)


def report_of(importances: list[list[float]]) -> HeadReport:
    scores = [
        HeadScore(block, head, 0.5, 0.0, importance, {})
        for block, of_block in enumerate(importances)
        for head, importance in enumerate(of_block)
    ]
    return HeadReport("sample", "test", 1, 0.5, scores)


@pytest.mark.parametrize(
    ("importances", "count", "removed"),
    [
        ([[3.0, 1.0, 2.0]], 1, [(0, 1)]),
        ([[3.0, 1.0, 2.0]], 2, [(0, 1), (0, 2)]),
        ([[1.0, 2.0], [3.0, 4.0]], 2, [(0, 0), (1, 0)]),  # the last head of block 0 stays, though it matters less
        ([[1.0], [3.0, 2.0, 4.0]], 2, [(1, 0), (1, 1)]),
        ([[0.0, 0.0], [0.0]], 1, [(0, 0)]),
    ],
)
def test_the_least_important_go_but_every_block_keeps_one(
    importances: list[list[float]], count: int, removed: list[tuple[int, int]]
) -> None:
    assert least_important(report_of(importances), count) == removed


# What a head is worth


@pytest.mark.usefixtures("untraced")
@pytest.mark.parametrize("num_classes", [2, 3])
def test_importance_is_the_mean_of_each_reviews_own_gradient(num_classes: int) -> None:
    """Each review alone, against central differences of its own loss in NumPy."""
    names = ("bad", "mixed", "good")[:num_classes]
    checkpoint = small_checkpoint(names, num_blocks=2, num_heads=[3, 2], key_dim=5)
    reviews = some_reviews(num_classes, count=11)
    found = gradient_importance(to_model(checkpoint), reviews, checkpoint.memory_estimate)
    assert [len(of_block) for of_block in found] == [3, 2]

    def losses(block: int, head: int, factor: float) -> np.ndarray:
        """In nats, with the output of one head multiplied."""
        weights = {path: weight.astype(np.float64) for path, weight in checkpoint.weights.items()}
        weights[f"encoder_{block}/attention/output_kernel"][head] *= factor
        alone = [class_probabilities(reviews.padded(np.array([row])), weights, checkpoint.config)[0] for row in range(len(reviews))]
        return -np.log([row[label] for row, label in zip(alone, reviews.labels, strict=True)])

    step = 1e-4
    for block, of_block in enumerate(found):
        for head, importance in enumerate(of_block):
            gradients = (losses(block, head, 1 + step) - losses(block, head, 1 - step)) / (2 * step)
            assert importance == pytest.approx(np.abs(gradients).mean(), rel=1e-2, abs=1e-5)
            assert importance > abs(gradients.mean()) + 1e-5 or np.all(gradients >= 0) or np.all(gradients <= 0)


@pytest.mark.usefixtures("untraced")
def test_accuracy_without_a_head_is_that_of_the_model_with_its_rows_zeroed(checkpoint_path: Path) -> None:
    checkpoint = read_checkpoint(checkpoint_path)
    told: list[str] = []
    report, reviews = score_heads(checkpoint, labelled_texts(checkpoint, checkpoint.config.data), callbacks=Callbacks(log=told.append))
    assert (report.data, report.split, report.num_texts) == ("sample", "test", len(reviews))

    def accuracy(model: Checkpoint) -> float:
        return mean_loss_and_accuracy(Scorer(model)(reviews), reviews.labels)[1]

    assert report.accuracy == accuracy(checkpoint)
    assert [(score.block, score.head) for score in report.heads] == [(0, 0), (0, 1)]
    for score in report.heads:
        assert score.accuracy_without == accuracy(silenced(checkpoint, [(score.block, score.head)]))
        assert score.accuracy_fall == pytest.approx(report.accuracy - score.accuracy_without)
        assert score.importance > 0
    assert "silencing head 1 of block 0" in told


# Before and after


def validation_loss(checkpoint: Checkpoint) -> float:
    reviews = labelled_texts(checkpoint, checkpoint.config.data, "validation").texts
    return mean_loss_and_accuracy(Scorer(checkpoint)(reviews), reviews.labels)[0]


def trained_in_numpy(config: Config, folder: Path) -> Checkpoint:
    with pytest.MonkeyPatch.context() as patch:
        in_numpy(patch.setattr)
        return read_checkpoint(train(config, folder / "run").checkpoint)


def with_training(checkpoint: Checkpoint, **training: Any) -> Checkpoint:
    return dataclasses.replace(checkpoint, config=checkpoint.config.changed(training={"monitor": "loss", **training}))


@pytest.mark.exhaustive
@pytest.mark.parametrize("monitor", ["loss", "last"])
def test_retraining_mends_and_keeps_the_shapes(monitor: str, tmp_path: Path) -> None:
    """Of a run whose last epoch was kept, the most accurate one is, since the last may be worse than the start."""
    rows = ((f"lamp {number} {('broke', 'works')[number % 2]}", ("bad", "good")[number % 2]) for number in range(200))
    data = ["data.source=files", f"data.train={write_table(tmp_path / 'lamps.csv', rows)}", "training.epochs=1"]
    checkpoint = trained_in_numpy(load_config(TINY, data), tmp_path)
    pruned = with_training(without_heads(checkpoint, [(0, 0)]), learning_rate=1e-1, monitor=monitor)
    path = "classifier/kernel"  # answers the opposite
    pruned = dataclasses.replace(pruned, weights={**pruned.weights, path: -pruned.weights[path]})
    records: list[EpochRecord] = []
    retrained = retrain(pruned, 4, pruned.config.data, Callbacks(on_epoch=records.append))
    shapes = [{path: weight.shape for path, weight in one.weights.items()} for one in (retrained, pruned)]
    assert shapes[0] == shapes[1]
    assert (retrained.config, retrained.vocabulary.tokens) == (pruned.config, pruned.vocabulary.tokens)
    after = validation_loss(retrained)
    assert after < validation_loss(pruned)
    assert [record.epoch for record in records] == [1, 2, 3, 4]
    assert retrained.metrics["validation_loss"] == pytest.approx(after, abs=1e-5)
    best = max(records, key=lambda record: record.validation_accuracy if monitor == "last" else -record.validation_loss)
    assert retrained.metrics["epoch"] == best.epoch


@pytest.mark.exhaustive
@pytest.mark.usefixtures("untraced")
@pytest.mark.parametrize("monitor", ["loss", "last"])
def test_scores_refitted_with_the_validation_part_do_not_weigh_themselves(monitor: str, tmp_path: Path) -> None:
    overrides = [
        "data.num_texts=300",
        "linear.max_ngram=1",
        "linear.buckets=512",
        "training.refit_linear=true",
        "training.epochs=4",
        "training.learning_rate=0.01",
    ]
    config = load_config(TINY, overrides)
    checkpoint = trained_in_numpy(config, tmp_path)
    prepared = prepare(config)
    trainer, start = Trainer(config, prepared), EpochRecord(0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, True)
    start_from(trainer.model, decompose(checkpoint.weights)[0])
    validation = Validation(config, prepared, fit_linear_model(config, prepared), decompose(checkpoint.weights)[1])
    score = validation.score(trainer)
    records: list[EpochRecord] = []
    worse = with_training(checkpoint, learning_rate=10.0, monitor=monitor)  # so that the start is kept
    retrained = retrain(worse, 1, config.data, Callbacks(on_epoch=records.append))
    assert not records[0].best
    assert retrained.metrics == checkpoint.metrics
    assert {path for path, weight in retrained.weights.items() if not np.array_equal(weight, checkpoint.weights[path])} <= {
        "classifier/kernel",
        "classifier/bias",
    }
    for path, weight in validation.checkpoint(trainer.weights(), start, score).weights.items():
        np.testing.assert_allclose(retrained.weights[path], weight, atol=1e-5, err_msg=path)


@pytest.mark.parametrize("change", [{"data": SampleData(num_texts=404)}, {"seed": 5}])
def test_retraining_on_other_data_is_refused(change: dict[str, Any], checkpoint_path: Path) -> None:
    """Another vocabulary would give the words other ids than those that the weights were trained with."""
    checkpoint = read_checkpoint(checkpoint_path)
    other = dataclasses.replace(checkpoint, config=checkpoint.config.model_copy(update=change))
    assert error_of(lambda: retrain(other, 1, other.config.data)) == (
        "--retrain: the training data are no longer those of the checkpoint; bring them back, or train anew with fewer heads"
    )


def test_targets_are_the_mean_over_all_tokens_with_five_different_ones() -> None:
    texts = ("the film", "The film was not DREADFUL, it’s superb", "it was superb , not dreadful", "not the film was")
    checkpoint = small_checkpoint(num_blocks=2, num_heads=[3, 1], key_dim=5, positions="sinusoidal")
    for block in range(2):
        checkpoint.weights[f"encoder_{block}/attention/query_kernel"][:] *= 4  # far from uniform
    encode = checkpoint.text_pipeline.encode
    found = head_targets(checkpoint, encoded([encode(text).tokens for text in texts]))
    views = [view_attention(checkpoint, text) for text in texts]
    for block, heads in enumerate((3, 1)):
        for head in range(heads):
            rows = []
            for view in views:
                weights, end = view.weights[block][head], len(view.words) - 1
                rows += [[weights[at, to] for to in (0, at - 1, at, at + 1, end)] for at in range(2, end - 1)]
            assert len(rows) == 4 + 2
            five = np.mean(rows, axis=0)
            assert found[block][head] == pytest.approx([*five, 1 - five.sum()], abs=1e-6)
            assert np.ptp(found[block][head]) > 0.01
    assert all(shares.shape == (heads, 6) for shares, heads in zip(found, (3, 1), strict=True))


def test_texts_without_five_tokens_give_zeros() -> None:
    checkpoint = small_checkpoint()
    (found,) = head_targets(checkpoint, encoded([[3, 4, 5, 6]]))
    assert not found.any()
