"""Whether new texts look like those that a model learned from: lengths, words and answers, each with its test."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from statistics import NormalDist

import numpy as np

from mha_cli.arrays import Int64s
from mha_cli.checkpoint.file import Checkpoint
from mha_cli.corpus.corpus import Corpus, counted
from mha_cli.errors import MhaError
from mha_cli.runtime.classifier import Classifier
from mha_cli.runtime.engine import Engine
from mha_cli.runtime.intervals import LEVELS, auc_error, wilson_interval
from mha_cli.runtime.none_of_these import none_of_these
from mha_cli.runtime.stream import MAX_BATCH_RECORDS
from mha_cli.runtime.sureness import CENTRES, FALSE_ALARMS, Sureness
from mha_cli.sources.opening import open_source
from mha_cli.system.callbacks import SILENT, Callbacks

MOST_TEXTS, LEAST_TEXTS = 5_000, 20  # texts of each side whose words are compared: drawn at random from more; with fewer there is no test
DRAWS = 2_999  # random divisions of the answers
SHOWN, FOLDS = 8, 5  # words and classes that are shown; folds of the classifier of old and new texts
WORDS = "AUC by words"


@dataclass(frozen=True)
class Comparison:
    """A figure of old and of new texts, with its test."""

    name: str
    old: float | None  # None for one figure of both
    new: float
    test: str
    p_value: float
    interval: tuple[float, float] | None = None  # 95 % interval of ``new``


@dataclass(frozen=True)
class Change:
    """New texts compared with the texts of a run, and their answers with held-out answers."""

    num_old: int  # texts of the run's files; 0 if these cannot be read
    num_new: int
    num_copies: int  # new texts that are repeated, or in the run's files; not compared by length and words
    comparisons: tuple[Comparison, ...]
    classes: tuple[Comparison, ...]  # classes whose share in the answers moved most, the first most
    new_words: tuple[str, ...]  # words that tell a new text best, the best first
    old_words: tuple[str, ...]

    @property
    def different(self) -> list[str]:
        """Names of the comparisons that tell new from old; any false alarm has a probability of ``FALSE_ALARMS`` at most.

        Source: Holm 1979, "A Simple Sequentially Rejective Multiple Test Procedure".
        """
        ordered = sorted(self.comparisons, key=lambda one: one.p_value)
        passed = [one.p_value <= FALSE_ALARMS / (len(ordered) - number) for number, one in enumerate(ordered)]
        return [one.name for one in ordered[: [*passed, False].index(False)]]


def find_change(checkpoint: Checkpoint, is_own: bool, texts: Iterable[str], callbacks: Callbacks = SILENT) -> Change:
    """Compare new texts with held-out answers and, if the checkpoint is ``is_own`` to its run, with the texts that its config names."""
    old, config, held_out, names = None, checkpoint.config, checkpoint.held_out, checkpoint.class_names
    try:
        if not is_own:
            raise MhaError("the config of the run is not beside its checkpoint")
        source, by_names = open_source(config.data), config.data.validation == "names"
        read = counted(source.read(source.splits[0]), source.name, callbacks)
        old = Corpus(read, config.text, None, source.name, by_names, learnable=False, first_classes=names)
    except MhaError as error:
        if held_out is None:
            raise MhaError(f"no held-out answers in the checkpoint, and no old texts: {error}", "train the model anew") from error
        callbacks.note(f"only answers are compared, because the old texts cannot be read: {error}")
    sureness, new, num_none = None if held_out is None else Sureness(held_out, names), list[str](), 0
    classifier = Classifier(checkpoint, Engine(checkpoint, "auto"), threads=None)
    arriving = counted(texts, "new texts", callbacks)
    while batch := [*islice(arriving, MAX_BATCH_RECORDS)]:
        new += batch
        if sureness:
            predictions = classifier.predict(batch)
            sureness.add(predictions)
            num_none += sum(prediction.is_none for prediction in predictions)
    if not new:
        raise MhaError("no new texts", "give a file that holds some")
    callbacks.log("comparing")
    num_copies, of_texts, words = _compare_texts(checkpoint, old, new) if old else (0, [], ([], []))
    of_answers, classes = _compare_answers(names, sureness) if sureness else ([], [])
    if held_out and (none := none_of_these(checkpoint)):
        num_old = int(none.are_none(held_out.probabilities).sum())
        of_answers.append(_compare_counts("none of these", num_old, len(held_out.labels), num_none, len(new)))
    return Change(len(old or ()), len(new), num_copies, (*of_texts, *of_answers), tuple(classes), tuple(words[0]), tuple(words[1]))


def _compare_texts(checkpoint: Checkpoint, old: Corpus, new: Sequence[str]) -> tuple[int, list[Comparison], Sequence[list[str]]]:
    """The number of copies, comparisons of lengths and words, and the words that tell a new text and an old one.

    Copies would make texts alike, so the texts are those that occur once, in the run's files and the new ones together. If nothing has
    changed, this favours neither side. Old texts are those that the vocabulary comes from: a word counts as unknown if the vocabulary would
    lack it without the text.
    """
    from scipy.stats import ks_2samp, mannwhitneyu

    config, rng = checkpoint.config, np.random.default_rng(0)
    learnt = np.arange(len(old)) if config.learns_from_validation else old.split(config.data.validation_share, config.seed)[0]
    hashes = [*old.hashes[learnt], *map(hash, new)]
    _, first, counts = np.unique(hashes, return_index=True, return_counts=True)
    once, distinct_old = np.sort(first[counts == 1]), np.sort(first[first < len(learnt)])
    old_rows, new_rows = once[once < len(learnt)], once[once >= len(learnt)] - len(learnt)
    num_copies = len(new) - len(new_rows)
    if 2 * len(old_rows) < len(distinct_old):  # the new texts hold the old ones
        old_rows = distinct_old
    old_rows, new_rows = rng.permutation(learnt[old_rows])[:MOST_TEXTS], rng.permutation(new_rows)
    new_rows = new_rows[: len(old_rows)]  # no more than old ones, so that their number proves nothing
    if min(len(old_rows), len(new_rows)) < LEAST_TEXTS:
        return num_copies, [], ([], [])
    parts = [old.words(row) for row in old_rows], [checkpoint.text_pipeline.tokenize(new[row]) for row in new_rows]
    numbers, known = Counter(chain.from_iterable(map(old.words, learnt))), {*checkpoint.vocabulary.tokens}
    least = 1  # occurrences in other texts that a known word needs; in a cut vocabulary, more than its rarest word has
    if not numbers.keys() <= known:
        least += min((numbers[word] for word in numbers.keys() & known), default=0)
    lengths = [[len(words) for words in part] for part in parts]
    unknown: list[list[float]] = [[], []]
    for part, shares, is_old in zip(parts, unknown, (True, False), strict=True):
        for text in part:
            own = Counter(text)
            num_known = sum(own[word] for word in own if word in known and (not is_old or numbers[word] - own[word] >= least))
            shares.append(1 - num_known / max(1, len(text)))
    p_values = float(ks_2samp(*lengths, method="asymp").pvalue), float(mannwhitneyu(*unknown, alternative="less").pvalue)
    medians, means = [float(np.median(part)) for part in lengths], [float(np.mean(part)) for part in unknown]
    of_lengths = Comparison("median tokens", medians[0], medians[1], "Kolmogorov-Smirnov", p_values[0])
    of_unknown = Comparison("unknown words", means[0], means[1], "Mann-Whitney, one-sided", p_values[1])
    of_words, *words = _compare_words(*parts)
    return num_copies, [of_lengths, of_unknown, of_words], words


def _compare_words(of_old: list[list[str]], of_new: list[list[str]]) -> tuple[Comparison, list[str], list[str]]:
    """How well a classifier tells new texts from old ones, and the words that tell a new text and an old one.

    A text is scored by the models of other folds, and other texts by models that learnt from it. So the variance of the AUC is twice that
    of independent scores where nothing has changed (exactly so for a linear classifier): it is computed for half as many texts.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold, cross_val_score

    vectorizer = TfidfVectorizer(analyzer=lambda words: words or [""], sublinear_tf=True)
    features, is_new = vectorizer.fit_transform([*of_old, *of_new]), np.repeat([False, True], [len(of_old), len(of_new)])
    model, folds = LogisticRegression(class_weight="balanced", solver="liblinear"), StratifiedKFold(FOLDS, shuffle=True, random_state=0)
    auc = float(cross_val_score(model, features, is_new, scoring="roc_auc", cv=folds).mean())
    error, error_by_chance = (auc_error(area, len(of_new) / 2, len(of_old) / 2) for area in (auc, 0.5))
    low, high = (auc + NormalDist().inv_cdf(level) * error for level in LEVELS)
    p_value = NormalDist().cdf((0.5 - auc) / error_by_chance)
    names = vectorizer.get_feature_names_out()[np.argsort(model.fit(features, is_new).coef_[0])].tolist()
    comparison = Comparison(WORDS, None, auc, "Mann-Whitney, one-sided", p_value, (max(0.0, low), min(1.0, high)))
    return comparison, names[: -SHOWN - 1 : -1], names[:SHOWN]


