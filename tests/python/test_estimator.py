"""mha as a scikit-learn estimator, held against scikit-learn's own checks."""

import pickle
from typing import Any, Self

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import InputTags, Tags
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.validation import check_is_fitted, validate_data

from mha_cli import MHAClassifier, MhaError
from mha_cli.config.settings import SampleData
from mha_cli.sources.sample import SampleTexts

REVIEWS = list(SampleTexts(SampleData(num_texts=200)).read("train"))[:120]
TEXTS, LABELS = [review.text for review in REVIEWS], np.array([review.label for review in REVIEWS])
SMALL: dict[str, Any] = {"embed_dim": 4, "num_heads": 1, "feed_forward_dim": 4, "epochs": 1, "linear": None, "max_ngram": 1}
SCORED = {**SMALL, "linear": {"max_ngram": 2}}


@pytest.fixture(scope="module")
def fitted(trained_in_numpy: None) -> MHAClassifier:
    return MHAClassifier(**SMALL).fit(TEXTS, LABELS)


class OfNumbers(MHAClassifier):
    """The estimator on rows of numbers, which scikit-learn's checks have: a word for every number, by its column and its value."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        return super().fit(spelt(validate_data(self, X, y, multi_output=True)[0]), y, sample_weight)

    def predict_proba(self, X: Any) -> Any:
        check_is_fitted(self)
        return super().predict_proba(spelt(validate_data(self, X, reset=False)))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags = InputTags()
        return tags


def spelt(rows: Any) -> list[str]:
    """Texts that say what numbers say, rounded to halves."""
    return [" ".join(f"c{column}v{round(2 * float(value))}" for column, value in enumerate(row)) for row in rows]


CANNOT = {
    "check_no_attributes_set_in_init": "settings come as **settings",
    "check_do_not_raise_errors_in_init_or_set_params": "a name that is no setting is refused at once",
    "check_classifiers_one_label": "a single class is refused, by an MhaError",
    "check_fit2d_1sample": "likewise",
    "check_classifiers_one_label_sample_weights": "likewise",
    "check_sample_weight_equivalence_on_dense_data": "copies of a text may be in both parts, of which one is held out",
}


@pytest.mark.exhaustive
@pytest.mark.usefixtures("trained_in_numpy")
@parametrize_with_checks(
    [OfNumbers("sample", **{**SMALL, "linear": {"max_ngram": 1, "buckets": 4096}})], expected_failed_checks=lambda _: CANNOT
)
def test_what_scikit_learn_asks_of_every_estimator(estimator: Any, check: Any) -> None:
    check(estimator)


def test_it_is_a_classifier(fitted: MHAClassifier) -> None:
    probabilities = fitted.predict_proba(TEXTS[:7])
    assert probabilities.shape == (7, 2)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, atol=1e-6)
    assert [*fitted.classes_] == ["neg", "pos"]
    assert [*fitted.predict(TEXTS[:7])] == [answer.label for answer in fitted.model_.predict(TEXTS[:7])]
    assert fitted.score(TEXTS, LABELS) == np.mean(fitted.predict(TEXTS) == LABELS)
    np.testing.assert_array_equal(fitted.predict(np.array(TEXTS[:7])), fitted.predict(np.array(TEXTS[:7])[:, None]))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(fitted)).predict_proba(TEXTS), fitted.predict_proba(TEXTS))


@pytest.mark.usefixtures("trained_in_numpy")
@pytest.mark.parametrize("numbers", [[10, 9], [2.0, -1.0], [True, False]])
def test_labels_keep_their_type(numbers: list[Any]) -> None:
    labels = np.array([numbers[label == "neg"] for label in LABELS])
    model = MHAClassifier(**SCORED).fit(TEXTS, labels)
    np.testing.assert_array_equal(model.classes_, sorted(numbers))
    assert model.predict(TEXTS).dtype == labels.dtype
    assert model.score(TEXTS, labels) > 0.6


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["good", float("nan"), "bad"], "Input y contains NaN."),
        (["good", None, "bad"], "Input y contains NaN."),
        ([1.0, float("nan"), 0.0], "Input y contains NaN."),
        ([["good", "new"], ["bad"], ["bad"]], "You appear to be using a legacy multi-label data representation"),
        ([[1, 0, 2], [0, 1, 1], [1, 1, 1]], "Unknown label type: multiclass-multioutput|y should be a 1d array"),
        ([0.5, 1.5, 2.5], "Unknown label type: continuous"),
        (["bad", "good", "bad "], "^y: 'bad' and 'bad ' are both the class bad; spell each class in one way$"),
        (["bad", "good", " "], "^y: the label is empty; give every text a class, or leave the row out$"),
    ],
)
def test_labels_that_are_no_classes(labels: list[Any], message: str) -> None:
    with pytest.raises((ValueError, MhaError), match=message):
        MHAClassifier(**SMALL).fit(TEXTS[:3], labels)


def test_a_clone_has_the_same_settings_and_has_learnt_nothing(fitted: MHAClassifier) -> None:
    copy = clone(fitted)
    assert copy.get_params() == fitted.get_params() == {"recipe": "text", **SMALL}
    assert not hasattr(copy, "model_")
    assert copy.set_params(recipe="sample", dropout=0.1).get_params() == {"recipe": "sample", **SMALL, "dropout": 0.1}
    assert repr(MHAClassifier(epochs=3)) == "MHAClassifier(epochs=3)"
    with pytest.raises(ValueError, match="epoch is not a setting; did you mean epochs"):
        copy.set_params(epoch=3)


@pytest.mark.usefixtures("trained_in_numpy")
def test_it_is_searched_and_cross_validated() -> None:
    search = GridSearchCV(MHAClassifier(**SMALL), {"epochs": [1, 2]}, cv=2).fit(TEXTS, LABELS)
    assert search.best_params_["epochs"] == search.best_estimator_.model_.checkpoint.config.training.epochs
    lower = FunctionTransformer(lambda texts: [text.lower() for text in texts])
    assert cross_val_score(make_pipeline(lower, MHAClassifier(**SMALL)), TEXTS, LABELS, cv=2).shape == (2,)


@pytest.mark.usefixtures("trained_in_numpy")
def test_weights_of_texts() -> None:
    wrong = np.where(LABELS == "pos", "neg", "pos")
    texts, labels, kept = TEXTS * 2, np.concatenate([LABELS, wrong]), np.repeat([1, 0], len(TEXTS))
    model, without = MHAClassifier(**SCORED).fit(texts, labels, kept), MHAClassifier(**SCORED).fit(TEXTS, LABELS)
    np.testing.assert_array_equal(model.predict_proba(TEXTS), without.predict_proba(TEXTS))
    few = MHAClassifier(**SCORED).fit(texts, labels, kept + 0.01)
    assert few.score(TEXTS, LABELS) > 0.7 > MHAClassifier(**SCORED).fit(texts, labels).score(TEXTS, LABELS)
    for weights, message in [([1] * 3, "inconsistent"), ([-1] * 240, r"weights\[0\]: the weight is -1"), ([0] * 240, "is zero")]:
        with pytest.raises((ValueError, MhaError), match=message):
            MHAClassifier(**SCORED).fit(texts, labels, weights)


def test_a_training_that_fails_changes_nothing() -> None:
    model = MHAClassifier(**SMALL)
    with pytest.raises(MhaError, match="every text has the class"):
        model.fit(TEXTS, ["one"] * len(TEXTS))
    with pytest.raises(NotFittedError):
        model.predict(TEXTS)
    for name in ("config", "texts", "weights", "output", "log"):  # arguments of train() that are no settings
        with pytest.raises(MhaError, match=f"{name} is not a setting"):
            MHAClassifier(**{name: "x"}).fit(TEXTS, LABELS)


def test_input_is_told_from_what_other_estimators_take() -> None:
    with pytest.raises(ValueError, match=r"Expected a sequence of texts, got an array of shape \(1, 120, 3\)"):
        MHAClassifier(**SMALL).fit(np.array([TEXTS] * 3).T[None], LABELS)
    vectors = TfidfVectorizer().fit_transform(TEXTS).toarray()
    with pytest.raises(ValueError, match="Expected a sequence of texts"):
        MHAClassifier(**SMALL).fit(vectors, LABELS)
    with pytest.raises(MhaError, match=r"^texts are of type dict; give a list, or a column of a table"):
        MHAClassifier(**SMALL).fit({"text": TEXTS}, LABELS)  # type: ignore[arg-type]
    with pytest.raises(MhaError, match=r"texts\[0\] is 1\.0; give texts as strings"):
        MHAClassifier(**SMALL).fit([1.0] * 120, LABELS)


@pytest.mark.usefixtures("trained_in_numpy")
@pytest.mark.parametrize("sparse", [False, True])
def test_a_matrix_of_several_labels(sparse: bool) -> None:
    """The third label has no text, and the last text has no label."""
    matrix = np.stack([LABELS == "pos", ["film" in text for text in TEXTS], np.zeros(len(TEXTS), bool)], axis=1).astype(int)
    matrix[-1] = 0
    model = MHAClassifier(**SCORED).fit(TEXTS, csr_matrix(matrix) if sparse else matrix)
    answers, probabilities = model.predict(TEXTS), model.predict_proba(TEXTS)
    assert model.classes_.tolist() == [0, 1, 2]
    assert answers.shape == probabilities.shape == matrix.shape
    assert not answers[:, 2].any() and not probabilities[:, 2].any()
    assert model.score(TEXTS, matrix) == (answers == matrix).all(axis=1).mean() > 0.3  # by chance, a quarter
