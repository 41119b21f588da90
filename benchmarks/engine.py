"""What OpenVINO gains over NumPy in `mha predict`, and what bfloat16 costs in accuracy, on IMDB's test split; prints only.

    TFDS_DATA_DIR=… python benchmarks/engine.py                                    # the model that comes with mha
    TFDS_DATA_DIR=… python benchmarks/engine.py runs/imdb-fast/checkpoint.keras    # another model

Seconds are those of the processor in one process, tokenizing left out.
"""

import argparse
import time
from pathlib import Path
from typing import Any

import harness  # first: it settles whose mha_cli is imported
import numpy as np
from threadpoolctl import threadpool_limits

from mha_cli.checkpoint.file import read_checkpoint
from mha_cli.config.settings import TfdsData
from mha_cli.preparation.scored_texts import labelled_texts
from mha_cli.runtime.engine import Engine
from mha_cli.runtime.probabilities import Scorer
from mha_cli.system.processor import bfloat16_features

ENGINES: list[Any] = [("numpy", "float32"), ("openvino", "float32"), *[("openvino", "bfloat16")] * bool(bfloat16_features())]


def main() -> None:
    """Print a line per engine."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", type=Path, nargs="?", default=harness.ROOT / "mha_cli" / "models" / "imdb.keras")
    checkpoint = read_checkpoint(parser.parse_args().checkpoint)
    threadpool_limits(1)
    reviews = labelled_texts(checkpoint, TfdsData(source="tfds")).texts
    expected, numpy_seconds = None, 0.0
    for engine, precision in ENGINES:
        own = Engine(checkpoint, engine, precision)
        own.encoder(np.array([1]))  # starts it
        score = Scorer(checkpoint, own, 1)
        score(reviews)
        started = time.process_time()
        probabilities = score(reviews)
        seconds = time.process_time() - started
        if expected is None:
            expected, numpy_seconds = probabilities, seconds
        changed = int((probabilities.argmax(axis=1) != expected.argmax(axis=1)).sum())
        speed = f"{len(reviews) / seconds:7,.0f} texts/s  × NumPy {numpy_seconds / seconds:.2f}"
        difference = f"largest difference {np.abs(probabilities - expected).max():.1e}  changed {changed}"
        accuracy = f"accuracy {(probabilities.argmax(axis=1) == reviews.labels).mean():.4%}"
        print(f"{engine + ' ' + precision:18} {speed}  {difference}  {accuracy}", flush=True)


if __name__ == "__main__":
    main()
