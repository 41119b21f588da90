"""Labels that may be wrong: those that out-of-fold predictions contradict.

The linear model is fitted five times, each time without a fifth of the texts, which it then answers. The self-confidence of a label is
its out-of-fold probability. Where texts may have several labels, each label of each text is a question with two answers, no and yes.

Source: Northcutt, Jiang and Chuang 2021, "Confident Learning: Estimating Uncertainty in Dataset Labels", Journal of Artificial
Intelligence Research 70: section 3.1 with eq. 1 and 2 says which labels are contradicted, section 3.2 ranks by self-confidence.

Axes: N texts, C classes, U units of the logits, Q questions.
"""

from dataclasses import dataclass, replace

import numpy as np

from mha_cli.arrays import Bools, Floats, Int32s, Int64s
from mha_cli.config.decisions import decide
from mha_cli.config.loading import load_config
from mha_cli.config.recipes import find_config
from mha_cli.config.settings import Config
from mha_cli.corpus.class_weights import loss_weights
from mha_cli.corpus.corpus import Corpus, counted
from mha_cli.corpus.encoded_texts import EncodedTexts
from mha_cli.linear.features import ngrams_of, text_features
from mha_cli.linear.one_vs_rest import FOLDS, Examples, cross_fitted
from mha_cli.linear.regularization import choose_regularization
from mha_cli.linear.stacking import answers_alone
from mha_cli.preparation.scored_texts import texts_at
from mha_cli.sources.labelled_text import LabelledText
from mha_cli.sources.labels import find_respelt, merged
from mha_cli.sources.opening import open_source
from mha_cli.sources.stored_texts import StoredTexts
from mha_cli.sources.targets import are_several, rarest_classes
from mha_cli.system.callbacks import SILENT, Callbacks

MOST_TOGETHER = 100_000  # texts that are answered by models of each other, at most, since the n-grams of all of them are in memory at once


@dataclass(frozen=True)
class LabelIssue:
    """A text whose label may be wrong."""

    file: str  # path of its file; of a source without files, its name and split
    line: int | None  # first line in the file; in Parquet the row, without files the text's number; None for a file that is the text
    label: str  # its class in the data, of which ``probability`` is the probability; empty where it lacks the label ``suggested``
    probability: float
    suggested: str  # most probable other class; empty where it should lack ``label``
    suggested_probability: float
    contradicted: bool  # whether the confident joint counts the label as wrong; see the function ``contradicted``
    text: str


@dataclass(frozen=True)
class LabelIssueReport:
    """The labels of the training data that are most likely wrong."""

    data: str
    num_texts: int
    accuracy: float  # out of fold
    num_contradicted: int  # contradicted labels of all texts; if the model is often wrong, most of them are right
    label_issues: list[LabelIssue]  # the requested number of issues, the most likely first


