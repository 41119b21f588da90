"""Texts per second of a core, in the programs of docs/engines.md (Ray Data, Dask, Spark) beside `mha batch`; prints only.

    python benchmarks/engines.py         # all engines
    python benchmarks/engines.py ray     # this one

IMDB's 50,000 labelled reviews in 20 Parquet files, two workers, Parquet out, the model that comes with mha. Each program is a new process;
its time with one review in each of two files is the start-up. The seconds are those of the processor, of all processes together, so that
other programs disturb less; Linux only. Every engine must write each review once, with the label of `mha batch`.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from statistics import median

import harness
import pyarrow as pa
from pyarrow import parquet

from mha_cli.runs import PACKAGED

ENGINES = {"ray": "Ray Data", "dask": "Dask", "spark": "Spark"}  # sections of the page
FILES, WORKERS, EVERY_SECONDS = 20, 2, 0.1


def program(engine: str) -> str:
    """The Python blocks of an engine in docs/engines.md, after the function that all have."""
    page = (harness.ROOT / "docs" / "engines.md").read_text("utf-8")
    first, *sections = page.split("\n## ")
    (section,) = (each for each in sections if each.startswith(f"{ENGINES[engine]}\n"))
    return "\n\n".join(re.findall(r"^```python\n(.*?)^```$", first + section, re.MULTILINE | re.DOTALL))


def write_reviews(folder: Path) -> None:
    """All reviews in ``all/reviews`` and two in ``few/reviews``."""
    from mha_cli.config.settings import TfdsData
    from mha_cli.sources.tfds import TfdsTexts

    source = TfdsTexts(TfdsData(source="tfds"))
    texts = [each.text for split in ("train", "test") for each in source.read(split)]
    for name, count, files in (("all", len(texts), FILES), ("few", 2, 2)):
        (folder / name / "reviews").mkdir(parents=True)
        for number in range(files):
            rows = texts[number * count // files : (number + 1) * count // files]
            parquet.write_table(pa.table({"text": rows}), folder / name / "reviews" / f"{number:02}.parquet")


def command(engine: str, folder: Path) -> list[str]:
    """The command that labels the reviews of a folder."""
    if engine == "batch":
        options = ("-c", str(PACKAGED), "--workers", str(WORKERS), "--output-format", "parquet", "-o", str(folder / "labels-batch"))
        return harness.mha_command("batch", str(folder / "reviews"), *options)
    path = folder / f"with_{engine}.py"  # not the name of a library
    path.write_text(program(engine))
    return ["env", "-C", str(folder), f"PYSPARK_PYTHON={sys.executable}", "RAY_USAGE_STATS_ENABLED=0", *harness.script_command(path)]


def seconds_of(command: list[str]) -> tuple[float, float]:
    """Seconds of a command, by the clock and of the processor; the latter up to its last ``EVERY_SECONDS``."""
    begun, ticks = time.perf_counter(), dict[int, int]()
    with subprocess.Popen(
        command, cwd=harness.ROOT, env=harness.environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        while process.poll() is None:
            count_ticks(process.pid, ticks)
            time.sleep(EVERY_SECONDS)
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with code {process.returncode}")
    return time.perf_counter() - begun, sum(ticks.values()) / os.sysconf("SC_CLK_TCK")


def count_ticks(pid: int, ticks: dict[int, int]) -> None:
    """Note the ticks of the processor that a process and all that descend from it have had."""
    with suppress(FileNotFoundError, ProcessLookupError):
        ticks[pid] = sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]))
        for children in Path(f"/proc/{pid}/task").glob("*/children"):
            for child in children.read_text().split():
                count_ticks(int(child), ticks)


def rows_in(folder: Path) -> list[dict[str, object]]:
    """The rows of all files, in the order of their names."""
    return [row for path in sorted(folder.glob("*.parquet")) for row in parquet.read_table(path).to_pylist()]


def answers_of(engine: str, folder: Path) -> list[tuple[str, str]]:
    """Every text with its label, sorted; a part of `mha batch` has the label alone."""
    rows = rows_in(folder / f"labels-{engine}")
    if engine == "batch":
        rows = [{**text, **row} for text, row in zip(rows_in(folder / "reviews"), rows, strict=True)]
    return sorted((str(row["text"]), str(row["label"])) for row in rows)


def main() -> None:
    """Measure the engines that the arguments name."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", default=[*ENGINES], help=f"{', '.join(ENGINES)}; all by default")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    rates, expected = {engine: list[float]() for engine in ("batch", *arguments.names)}, []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_reviews(folder)
        for engine in [*rates] * arguments.rounds:
            (start_up, few), (wall, every) = (seconds_of(command(engine, folder / size)) for size in ("few", "all"))
            answers = answers_of(engine, folder / "all")
            assert answers == (expected := expected or answers), f"{engine} answers otherwise"
            for path in folder.glob(f"*/labels-{engine}"):
                shutil.rmtree(path)
            rates[engine].append(len(answers) / (every - few))
            print(f"{engine}: {wall:.1f} s, {every:.1f} of the processor; start-up {start_up:.1f} s, {few:.1f}", flush=True)
    for engine, found in rates.items():
        print(f"{engine}: {median(found):,.0f} texts/s per core, {median(found) / median(rates['batch']):.2f} × mha batch")


if __name__ == "__main__":
    main()
