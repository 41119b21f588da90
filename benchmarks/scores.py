"""What fitting n-gram scores costs beside scikit-learn's LinearSVC on the same features, for 2 to 150 classes; prints only.

    python benchmarks/scores.py                                   # made-up texts: 18,000 of 12 words
    python benchmarks/scores.py --texts 2000 --classes 2 20       # a try-out

A class has words of its own among words that all classes use.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np

from mha_cli.config.loading import config_from_dict
from mha_cli.data.corpus import EncodedTexts
from mha_cli.text.characters import characters_of

WORDS, LENGTH, OWN_WORDS, CHARACTERS = 10_000, 12, 20, 16


def made_up_texts(num_texts: int, num_classes: int) -> EncodedTexts:
    """Texts as training reads them: a third of the words of a text are those of its class."""
    rng = np.random.default_rng(0)
    spelt = ["".join(rng.choice(list("etaoinshrdlu"), rng.integers(3, 10))) for _ in range(WORDS)]
    labels = rng.integers(num_classes, size=num_texts).astype(np.int32)
    common = np.minimum(rng.zipf(1.3, size=(num_texts, LENGTH)), WORDS - 1)
    own = (labels[:, None] * OWN_WORDS + rng.integers(OWN_WORDS, size=common.shape)) % (WORDS - 1) + 1
    words = np.where(rng.random(common.shape) < 1 / 3, own, common).ravel()
    ids = words.astype(np.int32) + 1
    tokens = np.concatenate([ids[:, None], characters_of([spelt[word] for word in words], CHARACTERS)], axis=1)
    return EncodedTexts(tokens, np.arange(num_texts + 1, dtype=np.int64) * LENGTH, labels, 0)


def main() -> None:
    """Fit both, in turn."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=18_000, help="texts to fit on (18,000)")
    parser.add_argument("--classes", type=int, nargs="+", default=[2, 6, 20, 77, 150], help="numbers of classes (2 6 20 77 150)")
    parser.add_argument("--rounds", type=int, default=3, help="times that both are fitted, of which the best counts (3)")
    arguments = parser.parse_args()

    from sklearn.svm import LinearSVC

    from mha_cli.linear.features import ngrams_of, text_features
    from mha_cli.linear.one_vs_rest import fit_linear_model
    from mha_cli.linear.regularization import choose_strength

    model = config_from_dict(
        {"text": {"subword_characters": CHARACTERS}, "model": {"score_ngrams": 3, "score_buckets": 1 << 17, "score_subwords": True}}, "here"
    ).model
    warnings.simplefilter("ignore")  # of LinearSVC, where it stops at its most passes
    for num_classes in arguments.classes:
        texts = made_up_texts(arguments.texts, num_classes)
        features = text_features(texts, ngrams_of(texts, model), model)
        started = time.perf_counter()
        strength = choose_strength(features, texts.labels, num_classes, np.ones(len(texts), np.float32), 0)
        choosing = time.perf_counter() - started
        ours, theirs = [], []
        for _ in range(arguments.rounds):
            started = time.perf_counter()
            fit_linear_model(features, texts.labels, num_classes, strength)
            between = time.perf_counter()
            LinearSVC().fit(features, texts.labels)
            ours.append(between - started)
            theirs.append(time.perf_counter() - between)
        ratio = min(ours) / min(theirs)
        seconds = f"ours {min(ours):.2f} s, LinearSVC {min(theirs):.2f} s, ratio {ratio:.2f}"
        print(f"{num_classes} classes: {seconds}; choosing how strongly {choosing:.2f} s", flush=True)


if __name__ == "__main__":
    main()
