"""mha as a scikit-learn estimator, held against scikit-learn's own checks."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks

from mha_cli import MHAClassifier, MhaError
from mha_cli.config.settings import SampleData
from mha_cli.data.sample import SampleReviews

REVIEWS = list(SampleReviews(SampleData(num_reviews=200)).read("train"))[:120]
TEXTS, LABELS = [review.text for review in REVIEWS], np.array([review.label for review in REVIEWS])
SMALL: dict[str, Any] = {"embed_dim": 4, "num_heads": 1, "feed_forward_dim": 4, "epochs": 1}


@pytest.fixture(scope="module")
def fitted() -> MHAClassifier:
    return MHAClassifier(**SMALL).fit(TEXTS, LABELS)


@parametrize_with_checks([MHAClassifier(**SMALL)])
def test_what_scikit_learn_asks_of_every_estimator(estimator: Any, check: Any) -> None:
    check(estimator)


def test_it_is_a_classifier(fitted: MHAClassifier) -> None:
    probabilities = fitted.predict_proba(TEXTS[:7])
    assert probabilities.shape == (7, 2)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, atol=1e-6)
    assert [*fitted.classes_] == ["negative", "positive"]
    assert [*fitted.predict(TEXTS[:7])] == [answer.label for answer in fitted.model_.predict(TEXTS[:7])]
    assert fitted.score(TEXTS, LABELS) == np.mean(fitted.predict(TEXTS) == LABELS)
    np.testing.assert_array_equal(fitted.predict(np.array(TEXTS[:7])), fitted.predict(np.array(TEXTS[:7])[:, None]))


@pytest.mark.parametrize("numbers", [[10, 9], [2.5, -1.0], [True, False]])
def test_labels_keep_their_type(numbers: list[Any]) -> None:
    labels = np.array([numbers[label == "negative"] for label in LABELS])
    model = MHAClassifier(**SMALL, score_ngrams=2).fit(TEXTS, labels)
    np.testing.assert_array_equal(model.classes_, sorted(numbers))
    assert model.predict(TEXTS).dtype == labels.dtype
    assert model.score(TEXTS, labels) > 0.6


def test_a_clone_has_the_same_settings_and_has_learnt_nothing(fitted: MHAClassifier) -> None:
    copy = clone(fitted)
    assert copy.get_params() == fitted.get_params() == {"recipe": "text", **SMALL}
    assert not hasattr(copy, "model_")
    assert copy.set_params(recipe="sample", dropout=0.1).get_params() == {"recipe": "sample", **SMALL, "dropout": 0.1}
    assert repr(MHAClassifier(epochs=3)) == "MHAClassifier(epochs=3, recipe='text')"
    with pytest.raises(ValueError, match="epoch is not a setting; did you mean epochs"):
        copy.set_params(epoch=3)


def test_a_pickle_holds_the_bytes_of_a_checkpoint(fitted: MHAClassifier) -> None:
    data = pickle.dumps(fitted)
    np.testing.assert_array_equal(pickle.loads(data).predict_proba(TEXTS), fitted.predict_proba(TEXTS))
    state = fitted.__getstate__()
    assert state["model_"].startswith(b"PK")
    cut = clone(fitted)
    with pytest.raises(MhaError, match="checkpoint.keras: "):
        cut.__setstate__({**state, "model_": state["model_"][:-50]})


def test_it_is_searched_and_cross_validated() -> None:
    search = GridSearchCV(MHAClassifier(**SMALL), {"epochs": [1, 2], "score_ngrams": [1, 2]}, cv=2).fit(TEXTS, LABELS)
    assert search.best_params_.keys() == {"epochs", "score_ngrams"}
    assert search.best_estimator_.model_.checkpoint.config.model.score_ngrams == search.best_params_["score_ngrams"]
    lower = FunctionTransformer(lambda texts: [text.lower() for text in texts])
    assert cross_val_score(make_pipeline(lower, MHAClassifier(**SMALL)), TEXTS, LABELS, cv=2).shape == (2,)


def test_input_is_told_from_what_other_estimators_take() -> None:
    with pytest.raises(ValueError, match=r"Expected a sequence of texts, got an array of shape \(120, 3\)"):
        MHAClassifier(**SMALL).fit(np.array([TEXTS] * 3).T, LABELS)
    vectors = TfidfVectorizer().fit_transform(TEXTS).toarray()
    with pytest.raises(ValueError, match="Expected a sequence of texts"):
        MHAClassifier(**SMALL).fit(vectors, LABELS)
    with pytest.raises(MhaError, match=r"text 0 is 1\.0; give texts as strings"):
        MHAClassifier(**SMALL).fit([1.0] * 120, LABELS)
