"""The trials on disk: one JSON file in the run directory, with which the same command goes on."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

import numpy.typing as npt
from pydantic import Field, FiniteFloat, TypeAdapter

from mha_cli.checkpoint.runs import METRICS, STATE, RunDirectory, held_directory, refuse_other_settings, refuse_used
from mha_cli.config.loading import config_to_dict
from mha_cli.config.settings import Config
from mha_cli.errors import MhaError, plural, shown_path
from mha_cli.system.whole_files import atomic_replace

STUDY = "study.json"

QUARTERS = 4
"""Parts of a trial after which it is compared with others, however many epochs it has."""


@dataclass(frozen=True)
class Budget:
    """When a search ends; trials of earlier calls count.

    Args:
        minutes: time for all trials together.
        trials: number of trials; None for any.
    """

    minutes: float
    trials: int | None = None


@dataclass(frozen=True)
class Trial:
    """A trial.

    Args:
        number: number from 0; an interrupted trial gets none.
        stopped: True if it was not trained to its end.
        loss: validation loss of the epoch that it would keep, or of the last one, in nats; None if it could not be trained.
        accuracy: validation accuracy of the same epoch, in [0, 1].
        seconds: time that it took.
        settings: settings that were searched.
        reached: validation loss after each quarter of its epochs.
    """

    number: int
    stopped: bool
    loss: FiniteFloat | None
    accuracy: Annotated[float, Field(ge=0, le=1)] | None
    seconds: Annotated[FiniteFloat, Field(ge=0)]
    settings: dict[str, Any]
    reached: dict[Annotated[int, Field(ge=1, le=QUARTERS)], FiniteFloat]

    def __post_init__(self) -> None:
        """Refuse a whole trial without figures."""
        if not self.stopped and (self.loss is None or self.accuracy is None):
            raise ValueError("a trial without loss or accuracy")

    def __str__(self) -> str:
        """The figures in a few words."""
        figures = "" if self.loss is None else f"validation loss {self.loss:.4f}, accuracy {self.accuracy:.2%}"
        return f"trial {self.number}: {'stopped early, ' * self.stopped}{figures}, {self.seconds:.0f} s"


@dataclass
class _Kept:
    """The content of the file.

    Args:
        given: config and search of the first call.
        texts: digest of the texts that trials are judged by; empty before the first trial.
        exhausted: True if every combination of settings has been tried.
        trials: all trials, in order.
    """

    given: dict[str, Any]
    texts: str = ""
    exhausted: bool = False
    trials: list[Trial] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Refuse trials that are missing or out of order."""
        if [trial.number for trial in self.trials] != list(range(len(self.trials))):
            raise ValueError("trials out of order")


class Study:
    """The trials of a run directory.

    Args:
        output: run directory, which this process holds.
        kept: content of its file.

    Attributes:
        output: the same directory.
    """

    def __init__(self, output: RunDirectory, kept: _Kept) -> None:
        self.output, self._kept = output, kept

    @property
    def trials(self) -> Sequence[Trial]:
        """The trials that ended or were stopped early."""
        return self._kept.trials

    @property
    def complete(self) -> list[Trial]:
        """The trials that were trained to their end; the first one is the recipe as it is."""
        return [trial for trial in self.trials if not trial.stopped]

    @property
    def best(self) -> Trial:
        """The complete trial of the lowest loss, the first of equal ones."""
        return min(self.complete, key=lambda trial: trial.loss or 0.0)

    @property
    def has_gained(self) -> bool:
        """Whether a trial was better than the recipe as it is."""
        return self.best is not self.complete[0]

    def seconds_left(self, budget: Budget) -> float:
        """Time that is left for trials; 0 if there may or can be no more."""
        if self._kept.exhausted or (budget.trials is not None and len(self.trials) >= budget.trials):
            return 0.0
        return max(0.0, 60.0 * budget.minutes - sum(trial.seconds for trial in self.trials))

    def is_new(self, settings: dict[str, Any], size: float) -> bool:
        """Whether settings have not been tried before. The search is exhausted once ``size`` combinations, all of them, were tried."""
        tried = {json.dumps(earlier.settings, sort_keys=True) for earlier in self.trials}
        if len(tried) >= size:
            self._kept.exhausted = True
            self._write()
        return json.dumps(settings, sort_keys=True) not in tried

    def add(self, trial: Trial) -> None:
        """Keep a further trial. If it is the best, the training of an earlier best is given up first."""
        if not trial.stopped and (not self.complete or (trial.loss or 0.0) < (self.best.loss or 0.0)):
            (self.output / METRICS).unlink(missing_ok=True)
            shutil.rmtree(self.output / STATE.parent, ignore_errors=True)
        self._kept.trials.append(trial)
        self._write()

    def refuse_finished(self, budget: Budget) -> None:
        """Refuse to go on where nothing is left to do."""
        if self.complete and not self.seconds_left(budget) and ((self.output / METRICS).is_file() or not self.has_gained):
            name, count = shown_path(self.output), len(self.trials)
            more = "search more, in another folder" if self._kept.exhausted else "give more --minutes or --trials, or another folder"
            raise MhaError(f"--output {name}: its search is finished, with {plural(count, 'trial')}", more)

    def refuse_other_texts(self, arrays: Sequence[npt.NDArray[Any]]) -> None:
        """Refuse texts that earlier trials were not judged by.

        Args:
            arrays: numbers that differ where texts, settings or mha do.
        """
        digest = hashlib.sha256(b"".join(hashlib.sha256(array.tobytes()).digest() for array in arrays)).hexdigest()
        if self._kept.texts not in ("", digest):
            name = shown_path(self.output)
            raise MhaError(f"--output {name}: its trials had other texts, or another version of mha", "choose another folder")
        self._kept.texts = digest

    def _write(self) -> None:
        with atomic_replace(self.output / STUDY) as file:
            file.write(json.dumps(asdict(self._kept), indent=1).encode())


@contextmanager
def held_study(output: Path, config: Config, search: list[str]) -> Iterator[Study]:
    """Hold a run directory and the study in it, which goes on if it is there already.

    A study that ends before its first trial has leaves the folder as it was.

    Args:
        output: run directory; made if it is missing.
        config: settings of the run.
        search: what is searched, as the user gave it.
    """
    path = output / STUDY

    def refuse() -> None:
        if not path.is_file():
            refuse_used(output)

    with held_directory(output, refuse):
        given = {**config_to_dict(config), "search": search}
        kept = _read(output, given) if path.is_file() else _Kept(given)
        yield Study(RunDirectory(output), kept)


def _read(output: Path, given: Mapping[str, Any]) -> _Kept:
    """The study of a run directory."""
    name = shown_path(output)
    try:
        kept = TypeAdapter(_Kept).validate_json((output / STUDY).read_bytes())
    except (OSError, ValueError):
        raise MhaError(f"--output {name}: its {STUDY} is damaged, or not of mha tune", "choose another folder") from None
    refuse_other_settings(output, kept.given, given, "give what was given before, or choose another folder")
    return kept
