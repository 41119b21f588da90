"""Time and peak memory of `mha train` on a CSV file, and the same with ten times as many reviews.

    python benchmarks/memory.py                                          # 25,000 and 250,000 reviews: table and memory.json
    python benchmarks/memory.py --reviews 500 5000 --results /tmp/try    # a try-out

The reviews are made up: real lengths, words drawn by Zipf's law, so that as in real text new words keep coming. The model is tiny and is
trained for one epoch: what grows is what the data takes. The time is that of the whole command, starting included.
"""

from __future__ import annotations

import csv
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import harness
import numpy as np
import tables

SETTINGS = (
    "data.source=files",
    "text.vocabulary_size=20000",
    "text.sequence_length=600",
    "model.embed_dim=4",
    "model.num_heads=1",
    "model.feed_forward_dim=4",
    "training.epochs=1",
    "training.batch_size=32",
)
MEDIAN_WORDS, SPREAD = 175, 0.7
"""Length of the IMDB reviews: its median, and the standard deviation of its logarithm, which makes a mean of about 225."""

ZIPF_EXPONENT = 1.4
CHUNK = 1000
"""Reviews made at once."""


def write_reviews(path: Path, num_reviews: int) -> None:
    """A CSV file of made-up reviews in two classes that differ in one word."""
    rng = np.random.default_rng(0)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "label"])
        for start in range(0, num_reviews, CHUNK):
            lengths = np.maximum(1, rng.lognormal(np.log(MEDIAN_WORDS), SPREAD, min(CHUNK, num_reviews - start)).astype(int))
            words = iter(rng.zipf(ZIPF_EXPONENT, int(lengths.sum())).tolist())
            for number, length in enumerate(lengths.tolist()):
                label = number % 2
                writer.writerow([" ".join(["good" if label else "bad", *(f"word{next(words)}" for _ in range(length))]), label])


def train(num_reviews: int) -> harness.Finished:
    """`mha train` on so many made-up reviews."""
    with tempfile.TemporaryDirectory() as folder:
        reviews, recipe = Path(folder) / "reviews.csv", harness.ROOT / "configs" / "sample.yaml"
        write_reviews(reviews, num_reviews)
        return harness.train(recipe, Path(folder) / "run", [*SETTINGS, f"data.train={reviews}"])


def measure(sizes: Sequence[int]) -> dict[str, dict[str, float]]:
    """Peak memory and time for every number of reviews."""
    figures: dict[str, dict[str, float]] = {"megabytes": {}, "seconds": {}}
    for num_reviews in sizes:
        done = train(num_reviews)
        figures["megabytes"][str(num_reviews)], figures["seconds"][str(num_reviews)] = done.peak_megabytes, done.seconds
        print(f"{num_reviews:,} reviews: {done.peak_megabytes:,.0f} MB, {done.seconds:,.0f} s", file=sys.stderr)
    return figures


def main() -> None:
    """Measure the sizes that the arguments ask for."""
    parser = harness.parser(__doc__)
    parser.add_argument("--reviews", type=int, nargs="+", default=[25_000, 250_000])
    arguments = parser.parse_args()
    busy = harness.busy_share()
    record = harness.record({"settings": list(SETTINGS)}, measure(arguments.reviews), busy)
    harness.write_record(arguments.results / "memory.json", record)
    tables.show(tables.growth(record))


if __name__ == "__main__":
    main()
