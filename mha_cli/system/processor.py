"""The cores of the processor, GPUs, and settings for a process that computes; this module does not import NumPy."""

import gc
import os
import sys
from pathlib import Path

BFLOAT16_FEATURES = ("amx_bf16", "avx512_bf16")  # Linux's names for the instructions of a processor that computes in bfloat16
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
MOST_KEPT_BYTES = (1 << 25) - (1 << 16)  # a little less than the largest piece, 32 MiB, from which glibc learns


def available_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def bfloat16_features(cpu_info: Path = Path("/proc/cpuinfo")) -> tuple[str, ...]:
    """The processor's instructions for bfloat16, by their names in Linux's description of it; empty where it is unknown."""
    try:
        features = set(cpu_info.read_text(encoding="utf-8", errors="replace").split())
    except OSError:
        return ()
    return tuple(feature for feature in BFLOAT16_FEATURES if feature in features)


def nvidia_gpus(root: Path = Path("/")) -> list[str]:
    """The names of NVIDIA's GPUs as its driver tells Linux; ``root`` is the folder of ``proc``."""
    texts = [path.read_text(encoding="utf-8", errors="replace") for path in sorted(root.glob("proc/driver/nvidia/gpus/*/information"))]
    return [line.partition(":")[2].strip() for text in texts for line in text.splitlines() if line.startswith("Model:")]


def prepare_to_compute() -> None:
    """One thread for matrix products, and memory that is kept for the next batch.

    The matrices of a batch are small, so processes make it faster and threads do not. A number of threads that is set already stays.

    glibc returns freed memory at the top of its heap to the system, and the next batch must ask for it again, for a fifth of the time.
    Once a large piece has been freed, it keeps twice as much (``M_MMAP_THRESHOLD`` in mallopt(3)). Elsewhere this does nothing.
    """
    if "numpy" not in sys.modules and not any(os.environ.get(name) for name in THREAD_VARIABLES):
        os.environ.update(dict.fromkeys(THREAD_VARIABLES, "1"))
    bytes(MOST_KEPT_BYTES)
    gc.set_threshold(100_000)  # new objects from which Python looks for cycles: an answer has none