def _compare_answers(class_names: Sequence[str], sureness: Sureness) -> tuple[list[Comparison], list[Comparison]]:
    """Comparisons of largest probabilities and of all answers, and the classes whose share moved most."""
    old_C, new_C = sureness.old_CB.sum(axis=1), sureness.new_CB.sum(axis=1)
    num_old, num_new = int(old_C.sum()), int(new_C.sum())
    moved_C, classes = np.abs(new_C / num_new - old_C / num_old), []
    for row in np.argsort(-moved_C, kind="stable")[:SHOWN].tolist():
        classes.append(_compare_counts(f"answers {class_names[row]}", int(old_C[row]), num_old, int(new_C[row]), num_new))
    means = [float(of_CB.sum(axis=0) @ CENTRES / of_CB.sum()) for of_CB in (sureness.old_CB, sureness.new_CB)]
    of_sureness = Comparison("largest probability", means[0], means[1], "Kolmogorov-Smirnov, one-sided", sureness.test()[0])
    of_classes = Comparison("moved answers", None, float(moved_C.sum() / 2), "chi-squared, permuted", _permuted_chi_squared(old_C, new_C))
    return [of_sureness, of_classes], classes


def _permuted_chi_squared(old_C: Int64s, new_C: Int64s) -> float:
    """The share of random divisions of all answers that differ as much; the chi-squared distribution is far off for rare classes."""
    all_C, num_new = (old_C + new_C)[old_C + new_C > 0], int(new_C.sum())
    drawn_DC = np.random.default_rng(0).multivariate_hypergeometric(all_C, num_new, DRAWS)
    parts_DC = np.vstack([new_C[old_C + new_C > 0], drawn_DC])
    statistics_D = np.sum((parts_DC - num_new * all_C / all_C.sum()) ** 2 / all_C, axis=1)
    return float(np.mean(statistics_D >= statistics_D[0] * (1 - 1e-9)))


def _compare_counts(name: str, old: int, num_old: int, new: int, num_new: int) -> Comparison:
    """Comparison of the share of some answers, from their numbers and those of all answers."""
    from scipy.stats import fisher_exact

    p_value = float(fisher_exact([[old, num_old - old], [new, num_new - new]]).pvalue)
    return Comparison(name, old / num_old, new / num_new, "Fisher", p_value, wilson_interval(new, num_new))
