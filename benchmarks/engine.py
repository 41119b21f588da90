"""What OpenVINO gains over NumPy in `mha predict`, by the shape of the model, and what bfloat16 costs in accuracy; prints only.

    python benchmarks/engine.py                                      # the recipes' encoders and narrower ones, random weights
    python benchmarks/engine.py --accuracy mha_cli/models/imdb.keras # that checkpoint on IMDB's test split, with each engine

Seconds are those of the processor in one process, tokenizing left out. Lengths of the made-up texts are about those of IMDB's reviews.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import harness  # first: it settles whose mha_cli is imported
import numpy as np
from threadpoolctl import threadpool_limits

from mha_cli.checkpoint.file import Checkpoint, read_checkpoint
from mha_cli.config.loading import config_from_dict, load_config
from mha_cli.config.settings import Config, TfdsData
from mha_cli.data.preparation import labelled_reviews
from mha_cli.runtime.engine import Engine
from mha_cli.runtime.probabilities import probabilities_of
from mha_cli.system.processor import bfloat16_features
from mha_cli.text.vocabulary import Vocabulary

ENGINES: list[Any] = [("numpy", "float32"), ("openvino", "float32"), *[("openvino", "bfloat16")] * bool(bfloat16_features())]
NARROW = {"embed 8, 1 head": (8, 1), "embed 16, 2 heads": (16, 2)}
VOCABULARY = Vocabulary(f"w{number}" for number in range(9_998))


def configs() -> dict[str, Config]:
    """Narrow encoders, and those of the recipes; small tables, since looking up is no part of the question."""
    texts = {"sequence_length": 800}
    found = {
        name: config_from_dict({"text": texts, "model": {"embed_dim": width, "num_heads": heads, "feed_forward_dim": 2 * width}}, name)
        for name, (width, heads) in NARROW.items()
    }
    small = {"ngram_buckets": 1 << 12, "score_ngrams": 0, "score_buckets": 0, "score_windows": []}
    for name in ("imdb-fast", "imdb", "book"):
        config = load_config(harness.ROOT / "configs" / f"{name}.yaml")
        found[name] = config.model_copy(update={"model": config.model.model_copy(update=small)})
    return found


def made_up(config: Config, num_texts: int) -> tuple[Checkpoint, list[Any]]:
    """A checkpoint with random weights, and texts of random words."""
    rng = np.random.default_rng(0)
    checkpoint = harness.random_checkpoint(config, VOCABULARY, rng, 0.1)
    lengths = np.clip(rng.lognormal(5.2, 0.65, num_texts), 10, config.text.sequence_length).astype(int)
    texts = [rng.integers(1, len(VOCABULARY), length).astype(np.int32) for length in lengths]
    return checkpoint, texts


def on_imdb(path: Path) -> tuple[Checkpoint, list[Any], Any]:
    """A checkpoint, IMDB's test reviews as it reads them, and their labels."""
    checkpoint = read_checkpoint(path)
    reviews = labelled_reviews(checkpoint, TfdsData(source="tfds")).reviews
    return checkpoint, [reviews.padded(np.array([row]))[0] for row in range(len(reviews))], reviews.labels


def main() -> None:
    """Print a line for every model and engine."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=2_000, help="made-up texts (2,000)")
    parser.add_argument("--rounds", type=int, default=3, help="of which the best counts, after one that does not (3)")
    parser.add_argument("--accuracy", type=Path, metavar="CHECKPOINT", help="score this one on IMDB's test split instead")
    arguments = parser.parse_args()
    threadpool_limits(1)
    if arguments.accuracy:
        checkpoint, texts, labels = on_imdb(arguments.accuracy)
        compare(arguments.accuracy.stem, checkpoint, texts, 1, labels)
    for name, config in {} if arguments.accuracy else configs().items():
        compare(name, *made_up(config, arguments.texts), arguments.rounds)


def compare(name: str, checkpoint: Checkpoint, texts: list[Any], rounds: int, labels: Any = None) -> None:
    """Print what each engine takes for the texts, and how far its answers are from NumPy's."""
    expected, numpy_seconds = None, 0.0
    for engine, precision in ENGINES:
        own = Engine(checkpoint, engine, precision)
        started = time.process_time()
        own.encoder(np.array([1]))
        start = time.process_time() - started
        taken = []
        for _ in range(1 + rounds):
            started = time.process_time()
            probabilities = probabilities_of(texts, checkpoint, own)
            taken.append(time.process_time() - started)
        best = min(taken[1:])
        if expected is None:
            expected, numpy_seconds = probabilities, best
        changed = int((probabilities.argmax(axis=1) != expected.argmax(axis=1)).sum())
        said = f"{name:18} {engine + ' ' + precision:18} {len(texts) / best:7,.0f} texts/s  × NumPy {numpy_seconds / best:.2f}  "
        said += f"start {start:.2f} s  largest difference {np.abs(probabilities - expected).max():.1e}  changed {changed}"
        print(said + ("" if labels is None else f"  accuracy {(probabilities.argmax(axis=1) == labels).mean():.4%}"), flush=True)


if __name__ == "__main__":
    main()
