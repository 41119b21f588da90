"""Whether new texts look like those that a model learned from: lengths, words and answers, each with its test.

Axes: C classes, D draws.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from math import erfc, sqrt
from statistics import NormalDist
from sys import intern

import numpy as np

from mha_cli.analysis.intervals import LEVELS, auc_error, wilson_interval
from mha_cli.arrays import Float64s, Int64s
from mha_cli.checkpoint.file import Checkpoint
from mha_cli.corpus.corpus import Corpus, counted
from mha_cli.errors import MhaError, plural
from mha_cli.preparation.scored_texts import texts_at
from mha_cli.records.record import Record
from mha_cli.runtime.classifier import Classifier
from mha_cli.runtime.engine import Engine
from mha_cli.runtime.stream import Answering, Predicted, usual_workers
from mha_cli.runtime.sureness import CENTRES, FALSE_ALARMS, Sureness
from mha_cli.sources.labelled_text import LabelledText
from mha_cli.sources.opening import open_source
from mha_cli.sources.stored_texts import StoredTexts
from mha_cli.system.callbacks import SILENT, Callbacks

MOST_TEXTS, LEAST_TEXTS = 5_000, 20  # texts of each side whose words are compared, drawn at random from more; and for which it takes
DRAWS, FOLDS = 999, 5  # random divisions of old and new answers together; folds of the classifier of old and new
SHOWN_WORDS, SHOWN_CLASSES = 8, 5


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

    num_new: int
    num_copies: int  # new texts that are repeated, or in the run's files; not compared by length and words
    num_old: int  # texts of the run's files; 0 if these cannot be read
    num_held_out: int  # held-out answers in the checkpoint
    comparisons: tuple[Comparison, ...]
    classes: tuple[Comparison, ...]  # shares of the classes in the answers that moved most, the first most
    new_words: tuple[str, ...]  # words that tell a new text best, the best first
    old_words: tuple[str, ...]

    @property
    def different(self) -> list[str]:
        """Names of comparisons that tell old from new; one false alarm or more has a probability of ``FALSE_ALARMS`` at most.

        Source: Holm 1979, "A Simple Sequentially Rejective Multiple Test Procedure".
        """
        ordered = sorted(self.comparisons, key=lambda one: one.p_value)
        passed = [one.p_value <= FALSE_ALARMS / (len(ordered) - number) for number, one in enumerate(ordered)]
        return [one.name for one in ordered[: [*passed, False].index(False)]]


def find_change(checkpoint: Checkpoint, is_own: bool, records: Iterable[Record], callbacks: Callbacks = SILENT) -> Change:
    """Compare new texts with held-out answers and, if the checkpoint is ``is_own`` to its run, with the texts that its config names."""
    old, config, held_out = None, checkpoint.config, checkpoint.held_out
    try:
        if not is_own:
            raise MhaError("the config of the run is not beside its checkpoint")
        source, by_names = open_source(config.data), config.data.validation == "names"
        texts = counted(source.read(source.splits[0]), source.name, callbacks)
        old = Corpus(texts, config.text, None, source.name, by_names, learnable=False, first_classes=checkpoint.class_names)
    except MhaError as error:
        if held_out is None:
            raise MhaError(f"no held-out answers in the checkpoint, and no old texts: {error}", "train the model anew") from error
        callbacks.note(f"only answers are compared, because the old texts cannot be read: {error}")
    sureness = None if held_out is None else Sureness(held_out, checkpoint.class_names)
    new, new_hashes = StoredTexts(LabelledText(record.text, "") for record in records), list[int]()
    answering = Answering(Classifier(checkpoint, Engine(checkpoint, "auto")), usual_workers())

    def add(batch: list[Predicted]) -> None:
        new_hashes.extend(hash(record.text) for record, _ in batch)
        if sureness:
            sureness.add([prediction for _, prediction in batch])
        callbacks.count(f"answering: {plural(answering.num_texts, 'text')}")

    answering.run((Record(one.text, b"") for one in new), add)
    if not new_hashes:
        raise MhaError("no new texts", "give a file that holds some")
    callbacks.log("comparing")
    num_copies, comparisons, classes, words = 0, list[Comparison](), list[Comparison](), list[list[str]]()
    if old:
        num_copies, comparisons, words = _compare_texts(checkpoint, old, new, np.array(new_hashes))
    if sureness:
        of_answers, classes = _compare_answers(checkpoint.class_names, sureness)
        comparisons += of_answers
    numbers = len(new_hashes), num_copies, len(old) if old else 0, len(held_out.labels) if held_out else 0
    return Change(*numbers, tuple(comparisons), tuple(classes), *map(tuple, words or ([], [])))


def _compare_texts(
    checkpoint: Checkpoint, old: Corpus, new: StoredTexts, new_hashes: Int64s
) -> tuple[int, list[Comparison], list[list[str]]]:
    """The number of copies, comparisons of lengths, unknown words and words, and the words that tell a new text and an old one.

    Copies would make texts alike, so the texts are those that occur once, in the run's files and the new ones together. If nothing has
    changed, this favours neither side. Old texts are those that the vocabulary comes from; their words of one text count as unknown.
    """
    from scipy.stats import ks_2samp, mannwhitneyu

    config, rng = checkpoint.config, np.random.default_rng(0)
    learnt = np.arange(len(old)) if config.learns_from_validation else old.split(config.data.validation_share, config.seed)[0]
    _, first, counts = np.unique(np.concatenate([old.hashes[learnt], new_hashes]), return_index=True, return_counts=True)
    once, distinct_old = np.sort(first[counts == 1]), np.sort(first[first < len(learnt)])
    old_rows, new_rows = once[once < len(learnt)], once[once >= len(learnt)] - len(learnt)
    num_copies = len(new_hashes) - len(new_rows)
    if 2 * len(old_rows) < len(distinct_old):  # the new texts hold the old ones
        old_rows = distinct_old
    old_rows = rng.permutation(learnt[old_rows])[:MOST_TEXTS]
    new_rows = rng.permutation(new_rows)[: len(old_rows)]  # no more than old ones, so that their number proves nothing
    if min(len(old_rows), len(new_rows)) < LEAST_TEXTS:
        return num_copies, [], []
    of_old = [old.words(row) for row in old_rows.tolist()]
    of_new = [[*map(intern, checkpoint.text_pipeline.tokenize(one.text))] for one in texts_at(new, new_rows)]
    num_texts, known = Counter(chain.from_iterable({*old.words(row)} for row in learnt.tolist())), {*checkpoint.vocabulary.tokens}
    lengths = [[len(words) for words in part] for part in (of_old, of_new)]
    unknown = [_unknown_shares(of_old, {word for word in known if num_texts[word] > 1}), _unknown_shares(of_new, known)]
    p_values = float(ks_2samp(*lengths, method="asymp").pvalue), float(mannwhitneyu(*unknown, alternative="less").pvalue)
    of_words, words = _compare_words(of_old, of_new)
    comparisons = [
        Comparison(
            "tokens per text, median", float(np.median(lengths[0])), float(np.median(lengths[1])), "Kolmogorov-Smirnov", p_values[0]
        ),
        Comparison("unknown words", float(np.mean(unknown[0])), float(np.mean(unknown[1])), "Mann-Whitney", p_values[1]),
        of_words,
    ]
    return num_copies, comparisons, words


def _unknown_shares(texts: Iterable[Sequence[str]], known: set[str]) -> list[float]:
    return [sum(word not in known for word in words) / max(1, len(words)) for words in texts]


def _compare_words(of_old: list[list[str]], of_new: list[list[str]]) -> tuple[Comparison, list[list[str]]]:
    """How well a classifier tells new texts from old ones, and the words that tell a new text and an old one.

    A text is scored by the models of other folds, and other texts by models that learnt from it. So the variance of the AUC is twice that
    of independent scores where nothing has changed (exactly so for a linear classifier): it is computed for half as many texts.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold, cross_val_score

    vectorizer = TfidfVectorizer(analyzer=lambda words: words or [""], sublinear_tf=True)
    features, is_new = vectorizer.fit_transform([*of_old, *of_new]), np.repeat([False, True], [len(of_old), len(of_new)])
    model, halves = LogisticRegression(class_weight="balanced", solver="liblinear"), (len(of_new) / 2, len(of_old) / 2)
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=0)
    auc = float(cross_val_score(model, features, is_new, scoring="roc_auc", cv=folds).mean())
    reach = NormalDist().inv_cdf(LEVELS[1]) * auc_error(auc, *halves)
    p_value = erfc((auc - 0.5) / auc_error(0.5, *halves) / sqrt(2)) / 2
    comparison = Comparison("words, AUC", None, auc, "Hanley-McNeil", p_value, (max(0.0, auc - reach), min(1.0, auc + reach)))
    names = vectorizer.get_feature_names_out()[np.argsort(model.fit(features, is_new).coef_[0])].tolist()
    return comparison, [names[: -SHOWN_WORDS - 1 : -1], names[:SHOWN_WORDS]]


