"""Texts that a model has not learnt from, of the same kind and of others."""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import chi2_contingency

from mha_cli.analysis.change import WORDS as BY_WORDS
from mha_cli.analysis.change import Change, Comparison, _permuted_chi_squared, find_change
from mha_cli.checkpoint.file import Checkpoint
from mha_cli.checkpoint.held_out import HeldOut
from mha_cli.config.loading import config_from_dict, config_to_dict
from mha_cli.config.settings import FilesData
from mha_cli.errors import MhaError
from mha_cli.runtime.classifier import Classifier
from mha_cli.system.callbacks import Callbacks
from mha_cli.text.vocabulary import Vocabulary
from tests.checkpoints import small_checkpoint
from tests.tables import write_table

KNOWN, RARE = [f"word{number}" for number in range(16)], [f"rare{number}" for number in range(400)]


def drawn(number: int, seed: int, shortest: int = 3, rare: float = 0.05) -> list[str]:
    """Texts of frequent words, one of them more frequent than the others, and of rare words."""
    rng = random.Random(seed)
    return [
        " ".join(rng.choice(RARE) if rng.random() < rare else rng.choice([*KNOWN, KNOWN[0]]) for _ in range(rng.randrange(shortest, 12)))
        for _ in range(number)
    ]


@pytest.fixture(params=[True, False], ids=["learnt from the validation part", "not"])
def model(request: pytest.FixtureRequest, tmp_path: Path) -> Checkpoint:
    """A model with the words of its training texts, and its answers to further ones."""
    texts = drawn(1_009, 0)
    rows = [(text, "pos" if row % 2 else "neg") for row, text in enumerate(texts)]
    path = write_table(tmp_path / "old.csv", rows)
    small = small_checkpoint(linear={"max_ngram": 1, "buckets": 64})
    settings = config_to_dict(small.config) | {"data": {"source": "files", "train": str(path), "label_column": "label"}}
    config = config_from_dict(settings, "test").changed(training={"refit_linear": request.param}, text={"vocabulary_size": 1_000})
    words = sorted({word for text in texts for word in text.split()})
    weights = dict(small.weights)
    for name, weight in weights.items():
        if len(weight) == len(small.vocabulary):
            weights[name] = np.random.default_rng(0).normal(0, 0.5, (len(words) + 2, *weight.shape[1:])).astype(np.float32)
    made = replace(small, config=config, vocabulary=Vocabulary(words), weights=weights)
    assert config.learns_from_validation == request.param

    def answers_of(model: Checkpoint) -> np.ndarray:
        return np.array([[*one.probabilities.values()] for one in Classifier(model).predict(drawn(307, 1))], np.float32)

    weights["classifier/bias"] = weights["classifier/bias"] - np.median(
        np.log(answers_of(made) @ [-1, 1] + 1) - np.log(answers_of(made) @ [1, -1] + 1)
    )
    answers = answers_of(made)  # as many of each class
    return replace(made, held_out=HeldOut.of(answers, answers.argmax(axis=1)))


def change(model: Checkpoint, texts: Sequence[str], is_own: bool = True) -> Change:
    return find_change(model, is_own, iter(texts))


def test_texts_of_the_same_kind_are_not_told(model: Checkpoint) -> None:
    found = change(model, drawn(503, 2))
    assert (found.different, found.num_old, found.num_new) == ([], 1_009, 503)
    names = ["median tokens", "unknown words", BY_WORDS, "largest probability", "moved answers"]
    assert [one.name for one in found.comparisons] == names
    assert [one.name for one in found.classes] in (["answers neg", "answers pos"], ["answers pos", "answers neg"])
    unknown = found.comparisons[1]
    assert unknown.old == pytest.approx(unknown.new, abs=0.01)


@pytest.mark.parametrize(
    ("change_texts", "told"),
    [
        (lambda texts: [text.replace("word0", "word1") for text in texts], {BY_WORDS}),
        (lambda texts: [f"{text} {text}" for text in texts], {"median tokens"}),
        (lambda texts: [text.replace("word3", f"new{row}") for row, text in enumerate(texts)], {"unknown words", BY_WORDS}),
    ],
)
def test_changed_texts_are_told_by_what_has_changed(
    change_texts: Callable[[list[str]], list[str]], told: set[str], model: Checkpoint
) -> None:
    found = change(model, change_texts(drawn(503, 2)))
    assert told <= {*found.different}
    if "word0" in found.old_words:
        assert "word1" in found.new_words


def test_copies_of_old_texts_hide_no_change_and_make_none(model: Checkpoint) -> None:
    old, new = drawn(1_009, 0), drawn(503, 2)
    same = change(model, [*new, *old[:400], *new[:100]])
    assert same.num_copies >= 200 + 300  # some old texts are held out
    assert same.different == []
    assert BY_WORDS in change(model, [*[text.replace("word0", "word1") for text in new], *old]).different
    assert change(model, old).different == []


