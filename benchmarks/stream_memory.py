"""Memory of `mha predict` while a long stream runs through it.

    python benchmarks/stream_memory.py                                    # 1,000,000 lines, the model that comes with mha
    python benchmarks/stream_memory.py runs/imdb-fast/checkpoint.keras    # another model

The lines are short, made of the built-in sample's words: how long a line may be decides how much a batch takes, not whether memory grows.
All processes of the command are counted together, each page that they share once (PSS); so it runs on Linux only.
"""

import os
import random
import subprocess
import tempfile
import time
from contextlib import suppress
from itertools import islice
from pathlib import Path

import harness
import tables

MARKS = (10_000, 100_000, 1_000_000)
"""Numbers of answers up to which the most memory is noted."""
EVERY_SECONDS = 0.05
WORDS_A_LINE = 12
DIFFERENT_LINES = 10_000


def write_lines(path: Path, number: int) -> float:
    """Write that many lines; return the mean number of bytes in one."""
    from mha_cli.config.settings import SampleData
    from mha_cli.sources.sample import SampleTexts

    words = sorted({word for review in islice(SampleTexts(SampleData()).read("train"), 500) for word in review.text.split()})
    rng = random.Random(0)
    lines = [" ".join(rng.choices(words, k=WORDS_A_LINE)) + "\n" for _ in range(DIFFERENT_LINES)]
    with path.open("w", encoding="utf-8") as file:
        for start in range(0, number, DIFFERENT_LINES):
            file.writelines(lines[: number - start])
    return path.stat().st_size / number


def measure(command: list[str], number: int) -> dict[int, float]:
    """Run a command that answers every line with a line.

    Args:
        command: command to run.
        number: lines that it has to answer.

    Returns:
        The most megabytes that its processes held together, from the start until each number of answers.

    Raises:
        RuntimeError: it failed, or gave another number of answers.
    """
    peaks: dict[int, float] = {}
    answered, peak, last = 0, 0.0, 0.0
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=harness.ROOT, env=harness.environment()) as process:
        assert process.stdout
        while chunk := os.read(process.stdout.fileno(), 1 << 16):
            answered += chunk.count(b"\n")
            if time.monotonic() - last > EVERY_SECONDS:
                peak, last = max(peak, megabytes(process.pid)), time.monotonic()
            for mark in MARKS:
                if answered >= mark:
                    peaks.setdefault(mark, peak)
    peaks.setdefault(number, peak)
    if process.returncode or answered != number:
        raise RuntimeError(f"{' '.join(command)} ended with code {process.returncode} after {answered:,} of {number:,} answers")
    return peaks


def megabytes(pid: int) -> float:
    """Megabytes that a process and all that descend from it hold now; 0 for one that has ended."""
    total = 0.0
    with suppress(FileNotFoundError, ProcessLookupError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                total += int(line.split()[1]) * 1024 / 1e6
        for children in Path(f"/proc/{pid}/task").glob("*/children"):
            total += sum(megabytes(int(child)) for child in children.read_text().split())
    return total


def main() -> None:
    """Measure the model that the arguments name."""
    parser = harness.parser(__doc__, of_a_model=True)
    parser.add_argument("--lines", type=int, default=1_000_000)
    arguments = parser.parse_args()
    busy = harness.busy_share()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "lines.txt"
        line_bytes = write_lines(path, arguments.lines)
        started = time.perf_counter()
        command = harness.mha_command("predict", "-c", str(arguments.checkpoint.resolve()), "-i", str(path))
        peaks = measure(command, arguments.lines)
        seconds = time.perf_counter() - started
    settings = {"lines": arguments.lines, "line_bytes": line_bytes}
    record = harness.record(settings, {"megabytes": {str(mark): peak for mark, peak in peaks.items()}, "seconds": seconds}, busy)
    harness.write_record(arguments.results / "stream-memory.json", record)
    tables.show(tables.stream_memory(record))


if __name__ == "__main__":
    main()