def _compare_answers(class_names: Sequence[str], sureness: Sureness) -> tuple[list[Comparison], list[Comparison]]:
    """Comparisons of largest probabilities and of all answers, and the classes whose share moved most."""
    old_C, new_C = sureness.old_CB.sum(axis=1), sureness.new_CB.sum(axis=1)
    num_old, num_new = int(old_C.sum()), int(new_C.sum())
    drawn_DC = np.random.default_rng(0).multivariate_hypergeometric(old_C + new_C, num_old, DRAWS)
    drawn_DC = np.abs((old_C + new_C - drawn_DC) / num_new - drawn_DC / num_old)
    moved_C = np.abs(new_C / num_new - old_C / num_old)

    def p_value(moved: float, drawn_D: Float64s) -> float:  # Phipson and Smyth 2010, "Permutation P-values Should Never Be Zero"
        return float((1 + np.count_nonzero(drawn_D >= moved - 1e-9)) / (1 + DRAWS))

    classes = []
    for row in np.argsort(-moved_C, kind="stable")[:SHOWN_CLASSES].tolist():
        old, new = int(old_C[row]), int(new_C[row])
        figures = old / num_old, new / num_new, "permutation", p_value(moved_C[row], drawn_DC[:, row])
        classes.append(Comparison(class_names[row], *figures, wilson_interval(new, num_new)))
    old_mean, new_mean = (float(of_CB.sum(axis=0) @ CENTRES / of_CB.sum()) for of_CB in (sureness.old_CB, sureness.new_CB))
    total = float(moved_C.sum()) / 2
    of_all = Comparison("answers that moved", None, total, "permutation", p_value(total, drawn_DC.sum(axis=1) / 2))
    return [Comparison("largest probability", old_mean, new_mean, "Kolmogorov-Smirnov", sureness.test()[0]), of_all], classes
