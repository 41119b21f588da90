"""Run the benchmarks and write their tables into docs/benchmarks.md and the README.

python benchmarks/run.py                  # all of them
python benchmarks/run.py book attention   # these only
python benchmarks/run.py --try-out        # all of them in sizes that mean nothing, to see that they run
"""

import argparse
import subprocess
import tempfile
from pathlib import Path

import harness

SCRIPTS = {
    "attention": ("attention.py", "--longest 64 --repetitions 1"),
    "attention-memory": ("attention.py --memory 8192", "--memory 256"),
    "book": ("book.py", "--reviews 32 --rounds 1"),
    "accuracy": ("accuracy.py", "--reviews 200 --seeds 0"),
    "predict": ("predict.py", "--reviews 200 --rounds 1"),
    "predict-book": ("predict.py --book --reviews 4000", "--reviews 32 --rounds 1"),
    "batch": ("batch.py", "--reviews 200 --rounds 1"),
    "serve": ("serve.py", "--reviews 100 --rounds 1"),
    "stream-memory": ("stream_memory.py", "--lines 2000"),
    "memory": ("memory.py", "--reviews 200 400"),
}
"""The script of each benchmark with its arguments, and further ones that make it a try-out."""


def run(name: str, line: str) -> None:
    """Run one benchmark; it prints its own table."""
    print(f"== {name}: python benchmarks/{line}", flush=True)
    script, *rest = line.split()
    subprocess.run(harness.script_command(Path(__file__).with_name(script), *rest), check=True, env=harness.environment())


def main() -> None:
    """Run what the arguments name."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(SCRIPTS)}; all by default")
    parser.add_argument("--try-out", action="store_true", help="tiny sizes, results thrown away")
    arguments = parser.parse_args()
    names = arguments.names or list(SCRIPTS)
    if unknown := [name for name in names if name not in SCRIPTS]:
        parser.error(f"no benchmark {unknown[0]}; choose from {', '.join(SCRIPTS)}")
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            line, less = SCRIPTS[name]
            run(name, f"{line} {less} --results {folder}" if arguments.try_out else line)
    if not arguments.try_out:
        run("README", "readme_table.py")


if __name__ == "__main__":
    main()
