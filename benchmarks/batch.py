"""`mha batch` beside `mha predict` on the same reviews, and its memory with ten times as many.

    python benchmarks/batch.py                                    # the model that comes with mha; table and batch.json
    python benchmarks/batch.py runs/imdb-fast/checkpoint.keras    # another model

The reviews are those of IMDB's test split, in files of the same size; ten times as many are the same ones in ten times as many files. All
commands run in turn, each time from a new process. The time for a file of one review is the start-up. Memory is that of all processes of a
command, each page that they share once (PSS); so Linux only.
"""

import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import harness
import predict
import stream_memory
import tables

TIMES = 10
EVERY_SECONDS = 0.2


def write_files(folder: Path, reviews: list[str], number: int, times: int = 1) -> None:
    """The reviews in files of so many lines, and all of them again under further names."""
    folder.mkdir()
    for again in range(times):
        for start in range(0, len(reviews), number):
            (folder / f"{again}-{start:06}.txt").write_text("".join(reviews[start : start + number]))


def peak_megabytes(command: list[str]) -> float:
    """The most memory that the processes of a command hold together."""
    peak = 0.0
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, cwd=harness.ROOT, env=harness.environment()) as process:
        while process.poll() is None:
            peak = max(peak, stream_memory.megabytes(process.pid))
            time.sleep(EVERY_SECONDS)
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with code {process.returncode}")
    return peak


def main() -> None:
    """Measure the model that the arguments name."""
    parser = harness.parser(__doc__, of_a_model=True)
    parser.add_argument("--reviews", type=int, default=10_000, help="in all files together (10,000)")
    parser.add_argument("--files", type=int, default=20, help="to share among the workers (20)")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    checkpoint = str(arguments.checkpoint.resolve())
    busy = harness.busy_share()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        # In a process of its own: what reads TFDS stays large.
        every = folder / "every.txt"
        harness.run_command([sys.executable, predict.__file__, checkpoint, "--reviews", str(arguments.reviews), "--write", str(every)])
        reviews = every.read_text().splitlines(keepends=True)
        number = -(-len(reviews) // arguments.files)
        write_files(folder / "one", reviews[:1], 1)
        write_files(folder / "many", reviews, number)
        write_files(folder / "more", reviews, number, TIMES)

        def commands(files: str) -> dict[str, list[str]]:
            made = {}
            for workers in ("1", "2"):
                single = ("predict", "-c", checkpoint, "--json", "--workers", workers, "-i", str(folder / files / "*.txt"))
                archive = ("batch", str(folder / files), "--output", str(folder / "out"), "-c", checkpoint, "--workers", workers)
                made[f"mha predict --json --workers {workers}"] = harness.mha_command(*single)
                made[f"mha batch --workers {workers}"] = harness.mha_command(*archive)
            return made

        seconds: dict[str, dict[str, list[float]]] = {files: {name: [] for name in commands(files)} for files in ("many", "one")}
        for round_number in range(arguments.rounds + 1):
            for files, found in seconds.items():
                for name, command in commands(files).items():
                    shutil.rmtree(folder / "out", ignore_errors=True)
                    finished = harness.run_command(command)
                    if round_number:  # the first round fills the file cache
                        found[name].append(finished.seconds)
        megabytes: dict[str, list[float]] = {}
        for name in ("mha batch --workers 1", "mha batch --workers 2"):
            megabytes[name] = []
            for files in ("many", "more"):
                shutil.rmtree(folder / "out", ignore_errors=True)
                megabytes[name].append(peak_megabytes(commands(files)[name]))
    settings = {"reviews": arguments.reviews, "files": arguments.files, "rounds": arguments.rounds, "times": TIMES}
    record = harness.record(settings, {"seconds": seconds["many"], "start_up": seconds["one"], "megabytes": megabytes}, busy)
    harness.write_record(arguments.results / "batch.json", record)
    tables.show(tables.batch(record))


if __name__ == "__main__":
    main()
