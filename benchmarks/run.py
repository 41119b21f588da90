"""Run the benchmarks and write their tables into docs/benchmarks.md and the README.

python benchmarks/run.py                  # all of them
python benchmarks/run.py book attention   # these only
python benchmarks/run.py --try-out        # all of them in sizes that mean nothing, to see that they run
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from pathlib import Path

import harness

SCRIPTS = {
    "attention": ("attention.py",),
    "attention-memory": ("attention.py", "--memory", "8192"),
    "book": ("book.py",),
    "accuracy": ("accuracy.py",),
    "predict": ("predict.py",),
    "predict-book": ("predict.py", "--book", "--reviews", "4000"),
    "batch": ("batch.py",),
    "serve": ("serve.py",),
    "stream-memory": ("stream_memory.py",),
    "memory": ("memory.py",),
}
TRY_OUTS = {
    "attention": ("attention.py", "--longest", "64", "--repetitions", "1"),
    "attention-memory": ("attention.py", "--memory", "256"),
    "book": ("book.py", "--reviews", "32", "--rounds", "1"),
    "accuracy": ("accuracy.py", "--reviews", "200", "--seeds", "0"),
    "predict": ("predict.py", "--reviews", "200", "--rounds", "1"),
    "predict-book": ("predict.py", "--book", "--reviews", "32", "--rounds", "1"),
    "memory": ("memory.py", "--reviews", "200", "400"),
    "serve": ("serve.py", "--reviews", "100", "--rounds", "1"),
    "batch": ("batch.py", "--reviews", "200", "--rounds", "1"),
    "stream-memory": ("stream_memory.py", "--lines", "2000"),
}


def run(name: str, arguments: tuple[str, ...]) -> None:
    """Run one benchmark; it prints its own table."""
    print(f"== {name}: python benchmarks/{' '.join(arguments)}", flush=True)
    script, *rest = arguments
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
    if arguments.try_out:
        with tempfile.TemporaryDirectory() as folder:
            for name in names:
                run(name, (*TRY_OUTS[name], "--results", folder))
        return
    for name in names:
        run(name, SCRIPTS[name])
    run("README", ("readme_table.py",))


if __name__ == "__main__":
    main()
