"""How often `mha data` with a checkpoint and the line of `mha predict` tell of new texts that differ from the old ones; prints only.

    python benchmarks/change_of_texts.py FOLDER mr trec6 trec50 ag trec6_hi zh_waimai    # NAME_train.csv and NAME_test.csv
    python benchmarks/change_of_texts.py FOLDER mr trec6 ag --changed                      # changes of our own making
    python benchmarks/change_of_texts.py FOLDER mr --imdb                                  # whole reviews in place of sentences (TFDS)

A run of the recipe `text` on NAME_train.csv is in RUNS/NAME-0, and is trained if it is not there. Fresh draws are random parts of the
test file, which must itself be a random part of all texts. With --imdb, reviews of TFDS's imdb_reviews replace the test file: two classes
as in mr. For each draw, the line of `mha predict` sees 1,000 texts drawn with replacement, once as they come and once with other shares
of the classes, which are no change of the texts.
"""

import argparse
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import harness
import numpy as np
from file_peers import read_csv

import mha_cli as mha
from mha_cli.analysis.change import find_change
from mha_cli.checkpoint.file import Checkpoint, read_checkpoint
from mha_cli.config.settings import TfdsData
from mha_cli.runtime.classifier import Prediction
from mha_cli.runtime.sureness import LEAST_TEXTS, Sureness
from mha_cli.sources.opening import open_source

Labelled = list[tuple[str, str]]  # texts and their labels
IMDB_CLASSES = {"negative": "neg", "positive": "pos"}
QUESTIONS = {
    r"^what (is|are|was|were)\b": "please tell me",
    r"^who\b": "name the person who",
    r"^(how many|how much)\b": "give the number of",
}
TRIES = 3


def checkpoint_of(runs: Path, folder: Path, name: str) -> Checkpoint:
    """The model of a training file, trained if need be."""
    run = runs / f"{name}-0"
    if not (run / "checkpoint.keras").exists():
        harness.train("text", run, [f"data.train={folder / name}_train.csv"])
    return read_checkpoint(run / "checkpoint.keras")


def misspelt(text: str, rng: np.random.Generator) -> str:
    """The text with two letters swapped in every fifth word."""

    def swapped(word: str) -> str:
        at = int(rng.integers(max(1, len(word) - 1)))
        return word[:at] + word[at : at + 2][::-1] + word[at + 2 :] if rng.random() < 0.2 else word

    return " ".join(map(swapped, text.split()))


def rewritten(text: str) -> str:
    """A question in other words."""
    for pattern, words in QUESTIONS.items():
        text = re.sub(pattern, words, text, flags=re.IGNORECASE)
    return text


def on_one_topic(texts: Labelled, learnt: list[str]) -> Labelled:
    """Of each class, the texts of one of two topics: the sign of the first direction of their words' TF-IDF about its mean."""
    from sklearn.cluster import KMeans
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.pipeline import make_pipeline

    space = make_pipeline(TfidfVectorizer(min_df=2, sublinear_tf=True, stop_words="english"), TruncatedSVD(20, random_state=0)).fit(learnt)
    chosen = Labelled()
    for label in sorted({label for _, label in texts}):
        of_class = [one for one in texts if one[1] == label]
        topics = KMeans(2, n_init=10, random_state=0).fit_predict(space.transform([text for text, _ in of_class]))
        largest = np.bincount(topics).argmax()
        chosen += [one for one, topic in zip(of_class, topics, strict=True) if topic == largest]
    return chosen


def changes(folder: Path, name: str, texts: Labelled) -> dict[str, Callable[[Labelled, np.random.Generator], Labelled]]:
    """Changes of a set's test texts by their names: functions from drawn texts to changed ones."""
    learnt, _ = read_csv(folder / f"{name}_train.csv")
    others = {"mr": "ag", "ag": "mr", "trec6": "banking77"}
    other = list(zip(*read_csv(folder / f"{others.get(name, 'mr')}_test.csv"), strict=True))
    topic = {*on_one_topic(texts, learnt)}
    long = np.median([len(text.split()) for text, _ in texts])
    made: dict[str, Callable[[Labelled, np.random.Generator], Labelled]] = {
        "one topic of two in each class": lambda drawn, _: [one for one in drawn if one in topic],
        "the longer half": lambda drawn, _: [one for one in drawn if len(one[0].split()) > long],
        "the first eight words": lambda drawn, _: [(" ".join(text.split()[:8]), label) for text, label in drawn],
        "two texts of a class in one": lambda drawn, rng: [
            (f"{text} {rng.choice([other for other, of in drawn if of == label])}", label) for text, label in drawn
        ],
        "letters swapped in a fifth of the words": lambda drawn, rng: [(misspelt(text, rng), label) for text, label in drawn],
        f"a fifth of {others.get(name, 'mr')}": lambda drawn, rng: [
            other[rng.integers(len(other))] if rng.random() < 0.2 else one for one in drawn
        ],
        "without one class": lambda drawn, _: [one for one in drawn if one[1] != texts[0][1]],
    }
    if name.startswith("trec"):
        made["questions rewritten"] = lambda drawn, _: [(rewritten(text), label) for text, label in drawn]
    return made


