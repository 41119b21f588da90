"""How many cores of the processor a program may use, and what they compute in."""

from __future__ import annotations

import os
from pathlib import Path

CPU_INFO = Path("/proc/cpuinfo")
BFLOAT16_FEATURES = ("amx_bf16", "avx512_bf16")
"""Linux's names for the instructions of a processor that computes in bfloat16."""


def available_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def bfloat16_features(cpu_info: Path | None = None) -> tuple[str, ...]:
    """The processor's instructions for bfloat16, by the names in Linux's description of it; none where it has none or nothing says it."""
    try:
        found = set((cpu_info or CPU_INFO).read_text(encoding="utf-8", errors="replace").split())
    except OSError:
        return ()
    return tuple(feature for feature in BFLOAT16_FEATURES if feature in found)
