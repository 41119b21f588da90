"""A limit on addresses (`ulimit -v`): too small a one is refused in one line, before a library ends the process in its own words."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager

from mha_cli.errors import EXIT_FAILURE, MhaError
from mha_cli.system.processor import available_cores

LEAST_BYTES = 250_000_000
"""Addresses that a prediction takes with the linear algebra on one core."""

ENOUGH_BYTES = 4_000_000_000
"""Addresses for linear algebra on every core; with fewer it runs on one, since every other core would take some for itself."""

TENSORFLOW_BYTES, TENSORFLOW_BYTES_A_CORE = 2_200_000_000, 60_000_000
"""Addresses without which TensorFlow, its threads and a small model end the process in words of their own, or in none."""

NO_ROOM = ("failed to map segment", "cannot allocate memory", "Cannot allocate memory")
"""Words of the loader of shared libraries where addresses run out."""


def heed_address_limit() -> None:
    """Get along with few addresses, with linear algebra on one core; to be called before NumPy is imported."""
    limit = _limit()
    if limit is not None and limit < LEAST_BYTES:
        raise _too_few(limit)
    if few_addresses():
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def few_addresses() -> bool:
    """Whether there are fewer addresses than what is fast takes for itself."""
    limit = _limit()
    return limit is not None and limit < ENOUGH_BYTES


def need_tensorflow_addresses() -> None:
    """Refuse to go on where TensorFlow, which is to be imported next, has too few addresses."""
    limit = _limit()
    if limit is not None and limit < TENSORFLOW_BYTES + TENSORFLOW_BYTES_A_CORE * available_cores():
        raise _too_few(limit)


def out_of_memory(error: Exception) -> bool:
    """Whether an error says that Python, or TensorFlow with an error of its own, has found no memory."""
    return isinstance(error, MemoryError) or type(error).__name__ == "ResourceExhaustedError"


@contextmanager
def settings_for_less_memory() -> Iterator[None]:
    """Name the settings that a training takes its memory by, where it has found none."""
    try:
        yield
    except Exception as error:
        if not out_of_memory(error):
            raise
        hint = "lower training.batch_size, text.sequence_length or model.embed_dim"
        raise MhaError("out of memory", hint, EXIT_FAILURE) from None


def out_of_addresses(error: ImportError) -> MhaError | None:
    """The error to raise for a library that cannot be loaded for want of addresses; None where something else is wrong."""
    limit = _limit()
    return _too_few(limit) if limit is not None and any(reason in str(error) for reason in NO_ROOM) else None


def _too_few(limit: int) -> MhaError:
    return MhaError(f"out of memory: {limit // 1024:,} KiB of addresses are allowed", "raise the limit with ulimit -v", EXIT_FAILURE)


def _limit() -> int | None:
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if soft == resource.RLIM_INFINITY else soft
