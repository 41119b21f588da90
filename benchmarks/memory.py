"""Time and peak memory of `mha train` on a CSV file of reviews, and the same with ten and a hundred times as many.

    TFDS_DATA_DIR=… python benchmarks/memory.py                          # 25,000, 250,000 and 2,500,000 reviews: table and memory.json
    python benchmarks/memory.py --reviews 500 5000 --results /tmp/try    # a try-out
    python benchmarks/memory.py --files FILE…                            # recipe text on these training files: memory-text.json, a plot

The reviews are made of IMDB's: each has as many sentences as one of them, drawn from those of its class. The model is tiny, has scores of
1- to 3-grams and is trained for one epoch: what grows is what the data takes. The time is that of the whole command, starting included.
"""

import csv
import json
import re
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

import harness
import numpy as np
import plots
import tables

SETTINGS = (
    "data.source=files",
    "text.vocabulary_size=20000",
    "text.sequence_length=600",
    "model.embed_dim=4",
    "model.num_heads=1",
    "model.feed_forward_dim=4",
    "linear.max_ngram=3",
    "linear.buckets=1048576",
    "training.epochs=1",
    "training.batch_size=32",
)
END_OF_SENTENCE = re.compile(r"(?<=[.!?])\s+")


def write_reviews(path: Path, reviews: Iterable[tuple[str, str]], num_texts: int) -> None:
    """A CSV file of reviews of two classes in turn, made of the sentences of those given as pairs of text and label."""
    rng, sentences, lengths = np.random.default_rng(0), dict[str, list[str]](), dict[str, list[int]]()
    for text, label in reviews:
        own = END_OF_SENTENCE.split(text)
        sentences.setdefault(label, []).extend(own)
        lengths.setdefault(label, []).append(len(own))
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "label"])
        for number in range(num_texts):
            label = sorted(sentences)[number % len(sentences)]
            drawn = rng.integers(len(sentences[label]), size=lengths[label][rng.integers(len(lengths[label]))])
            writer.writerow([" ".join(sentences[label][one] for one in drawn.tolist()), label])


def imdb_reviews() -> Iterable[tuple[str, str]]:
    """The reviews of IMDB's training split."""
    from mha_cli.config.settings import TfdsData
    from mha_cli.sources.tfds import TfdsTexts

    return ((review.text, review.label) for review in TfdsTexts(TfdsData(source="tfds")).read("train"))


def measure(sizes: Sequence[int]) -> dict[str, dict[str, float]]:
    """Peak memory and time of `mha train` on every number of reviews."""
    figures: dict[str, dict[str, float]] = {"megabytes": {}, "seconds": {}}
    for num_texts in sizes:
        with tempfile.TemporaryDirectory() as folder:
            reviews, recipe = Path(folder) / "reviews.csv", harness.ROOT / "configs" / "sample.yaml"
            # In a process of its own: what reads TFDS stays large.
            harness.run_command([sys.executable, __file__, "--reviews", str(num_texts), "--write", str(reviews)])
            done = harness.train(recipe, Path(folder) / "run", [*SETTINGS, f"data.train={reviews}"])
        figures["megabytes"][str(num_texts)], figures["seconds"][str(num_texts)] = done.peak_megabytes, done.seconds
        print(f"{num_texts:,} reviews: {done.peak_megabytes:,.0f} MB, {done.seconds:,.0f} s", file=sys.stderr)
    return figures


def measure_files(paths: Sequence[Path]) -> dict[str, dict[str, float]]:
    """Peak memory and time of the recipe `text` on every file."""
    figures: dict[str, dict[str, float]] = {"megabytes": {}, "seconds": {}}
    for path in paths:
        with tempfile.TemporaryDirectory() as folder:
            done = harness.train("text", Path(folder) / "run", ["data.source=files", f"data.train={path}"])
            num_texts = str(json.loads((Path(folder) / "run" / "metrics.json").read_text())["metrics"]["labelled_texts"])
        figures["megabytes"][num_texts], figures["seconds"][num_texts] = done.peak_megabytes, done.seconds
        print(f"{path.name}: {done.peak_megabytes:,.0f} MB, {done.seconds:,.0f} s", file=sys.stderr)
    return figures


def main() -> None:
    """Measure the sizes or files that the arguments ask for."""
    parser = harness.parser(__doc__)
    parser.add_argument("--reviews", type=int, nargs="+", default=[25_000, 250_000, 2_500_000])
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the reviews there, and measure nothing")
    parser.add_argument("--files", type=Path, nargs="+", metavar="FILE", help="measure the recipe text on these training files instead")
    arguments = parser.parse_args()
    if arguments.write:
        write_reviews(arguments.write, imdb_reviews(), arguments.reviews[0])
        return
    busy, path = harness.busy_share(), arguments.results / "memory.json"
    if arguments.files:
        path = path.with_name("memory-text.json")
        record = harness.record({"model": "recipe text"}, measure_files(arguments.files), busy)
        plots.draw_growth(record, path.with_suffix(".png"))
    else:
        record = harness.record({"model": "a tiny model", "settings": list(SETTINGS)}, measure(arguments.reviews), busy)
    harness.write_record(path, record)
    tables.show(tables.growth(record))


if __name__ == "__main__":
    main()
