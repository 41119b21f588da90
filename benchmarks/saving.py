"""What saving the state for `--resume` costs: the same training with saves and without, in turn.

    python benchmarks/saving.py                                                         # configs/imdb-fast.yaml: table and saving.json
    python benchmarks/saving.py configs/sample.yaml --rounds 1 --results /tmp/try       # a try-out

The encoder is trained alone: n-gram scores have no part in its state. The clock runs from the first step to the last validation. The share
is that of the time in saves by the clock; the two trainings side by side show that saving costs nothing beside.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import harness
import tables

from mha_cli.config.loading import load_config
from mha_cli.config.settings import Config
from mha_cli.system.callbacks import SILENT, EpochRecord


def train(config: Config, data: Any, folder: Path | None) -> tuple[float, list[float], int]:
    """Seconds of a training, of each of its saves, and bytes of the last one; it saves where there is a folder."""
    from mha_cli.training import state
    from mha_cli.training.loop import fit
    from mha_cli.training.trainer import Trainer
    from mha_cli.training.validation import Validation

    trainer, validation, saves = Trainer(config, data), Validation(config, data, None), list[float]()
    save_state = state.save_state

    def timed(path: Path, trainer: Trainer, records: list[EpochRecord]) -> None:
        started = time.perf_counter()
        save_state(path, trainer, records)
        saves.append(time.perf_counter() - started)

    state.save_state = timed
    started = time.perf_counter()
    try:
        records = list[EpochRecord]()
        saver = None if folder is None else state.StateSaver(folder / "state.npz", trainer, records, SILENT)
        for record in fit(trainer, validation, saver.after_step if saver else lambda _: None):
            records.append(record)
            if saver:
                saver.after_epoch()
        if saver:
            saver.finish()
    finally:
        state.save_state = save_state
    seconds = time.perf_counter() - started
    return seconds, saves, (folder / "state.npz").stat().st_size if folder else 0


def measure(config: Config, rounds: int) -> dict[str, Any]:
    """Both trainings in turn, so many times."""
    from mha_cli.data.preparation import prepare

    data = prepare(config)
    figures: dict[str, Any] = {"seconds": {"without": [], "with": []}, "saving_seconds": [], "saves": []}
    for number in range(rounds):
        for way in ("without", "with"):
            with tempfile.TemporaryDirectory(dir=".") as folder:  # on a disk, which the folder for temporary files need not be
                seconds, saves, size = train(config, data, Path(folder) if way == "with" else None)
            figures["seconds"][way].append(seconds)
            if way == "with":
                figures["saving_seconds"].append(sum(saves))
                figures["saves"].append(len(saves))
                figures["state_megabytes"] = size / 1e6
            print(f"round {number + 1}, {way}: {seconds:.1f} s, of which {sum(saves):.2f} s in {len(saves)} saves", file=sys.stderr)
    return figures


def main() -> None:
    """Measure the recipe that the arguments name."""
    parser = harness.parser(__doc__)
    parser.add_argument("recipe", type=Path, nargs="?", default=harness.ROOT / "configs" / "imdb-fast.yaml")
    parser.add_argument("--set", action="append", default=[], metavar="KEY.PATH=VALUE", dest="overrides")
    parser.add_argument("--rounds", type=int, default=2)
    arguments = parser.parse_args()
    busy = harness.busy_share()
    settings = {"recipe": arguments.recipe.name, "overrides": arguments.overrides, "rounds": arguments.rounds}
    record = harness.record(settings, measure(load_config(arguments.recipe, arguments.overrides), arguments.rounds), busy)
    harness.write_record(arguments.results / "saving.json", record)
    tables.show(tables.saving(record))


if __name__ == "__main__":
    main()
