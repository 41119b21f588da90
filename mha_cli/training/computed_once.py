"""Numbers that take long to compute for every text; an interrupted run finds them in a file."""

from collections.abc import Callable
from pathlib import Path
from time import monotonic

import numpy as np

from mha_cli.arrays import Floats
from mha_cli.corpus.batches import Rows
from mha_cli.errors import plural
from mha_cli.system.callbacks import Callbacks

CHUNK = 512  # texts that are computed, and added to the file, at a time


def computed_once(compute: Callable[[Rows], Floats], shape: tuple[int, int], path: Path, what: str, callbacks: Callbacks) -> Floats:
    """The results of ``compute`` for all texts, (N, D), the ``shape``; it is not called for rows that the file ``path`` already has.

    ``what`` names the results in messages.
    """
    (num_texts, width), started = shape, monotonic()
    with path.open("ab") as file:
        num_before = file.tell() // (4 * width * CHUNK) * CHUNK
        file.truncate(4 * width * num_before)
        for first in range(num_before, num_texts, CHUNK):
            done = min(first + CHUNK, num_texts)
            file.write(compute(np.arange(first, done)).tobytes())
            file.flush()
            rate = (done - num_before) / (monotonic() - started)
            line = f"{what} of {done:,} of {plural(num_texts, 'text')}, {rate:,.0f} texts/s"
            if done < num_texts:
                callbacks.count(f"{line}, {(num_texts - done) / rate:,.0f} s left")
            else:
                callbacks.log(f"{line}, done")
            if callbacks.stop():
                raise KeyboardInterrupt
    return np.fromfile(path, np.float32).reshape(-1, width)
