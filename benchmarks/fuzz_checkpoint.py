"""Tries to break the reader of checkpoints: thousands of damaged and hostile files, each read and used as `mha predict` would.

    python benchmarks/fuzz_checkpoint.py                        # 10,000 mutants of a tiny checkpoint: table of what they came to
    python benchmarks/fuzz_checkpoint.py --mutants 500 --seed 7
    python benchmarks/fuzz_checkpoint.py --first 4711 --mutants 1 --keep mutant.keras   # one of them again, to look at

A mutant has to be refused with one printable line that names the file, or predict exactly what the checkpoint predicts that it was made
from. Some mutants are sealed: their checksums are made to fit again, as an attacker would, so that what lies behind them is reached. A
sealed mutant may also be another checkpoint that is in order, since weights, words and settings are its maker's to choose.

Mutants are read in processes of their own, some hundred in each, with a limit on memory and on seconds for each mutant. A signal, a
hang, a traceback or too much memory ends the run with exit code 1.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # the address space of its threads would count as memory

import numpy as np
from checkpoint_mutants import MUTATIONS, kind_of

from mha_cli.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from mha_cli.config import config_from_dict
from mha_cli.errors import MhaError
from mha_cli.parameters import parameter_table
from mha_cli.runtime.classifier import Classifier
from mha_cli.text.vocabulary import Vocabulary

MORE_MEMORY = 200_000_000
"""Bytes of address space that reading and predicting may take on top of what the libraries have."""

SECONDS = 10
"""Of processor time for one mutant; on an idle processor it takes a few thousandths."""

BATCH = 500
FORMS = ("tiny.keras", "small.keras")
TEXTS = ("the film was superb , not dreadful .", "it's a film", "unknown words only", "")


def tiny_checkpoints(folder: Path) -> None:
    """Write the checkpoint that the mutants are made from, in both forms; it has every kind of weight."""
    model = {"embed_dim": 6, "num_heads": 2, "feed_forward_dim": 5, "scoring": "additive", "max_ngram": 2, "ngram_buckets": 7}
    sections = {"text": {"vocabulary_size": 20, "sequence_length": 8}, "model": model | {"score_ngrams": 2, "score_buckets": 11}}
    config = config_from_dict(sections, "tiny")
    vocabulary = Vocabulary(("the", "film", "was", "superb", "dreadful", "not", ",", ".", "é", "it's", "a"))
    rng = np.random.default_rng(0)
    parameters = parameter_table(config, len(vocabulary), 2)
    weights = {parameter.path: rng.normal(0, 0.5, parameter.shape).astype(np.float32) for parameter in parameters}
    checkpoint = Checkpoint(config, ("negative", "positive"), vocabulary, {"epoch": 3}, weights, '{"of": "Keras"}')
    for form in FORMS:
        write_checkpoint(folder / form, checkpoint, small=form == "small.keras")


# Trying them


def predictions(path: Path) -> list[dict[str, float]]:
    """What a checkpoint says about some texts."""
    with np.errstate(all="ignore"):  # weights may be anything that is finite
        return [prediction.probabilities for prediction in Classifier(read_checkpoint(path)).predict(TEXTS)]


def outcome(path: Path, expected: list[dict[str, float]], may_differ: bool) -> str:
    """What a mutant came to: refused, same, other, or what is wrong."""
    try:
        found = predictions(path)
    except MhaError as error:
        line = str(error)
        right = line.isprintable() and line.startswith(path.name) and error.exit_code == 2 and len(line) < 1000
        return "refused" if right else f"refused in a wrong way: {line!r}"
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
    if found == expected:
        return "same"
    return "other" if may_differ else f"predicts something else: {found}"


def worker(folder: Path, seed: int, first: int, last: int) -> None:
    """Try some mutants; a line of JSON for each before and after."""
    os.chdir(folder)
    originals = []
    for form in map(Path, FORMS):
        with zipfile.ZipFile(form) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        originals.append((form.read_bytes(), members, predictions(form)))
    path = Path("mutant.keras")
    with open("/proc/self/statm", encoding="ascii") as file:
        used = int(file.read().split()[0]) * os.sysconf("SC_PAGESIZE")
    most = resource.getrlimit(resource.RLIMIT_AS)[1]
    for number in range(first, last):
        kind, rng = kind_of(seed, number)
        mutation = MUTATIONS[kind]
        whole, members, expected = originals[mutation.small]
        path.write_bytes(mutation.change(whole, members, rng))
        print(json.dumps([number, kind, None]), flush=True)
        resource.setrlimit(resource.RLIMIT_AS, (used + MORE_MEMORY, most))
        signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
        signal.alarm(60 * SECONDS)  # for what waits without computing; a machine may be busy
        result = outcome(path, expected, mutation.sealed)
        signal.alarm(0)
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
        print(json.dumps([number, kind, result]), flush=True)


def results(folder: Path, seed: int, first: int, last: int) -> Iterator[tuple[int, str, str]]:
    """Number, kind and outcome of mutants; a process that dies is replaced by another one."""
    while first < last:
        arguments = [__file__, "--worker", folder, "--seed", seed, "--first", first, "--mutants", min(BATCH, last - first)]
        done = subprocess.run([sys.executable, *map(str, arguments)], capture_output=True, text=True, check=False)
        begun = None
        for line in done.stdout.splitlines():
            number, kind, result = json.loads(line)
            begun = (number, kind) if result is None else None
            first = number + 1
            if result is not None:
                yield number, kind, result
        if begun is not None:
            yield (
                *begun,
                "hang" if -done.returncode in {signal.SIGVTALRM, signal.SIGALRM} else f"ended with {done.returncode}: {done.stderr[-300:]}",
            )
        elif done.returncode or done.stderr:
            sys.exit(f"a worker failed: {done.stderr}")


def main() -> int:
    """Run the mutants, print what they came to; returns the exit code."""
    parser = argparse.ArgumentParser(description="Tries to break the reader of checkpoints.")
    parser.add_argument("--mutants", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0, help="number of the first mutant")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, help="write the first mutant to this file")
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    last = given.first + given.mutants
    if given.worker:
        worker(given.worker, given.seed, given.first, last)
        return 0
    counts: Counter[tuple[str, str]] = Counter()
    wrong = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tiny_checkpoints(folder)
        for number, kind, result in results(folder, given.seed, given.first, last):
            counts[kind, result if result in {"refused", "same", "other"} else "wrong"] += 1
            if result not in {"refused", "same", "other"}:
                wrong.append(f"mutant {number} of seed {given.seed} ({kind}): {result}")
            if number == given.first and given.keep:
                given.keep.write_bytes((folder / "mutant.keras").read_bytes())
    print(f"{'mutation':<20}{'refused':>9}{'same':>9}{'other':>9}{'wrong':>9}")
    for kind in MUTATIONS:
        print(f"{kind:<20}" + "".join(f"{counts[kind, result]:>9,}" for result in ("refused", "same", "other", "wrong")))
    print(f"{sum(counts.values()):,} mutants, seed {given.seed}: {len(wrong)} wrong")
    print(*wrong, sep="\n", end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