def test_one_text_that_is_repeated_moves_the_answers(model: Checkpoint) -> None:
    found = change(model, ["word1 word2"] * 503)
    assert "moved answers" in found.different
    assert found.num_copies == 503
    (moved,) = (one for one in found.comparisons if one.name == "moved answers")
    assert moved.new == pytest.approx(abs(found.classes[0].new - (found.classes[0].old or 0)))


def test_texts_of_no_class_are_counted(model: Checkpoint) -> None:
    with_none = replace(model, config=model.config.changed(data={"none_label": "other", "none_answered": 0.9}))
    found = change(with_none, drawn(503, 2))
    (of_none,) = (one for one in found.comparisons if one.name == "none of these")
    assert of_none.old == pytest.approx(0.1, abs=0.01)
    assert of_none.new == np.mean([one.is_none for one in Classifier(with_none).predict(drawn(503, 2))])
    assert of_none.interval and of_none.interval[0] < of_none.new < of_none.interval[1]


def test_without_old_texts_only_answers_are_compared(model: Checkpoint, tmp_path: Path) -> None:
    notes = list[str]()
    path = tmp_path / "old.csv"
    path.unlink()
    found = find_change(model, True, iter(drawn(53, 2)), Callbacks(note=notes.append))
    assert [one.name for one in found.comparisons] == ["largest probability", "moved answers"]
    told = f"only answers are compared, because the old texts cannot be read: {path}: no such file or folder"
    assert len(notes) == 1
    assert notes[0].startswith(told)
    find_change(model, False, iter(drawn(53, 2)), Callbacks(note=notes.append))
    assert notes[1].endswith("the config of the run is not beside its checkpoint")
    with pytest.raises(MhaError, match="no held-out answers in the checkpoint, and no old texts: the config of the run"):
        change(replace(model, held_out=None), drawn(53, 2), is_own=False)
    with pytest.raises(MhaError, match="no new texts; give a file that holds some"):
        change(model, [])


def test_without_held_out_answers_texts_are_compared(model: Checkpoint) -> None:
    found = change(replace(model, held_out=None), drawn(53, 2))
    assert [one.name for one in found.comparisons] == ["median tokens", "unknown words", BY_WORDS]
    assert found.classes == ()


@pytest.mark.parametrize(
    ("p_values", "different"),
    [
        ([0.04, 0.04, 0.04], []),
        ([0.5, 0.016, 0.3], ["1"]),
        ([0.04, 0.016, 0.024], ["1", "2", "0"]),
        ([0.04, 0.016, 0.026], ["1"]),
        ([], []),
    ],
)
def test_holms_correction(p_values: list[float], different: list[str]) -> None:
    comparisons = tuple(Comparison(str(number), 0, 0, "", p_value) for number, p_value in enumerate(p_values))
    assert Change(0, 0, 0, comparisons, (), (), ()).different == different


@pytest.mark.parametrize("num_new", [1, 5, 19, 500])
def test_rare_classes_raise_no_false_alarms_in_the_answers(num_new: int) -> None:
    rng, shares = np.random.default_rng(0), 1 / np.arange(1, 51) ** 1.5
    draws = ((rng.multinomial(number, shares / shares.sum()) for number in (500, num_new)) for _ in range(200))
    assert sum(_permuted_chi_squared(*pair) <= 0.05 for pair in draws) <= 17  # of 200: 5 % and 2.3 standard deviations


def test_the_statistic_is_that_of_pearson() -> None:
    old, new = np.array([2_000, 3_000, 1_000, 0]), np.array([680, 960, 360, 0])
    assert _permuted_chi_squared(old, new) == pytest.approx(chi2_contingency([old[:3], new[:3]]).pvalue, abs=0.03)


def test_a_vocabulary_without_rare_words_is_no_difference(model: Checkpoint) -> None:
    counts = Counter(word for text in drawn(1_009, 0, rare=0.4) for word in text.split())
    files = model.config.data
    assert isinstance(files, FilesData)
    write_table(Path(files.train_paths[0]), [(text, "pos" if row % 2 else "neg") for row, text in enumerate(drawn(1_009, 0, rare=0.4))])
    words = sorted(sorted(counts, key=lambda word: -counts[word])[:200])
    weights = {name: weight[: len(words) + 2] if len(weight) == len(model.vocabulary) else weight for name, weight in model.weights.items()}
    config = model.config.changed(training={"refit_linear": True})
    cut = replace(model, config=config, vocabulary=Vocabulary(words), weights=weights)
    assert "unknown words" not in change(cut, drawn(1_009, 1, rare=0.4)).different
