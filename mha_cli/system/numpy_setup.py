"""What a process that computes much settles before NumPy is imported; so this module does not import it."""

from __future__ import annotations

import os
import sys

THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
MOST_KEPT_BYTES = (1 << 25) - (1 << 16)
"""A little less than the largest piece, 32 MiB, from which glibc learns."""


def prepare_to_compute() -> None:
    """One thread for matrix products, and memory that is kept for the next batch.

    The matrices of a batch are small: threads that wait for each other win nothing there, and processes do. Where the environment says
    how many threads, or NumPy is there already, that stays.

    glibc gives back to the system what is freed at the top of its heap, and the next batch has to ask for it again, page by page, for a
    fifth of the time. Once a large piece has been freed, it keeps twice as much (``M_MMAP_THRESHOLD`` in mallopt(3)). The piece itself
    is never touched, so it takes no memory. Elsewhere this does nothing.
    """
    if "numpy" not in sys.modules and not any(os.environ.get(name) for name in THREAD_VARIABLES):
        os.environ.update(dict.fromkeys(THREAD_VARIABLES, "1"))
    bytes(MOST_KEPT_BYTES)