def line_of(checkpoint: Checkpoint, answers: list[Prediction]) -> bool:
    """Whether `mha predict` warns after these answers."""
    assert checkpoint.held_out is not None
    sureness = Sureness(checkpoint.held_out, checkpoint.class_names)
    sureness.add(answers)
    return bool(sureness.warning)


def show(name: str, told: Counter[str], number: int, lines: dict[str, int]) -> None:
    """Print how often each test told, and how often `mha predict` warned."""
    tests = ", ".join(f"{test} {count}" for test, count in told.items() if test != "any")
    print(f"{name}: told {told['any']} of {number}{f' ({tests})' if tests else ''}", end="")
    print("".join(f"; {what} {count} of {number}" for what, count in lines.items()), flush=True)


def main() -> None:
    """Draw texts, change them, and count."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("names", nargs="+", metavar="NAME")
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="folder of the trained runs (runs)")
    parser.add_argument("--draws", type=int, default=20, help="draws of each set (20)")
    parser.add_argument("--size", type=int, default=500, help="texts of each draw for `mha data` (500)")
    parser.add_argument("--changed", action="store_true", help=f"change the texts; {TRIES} draws of each change")
    parser.add_argument("--imdb", action="store_true", help="draw from IMDB's test split in TFDS")
    arguments = parser.parse_args()
    for name in arguments.names:
        checkpoint = checkpoint_of(arguments.runs, arguments.folder, name)
        model = mha.load(arguments.runs / f"{name}-0")
        texts: Labelled = list(zip(*read_csv(arguments.folder / f"{name}_test.csv"), strict=True))
        made = changes(arguments.folder, name, texts) if arguments.changed else {"fresh": lambda drawn, _: drawn}
        if arguments.imdb:
            source = open_source(TfdsData(source="tfds"))
            texts = [(one.text, IMDB_CLASSES.get(str(one.label), str(one.label))) for one in source.read("test")][::10]
            made = {"reviews of IMDB": lambda drawn, _: drawn}
        answered = dict[str, Prediction]()
        for change, changed in made.items():
            told, lines, right, number = Counter[str](), {"predict": 0}, list[float](), TRIES if change != "fresh" else arguments.draws
            for draw in range(number):
                rng = np.random.default_rng(draw)
                drawn = changed([texts[row] for row in rng.permutation(len(texts))], rng)
                found = find_change(checkpoint, True, [text for text, _ in drawn[: arguments.size]])
                told.update([*found.different, *(["any"] if found.different else [])])
                answered |= {one.text: one for one in model.predict([text for text, _ in drawn if text not in answered])}
                answers = [answered[text] for text, _ in drawn]
                is_right = [answer.label == label for answer, (_, label) in zip(answers, drawn, strict=True)]
                right.append(float(np.mean(is_right)))
                lines["predict"] += line_of(checkpoint, [answers[row] for row in rng.integers(len(answers), size=LEAST_TEXTS)])
                if change == "fresh":
                    shares = rng.dirichlet(np.ones(len(checkpoint.class_names)))
                    of_class = Counter(label for _, label in drawn)
                    weights = np.array([shares[checkpoint.class_names.index(label)] / of_class[label] for _, label in drawn])
                    rows = rng.choice(len(drawn), LEAST_TEXTS, p=weights / weights.sum())
                    lines["predict, other shares"] = lines.get("predict, other shares", 0) + line_of(
                        checkpoint, [answers[row] for row in rows]
                    )
            show(f"{name}, {change}, accuracy {np.mean(right):.1%}", told, number, lines)


if __name__ == "__main__":
    main()
