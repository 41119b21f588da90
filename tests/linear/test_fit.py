"""The linear model: its table, and context weights where there are windows."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from mha_cli.arrays import Bools, Floats, Int32s
from mha_cli.config.loading import config_from_dict
from mha_cli.config.settings import Config, LinearConfig
from mha_cli.corpus.encoded_texts import EncodedTexts
from mha_cli.linear import features as features_module
from mha_cli.linear import fit as module
from mha_cli.linear import one_vs_rest
from mha_cli.linear.features import ngrams_of, text_features
from mha_cli.linear.fit import cross_fit_linear_model, fit_linear_model, linear_logits, refit_linear_model
from mha_cli.linear.one_vs_rest import FOLDS, FOLDS_OF_MANY, Examples, LinearModel, fit_one_vs_rest
from mha_cli.linear.regularization import choose_regularization
from mha_cli.preparation.prepare import PreparedData
from mha_cli.runtime.forward import ForwardPass
from mha_cli.text.vocabulary import Vocabulary
from tests.reviews import bucket, encoded

BUCKETS, WORDS = 128, 31

pytestmark = pytest.mark.usefixtures("untraced")


def random_texts(num_texts: int, num_classes: int) -> tuple[list[list[int]], Int32s]:
    """Texts of words 10 to 29, with a word of their class, 2 to 4, somewhere among them."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, num_classes, num_texts).astype(np.int32)
    texts = [rng.integers(10, 30, rng.integers(1, 9)).tolist() for _ in labels]
    for text, label in zip(texts, labels, strict=True):
        text.insert(int(rng.integers(0, len(text) + 1)), 2 + int(label))
    return texts, labels


def settings(max_ngram: int, buckets: int = BUCKETS, **more: Any) -> LinearConfig:
    return LinearConfig(max_ngram=max_ngram, buckets=buckets, **more)


def fit(
    texts: Sequence[Sequence[int]],
    labels: Sequence[int] | npt.NDArray[np.generic],
    linear: LinearConfig,
    num_classes: int = 2,
    seed: int = 0,
) -> LinearModel:
    train = encoded(texts, list(labels))
    config = Config(linear=linear, seed=seed)
    return fit_linear_model(config, prepared(config, train, train, num_classes))


def prepared(config: Config, train: EncodedTexts, validation: EncodedTexts, num_classes: int) -> PreparedData:
    words = Vocabulary([str(word) for word in range(2, WORDS)])
    return PreparedData(config, train, validation, words, tuple("abc"[:num_classes]))


def totals(texts: Sequence[Sequence[int]], fitted: LinearModel, linear: LinearConfig) -> Floats:
    token_ids = encoded(texts).padded(np.arange(len(texts)))
    weights = {"linear/table": fitted.table, "linear/context_weights": fitted.context_weights}
    weights = {path: weight for path, weight in weights.items() if weight is not None}
    return ForwardPass(weights, Config(linear=linear)).linear_logits(token_ids) + fitted.bias


def test_a_class_that_never_occurs_scores_nothing() -> None:
    texts, labels = random_texts(40, 2)
    table = fit(texts, labels, settings(2, context_windows=[2]), num_classes=3).table
    assert np.isfinite(table).all()
    assert (table != 0).any(axis=0).tolist() == [True, True, False]
    nothing = fit(texts, np.ones(40, np.int32), settings(2, context_windows=[2]))
    assert nothing.context_weights is not None
    assert not (nothing.table.any() or nothing.context_weights.any())


def test_windows_leave_the_table_as_it_is() -> None:
    texts, labels = random_texts(60, 3)
    fitted = fit(texts, labels, settings(2, end_decay=4, context_windows=[1, 3]), num_classes=3)
    np.testing.assert_array_equal(fitted.table, fit(texts, labels, settings(2, end_decay=4), num_classes=3).table)
    assert fitted.context_weights is not None
    assert fitted.context_weights.shape == (WORDS, 2)
    assert fitted.context_weights.any(axis=0).all()


