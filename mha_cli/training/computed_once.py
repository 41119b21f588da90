"""Figures of texts that take long to compute: an interrupted run has them on disk."""

from collections.abc import Callable
from pathlib import Path
from time import monotonic

import numpy as np

from mha_cli.arrays import Floats
from mha_cli.corpus.batches import Rows
from mha_cli.errors import plural
from mha_cli.system.callbacks import Callbacks

CHUNK = 512  # texts whose figures are saved together


def computed_once(compute: Callable[[Rows], Floats], shape: tuple[int, int], path: Path, what: str, callbacks: Callbacks) -> Floats:
    """The figures of texts, (N, D), the ``shape``, computed a chunk at a time, each added to the file at once.

    What an interrupted run has left in the file is not computed again. ``what`` names the figures for progress.
    """
    (num_texts, width), started = shape, monotonic()
    with path.open("ab") as file:
        first = done = file.tell() // (4 * width * CHUNK) * CHUNK
        file.truncate(4 * width * done)
        while done < num_texts:
            rows = np.arange(done, min(done + CHUNK, num_texts))
            file.write(compute(rows).tobytes())
            file.flush()
            done += len(rows)
            rate = (done - first) / (monotonic() - started)
            line = f"{what} of {done:,} of {plural(num_texts, 'text')}, {rate:,.0f} texts/s"
            if done < num_texts:
                callbacks.count(f"{line}, {(num_texts - done) / rate:,.0f} s left")
            else:
                callbacks.log(f"{line}, done")
            if callbacks.stop():
                raise KeyboardInterrupt
    return np.fromfile(path, np.float32).reshape(-1, width)
