"""Texts to label next: those that a model is least certain of, and that stand for many of them.

Source: Wei, Iyer and Bilmes 2015, "Submodularity in Data Subset Selection and Active Learning", section 5: of the most uncertain texts, a
part whose nearest neighbours they are (facility location, greedily). The margin: Scheffer, Decomain and Wrobel 2001, "Active Hidden Markov
Models for Information Extraction".

Axes: K candidates, F features, C classes.
"""

from collections import Counter
from collections.abc import Container, Iterable, Sequence
from itertools import chain
from typing import Any
from zlib import crc32

import numpy as np

from mha_cli.arrays import Floats, Int64s
from mha_cli.records.record import Record
from mha_cli.runtime.classifier import Classifier
from mha_cli.runtime.stream import Predicted

CANDIDATES = 10  # candidates per text that is asked for
BUCKETS = 1024  # features of a text's words, which are hashed


class NextTexts:
    """Takes the predictions for any number of texts, and keeps the candidates alone; ``known`` are texts with a label, by ``same_text``."""

    def __init__(self, classifier: Classifier, number: int, known: Container[int]) -> None:
        self._classifier, self._number, self._known = classifier, number, known
        self._candidates: dict[int, tuple[float, Record]] = {}  # margin and record of each, by ``same_text``

    def add(self, predicted: Iterable[Predicted]) -> None:
        """Take further predictions. Texts without a word, known ones and repeated ones are left out."""
        for record, prediction in predicted:
            key = same_text(record.text)
            if not (prediction.empty or key in self._known):
                probabilities_C = np.fromiter(prediction.probabilities.values(), np.float32)
                thresholds_C = None if prediction.labels is None else self._classifier.checkpoint.label_thresholds
                self._candidates.setdefault(key, (float(margin(probabilities_C, thresholds_C)), record))
        by_margin = sorted(self._candidates.items(), key=lambda item: item[1][0])
        self._candidates = dict(by_margin[: CANDIDATES * self._number])

    def chosen(self) -> list[Record]:
        """The texts whose labels would teach most, the most useful first."""
        margins, records = [margin for margin, _ in self._candidates.values()], [record for _, record in self._candidates.values()]
        features_KF = features_of([self._classifier.text_pipeline.tokenize(record.text) for record in records])
        return [records[row] for row in most_useful(features_KF, np.array(margins, np.float32), self._number)]


def same_text(text: str) -> int:
    """A number that two texts share if they differ in white space alone."""
    return hash(" ".join(text.split()))


def margin(probabilities_C: Floats, thresholds_C: Any = None) -> Any:
    """The likeliest class's probability minus the second one's; with thresholds, the distance of the label nearest to its own.

    Of probabilities (…, C) it is (…).
    """
    if thresholds_C is not None:
        return np.abs(probabilities_C - thresholds_C).min(axis=-1)
    return np.ptp(np.partition(probabilities_C, -2, axis=-1)[..., -2:], axis=-1)


def features_of(words: Sequence[Sequence[str]]) -> Floats:
    """The distinct words of each text by their inverse document frequency, hashed, with norm 1, (K, F)."""
    distinct = list(map(dict.fromkeys, words))
    frequency = Counter(chain.from_iterable(distinct))
    features_KF = np.zeros((len(words), BUCKETS), np.float32)
    for row_F, words_of_text in zip(features_KF, distinct, strict=True):
        for word in words_of_text:
            row_F[crc32(word.encode("utf-8", "surrogatepass")) % BUCKETS] += np.log((1 + len(words)) / frequency[word])
    normalized: Floats = features_KF / np.linalg.norm(features_KF, axis=1, keepdims=True)
    return normalized


def cosines(one_KF: Any, other_MF: Any) -> Floats:
    """The cosine of each text with each, (K, M), from features with norm 1, dense or sparse."""
    products: Any = one_KF @ other_MF.T
    cosines_KM: Floats = products if isinstance(products, np.ndarray) else products.toarray()
    return cosines_KM


def most_useful(features_NF: Any, margins_N: Floats, number: int) -> Int64s:
    """Rows of the texts that a model is least certain of and that stand for many of these, the most useful first; features have norm 1."""
    candidates = np.argsort(margins_N, kind="stable")[: CANDIDATES * number]
    features_KF = features_NF[candidates]
    return candidates[representatives(cosines(features_KF, features_KF), 1.0 - margins_N[candidates], number)]


def representatives(cosines_KK: Floats, weights_K: Floats, number: int, nearest_K: Floats | None = None) -> list[int]:
    """Rows R that make Σ_k weight_k max_r∈R cos(k, r) large, the largest gain first; ``nearest_K`` are cosines with rows chosen before.

    An earlier gain is an upper bound, so few are computed again (Minoux 1978, "Accelerated Greedy Algorithms …", lazy evaluation).
    """
    nearest_K, rows = np.zeros(len(weights_K), np.float32) if nearest_K is None else nearest_K, list[int]()
    gains_K = np.maximum(cosines_KK - nearest_K, 0.0) @ weights_K
    for _ in range(min(number, len(weights_K))):
        exact = set[int]()
        while (row := int(gains_K.argmax())) not in exact:
            gains_K[row] = np.maximum(cosines_KK[row] - nearest_K, 0.0) @ weights_K
            exact.add(row)
        rows.append(row)
        gains_K[row] = -1.0
        nearest_K = np.maximum(nearest_K, cosines_KK[row])
    return rows