@pytest.mark.parametrize("num_classes", [2, 3])
def test_context_weights_are_learnt_on_what_the_other_folds_say(num_classes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []
    monkeypatch.setattr(module, "learn_context_weights", lambda *arguments: given.append(arguments) or np.zeros((WORDS, 1), np.float32))
    texts, labels = random_texts(53, num_classes)
    linear = settings(2, end_decay=4, context_windows=[3])
    fit(texts, labels, linear, num_classes, seed=5)
    _, ngrams, logits_EU, start, *_ = given[0]
    units = [1] if num_classes == 2 else [0, 1, 2]
    assert logits_EU.shape == (len(ngrams.buckets), len(units))
    assert start.linear_weight > 0
    # The folds are the first that the seed draws.
    folds = np.random.default_rng(5).permutation(53) % FOLDS
    whole = encoded(texts, list(labels))
    features = text_features(whole, ngrams_of(whole, linear), linear)
    examples = Examples(features, labels, num_classes, np.ones(53, np.float32))
    regularization = choose_regularization(examples, 5)
    tables = [fit_one_vs_rest(examples.at(folds != k), regularization).table for k in range(FOLDS)]
    for row in range(53):
        part = slice(ngrams.offsets[row], ngrams.offsets[row + 1])
        np.testing.assert_array_equal(logits_EU[part], tables[folds[row]][ngrams.buckets[part]])


@pytest.mark.parametrize("limit", [{"MOST_TEXTS": 30}, {"MOST_FEATURES": 90}])
def test_all_of_too_many_texts_are_learnt_from(limit: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Every text has a word of its own."""
    texts, labels = random_texts(90, 2)
    texts = [[*text, 30 + row] for row, text in enumerate(texts)]
    linear = settings(1, buckets=1 << 16)
    in_memory = fit(texts, labels, linear)
    for name, most in limit.items():
        monkeypatch.setattr(features_module, name, most)
    fitted, again = (fit(texts, labels, linear) for _ in range(2))
    np.testing.assert_array_equal(fitted.table, again.table)
    own_words = fitted.table[[bucket([30 + row], 1 << 16) for row in range(90)], 0]
    assert (own_words != 0).mean() > 0.5  # an easy text needs none; 30 of the texts would have a third of the words
    assert ((own_words > 0) == labels)[np.abs(own_words) > 1e-5].all()
    assert ((totals(texts, fitted, linear)[:, 0] > 0) == labels).all()
    assert np.corrcoef(totals(texts, fitted, linear)[:, 0], totals(texts, in_memory, linear)[:, 0])[0, 1] > 0.98


def test_refitted_on_the_validation_part_too() -> None:
    """Word 30 and its class stand in the validation part alone."""
    texts, labels = random_texts(60, 2)
    config = Config(linear=settings(1, context_windows=[2]), seed=5)
    data = prepared(config, encoded(texts, list(labels)), encoded([[30, 10], [30, 11]] * 5, [1] * 10), 2)
    first = fit_linear_model(config, data)
    refitted = refit_linear_model(config, data, first)
    assert first.table[bucket([30], BUCKETS), 0] == 0 < refitted.table[bucket([30], BUCKETS), 0]
    both = encoded(texts + [[30, 10], [30, 11]] * 5, [*labels, *[1] * 10])
    assert first.regularization is not None
    features = text_features(both, ngrams_of(both, settings(1)), settings(1))
    expected = fit_one_vs_rest(Examples(features, both.labels, 2, np.ones(len(both), np.float32)), first.regularization)
    np.testing.assert_array_equal(refitted.table, expected.table)
    np.testing.assert_array_equal(refitted.bias, expected.bias)
    assert refitted.context_weights is first.context_weights


def test_classes_count_alike_where_they_are_to() -> None:
    """Of 60 texts 6 are of class 1, which a word that half of class 0 has, too, tells of."""
    texts = [[10, 3], [10, 4]] * 27 + [[10, 3]] * 6
    labels = [0] * 54 + [1] * 6
    said = []
    for class_weights in ("none", "balanced"):
        config = config_from_dict({"linear": {"max_ngram": 1, "buckets": BUCKETS}, "training": {"class_weights": class_weights}}, "test")
        train = encoded(texts, labels)
        fitted = fit_linear_model(config, prepared(config, train, train, 2))
        said.append(float(totals([[10, 3]], fitted, config.linear)[0, 0]))
    assert said[0] < 0 < said[1]


@pytest.mark.parametrize(("windows", "characters", "most"), [([], 0, 40), ([2, 5], 8, 99), ([2, 5], 8, 40)])
def test_cross_fitted_scores_come_from_tables_that_do_not_know_the_text(
    windows: list[int], characters: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scored anew, by the layer, with the table of each fold and the context weights of all."""
    monkeypatch.setattr(features_module, "MOST_TEXTS", most)
    tables: list[LinearModel] = []
    folds: list[Bools] = []
    cross_fitted = one_vs_rest.cross_fitted

    def kept(*arguments: Any) -> Any:
        for own, without in cross_fitted(*arguments):
            tables.append(LinearModel(without.table, without.bias, None))
            folds.append(own)
            yield own, without

    monkeypatch.setattr(module, "cross_fitted", kept)
    texts, labels = random_texts(60, 3)
    train = encoded(texts, list(labels), characters) if characters else encoded(texts, list(labels))
    linear = {"max_ngram": 2, "buckets": 4096, "end_decay": 3, "context_windows": windows}
    config = config_from_dict({"text": {"subword_characters": characters}, "linear": linear}, "test")
    data = prepared(config, train, train, 3)
    fitted, found = cross_fit_linear_model(config, data)
    plain = fit_linear_model(config, data)
    np.testing.assert_array_equal(fitted.table, plain.table)
    num_folds = FOLDS if most > 60 else FOLDS_OF_MANY
    assert len(tables) >= num_folds
    expected = linear_logits(config, data, train, fitted)
    assert np.abs(found - expected).max() > 0.1  # what knows a text is surer
    # Of too many texts, some are read without context weights.
    has_context = np.isin(np.arange(60), train.random_rows(most, np.random.default_rng(config.seed)))
    for own, table in zip(folds[:num_folds], tables, strict=False):
        for with_context in (False, True):
            weights = None if fitted.context_weights is None else fitted.context_weights * with_context
            rows = np.flatnonzero(own & (has_context == with_context))
            expected[rows] = linear_logits(config, data, train.subset(rows), LinearModel(table.table, table.bias, weights))
    np.testing.assert_allclose(found, expected, atol=1e-5)
