import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from mha_cli.system.processor import bfloat16_features

SHOWN = "print(*(os.environ.get(name, '-') for name in THREAD_VARIABLES))"


def threads_after(code: str, **environment: str) -> list[str]:
    """What the thread variables are after some code, in a process that begins with these."""
    kept = {name: value for name, value in os.environ.items() if not name.endswith("_THREADS")}
    code = f"import os; from mha_cli.system.processor import THREAD_VARIABLES, prepare_to_compute; {code}; {SHOWN}"
    done = subprocess.run([sys.executable, "-c", code], env=kept | environment, capture_output=True, text=True, check=True)
    return done.stdout.split()


@pytest.mark.parametrize(
    ("code", "environment", "expected"),
    [
        ("prepare_to_compute()", {}, ["1"] * 4),  # so the module has not imported NumPy
        ("prepare_to_compute()", {"OPENBLAS_NUM_THREADS": "3"}, ["-", "3", "-", "-"]),
        ("import numpy; prepare_to_compute()", {}, ["-"] * 4),
    ],
    ids=["one thread", "the user's number", "too late"],
)
def test_one_thread_unless_it_is_decided_already(code: str, environment: dict[str, str], expected: list[str]) -> None:
    assert threads_after(code, **environment) == expected


@pytest.mark.parametrize(("flags", "found"), [("avx2 avx512_bf16", ("avx512_bf16",)), ("avx512 no_amx_bf16_here", ()), (None, ())])
def test_instructions_for_bfloat16(flags: str | None, found: tuple[str, ...], tmp_path: Path) -> None:
    if flags:  # else a system that does not tell
        (tmp_path / "cpuinfo").write_text(f"processor\t: 0\nflags\t\t: fpu {flags} sse2\nbugs\t\t: spectre_v1\n")
    assert bfloat16_features(tmp_path / "cpuinfo") == found


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another allocator")
def test_freed_memory_is_kept() -> None:
    code = """
import resource, sys
from mha_cli.system.processor import prepare_to_compute
if sys.argv[1:]:
    prepare_to_compute()
for _ in range(20):
    pieces = [bytearray(1 << 20) for _ in range(20)]
    pieces.clear()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)
"""
    returned, kept = (
        int(subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True).stdout)
        for arguments in ([], ["prepare"])
    )
    assert kept < returned / 2