def find_label_issues(config: Config, most: int, by_options: bool = False, callbacks: Callbacks = SILENT) -> LabelIssueReport:
    """Read the training data, answer every text out of fold by the config's linear model, or that of ``text``, and report issues.

    Messages name options of the command rather than settings with ``by_options``.
    """
    if config.linear is None:
        recipe = load_config(find_config("text"), ["data.source=sample"])
        config = recipe.changed(data=config.data, seed=config.seed)
    source = open_source(config.data, callbacks, by_options)
    split = source.splits[0]
    texts = StoredTexts(counted(source.read(split), source.name, callbacks))
    corpus = Corpus(texts, config.text, source.class_names, f"{source.name}, split {split}")
    if respelt := find_respelt(corpus.sizes):  # which `mha init` proposes to merge
        given = source.class_names and tuple(name for name in source.class_names if name not in respelt)
        corpus = Corpus(merged(texts, respelt), config.text, given, f"{source.name}, split {split}")
    if config.auto:
        config = decide(config, corpus.facts())
    labels, names, num_texts = corpus.labels, corpus.class_names, len(corpus)
    vocabulary = corpus.vocabulary(np.arange(num_texts), config.text.vocabulary_size)
    probabilities_NC = np.zeros((num_texts, len(names)), np.float32)
    for part in np.array_split(np.random.default_rng(config.seed).permutation(num_texts), -(-num_texts // MOST_TOGETHER)):
        probabilities_NC[part] = cross_fitted_probabilities(corpus.encode(part, vocabulary, config.text), len(names), config, callbacks)
    questions, class_names = [(probabilities_NC, labels)], [names]
    if are_several(labels):
        of_labels = zip(probabilities_NC.T, labels.T, strict=True)
        questions = [(np.stack([1.0 - yes_N, yes_N], axis=1), is_label_N.astype(np.int32)) for yes_N, is_label_N in of_labels]
        class_names = [("", name) for name in names]
    in_doubt = np.concatenate([contradicted(*question) for question in questions])
    probabilities_QC, labels_Q = map(np.concatenate, zip(*questions, strict=True))
    likeliest = ranked(probabilities_QC, labels_Q)[:most]
    accuracy = float((probabilities_QC.argmax(axis=1) == labels_Q).mean())

    def issue(question: int, text: LabelledText) -> LabelIssue:
        given, probabilities_C, names = labels_Q[question], probabilities_QC[question], class_names[question // num_texts]
        suggested = np.where(np.arange(len(names)) == given, -1.0, probabilities_C).argmax()
        return LabelIssue(
            file=text.file,
            line=text.line,
            label=names[given],
            probability=float(probabilities_C[given]),
            suggested=names[suggested],
            suggested_probability=float(probabilities_C[suggested]),
            contradicted=bool(in_doubt[question]),
            text=text.text,
        )

    issues = list(map(issue, likeliest.tolist(), texts_at(texts, likeliest % num_texts)))
    return LabelIssueReport(source.name, num_texts, accuracy, int(in_doubt.sum()), issues)


def contradicted(probabilities_NC: Floats, labels_N: Int32s) -> Bools:
    """Which labels are off the diagonal of the confident joint, (N,), and not the most probable classes.

    t_j = mean of p̂(j; x) over the texts x that are labelled j (eq. 2). A text x that is labelled i is counted in C[i][j] for the most
    probable j of those with p̂(j; x) ≥ t_j (eq. 1).
    """
    num_classes = probabilities_NC.shape[1]
    thresholds_C = np.array([probabilities_NC[labels_N == j, j].mean() if (labels_N == j).any() else np.inf for j in range(num_classes)])
    confident_NC = np.where(probabilities_NC >= thresholds_C, probabilities_NC, 0.0)
    is_other_N = confident_NC.any(axis=1) & (confident_NC.argmax(axis=1) != labels_N)
    return is_other_N & (probabilities_NC.argmax(axis=1) != labels_N)


def ranked(probabilities_NC: Floats, labels_N: Int32s) -> Int64s:
    """All rows, (N,): first those whose answer is not their label; within both parts, the least probable labels first."""
    self_confidence_N = probabilities_NC[np.arange(len(labels_N)), labels_N]
    return np.lexsort((self_confidence_N, probabilities_NC.argmax(axis=1) == labels_N))


def cross_fitted_probabilities(texts: EncodedTexts, num_classes: int, config: Config, callbacks: Callbacks = SILENT) -> Floats:
    """Out-of-fold probabilities of all classes, (N, C), for texts in random order; every class is dealt out over the folds."""
    labels = texts.labels
    folds = np.empty(len(texts), np.int64)
    folds[np.argsort(rarest_classes(labels), kind="stable")] = np.arange(len(texts)) % FOLDS
    assert config.linear
    features = text_features(texts, ngrams_of(texts, config.linear, callbacks), config.linear, callbacks)
    weights = loss_weights(config, replace(texts, weights=None), num_classes)
    examples = Examples(features, labels, num_classes, weights)
    logits_NU = np.zeros((len(texts), examples.units), np.float32)
    for fold, model in cross_fitted(examples, choose_regularization(examples, config.seed, callbacks), folds, callbacks):
        logits_NU[fold] = model.logits(features[fold])
    return answers_alone(logits_NU, labels)
