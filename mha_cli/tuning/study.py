"""The trials on disk: one JSON file in the run directory, with which the same command goes on."""

import json
import math
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field, FiniteFloat, PrivateAttr, field_validator

from mha_cli.config.loading import config_to_dict
from mha_cli.config.settings import Config
from mha_cli.errors import MhaError, plural, shown_path
from mha_cli.runs import METRICS, STATE, RunDirectory, held_directory, refuse_other_settings, refuse_used
from mha_cli.system.whole_files import atomic_write

STUDY = "study.json"

QUARTERS = 4  # parts of a trial after which it is compared with others, however many epochs it has


@dataclass(frozen=True)
class Trial:
    """A trial."""

    number: int  # number from 0; an interrupted trial gets none
    stopped: bool  # True if it was not trained to its end
    loss: FiniteFloat | None  # in nats, of the epoch that it would keep, or of the last one; None if it could not be trained
    accuracy: Annotated[float, Field(ge=0, le=1)] | None  # validation accuracy of the same epoch, in [0, 1]
    seconds: Annotated[FiniteFloat, Field(ge=0)]
    settings: dict[str, Any]  # settings that were searched
    reached: dict[Annotated[int, Field(ge=1, le=QUARTERS)], FiniteFloat]  # validation loss after each quarter of its epochs

    def __post_init__(self) -> None:
        """Refuse a whole trial without figures."""
        if not self.stopped and (self.loss is None or self.accuracy is None):
            raise ValueError("a trial without loss or accuracy")

    def __str__(self) -> str:
        """The figures in a few words."""
        figures = "" if self.loss is None else f"validation loss {self.loss:.4f}, accuracy {self.accuracy:.2%}"
        return f"trial {self.number}: {'stopped early, ' * self.stopped}{figures}, {self.seconds:.0f} s"


class Study(BaseModel):
    """The trials of a run directory, as its file holds them, and the budget of this call; get one with ``held_study``."""

    given: dict[str, Any]  # config and search of the first call
    texts: str = ""  # digest of the texts that trials are judged by; empty before the first trial
    exhausted: bool = False  # whether every combination of settings has been tried
    trials: list[Trial] = []  # trials that ended or were stopped early, in order
    _output: RunDirectory = PrivateAttr()
    _seconds: float = PrivateAttr()
    _most_trials: float = PrivateAttr()

    @field_validator("trials")
    @classmethod
    def _in_order(cls, trials: list[Trial]) -> list[Trial]:
        if [trial.number for trial in trials] != list(range(len(trials))):
            raise ValueError("trials out of order")
        return trials

    @property
    def output(self) -> RunDirectory:
        """The run directory."""
        return self._output

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

    @property
    def seconds_left(self) -> float:
        """Time that is left for trials; 0 if there may or can be no more."""
        if self.exhausted or len(self.trials) >= self._most_trials:
            return 0.0
        return max(0.0, self._seconds - sum(trial.seconds for trial in self.trials))

    def is_new(self, settings: dict[str, Any], size: float) -> bool:
        """Whether settings have not been tried before. The search is exhausted once ``size`` combinations, all of them, were tried."""
        tried = {json.dumps(earlier.settings, sort_keys=True) for earlier in self.trials}
        if len(tried) >= size:
            self.exhausted = True
            self._write()
        return json.dumps(settings, sort_keys=True) not in tried

    def add(self, trial: Trial) -> None:
        """Keep a further trial. If it is the best, the training of an earlier best is given up first."""
        if not trial.stopped and (not self.complete or (trial.loss or 0.0) < (self.best.loss or 0.0)):
            (self.output / METRICS).unlink(missing_ok=True)
            shutil.rmtree(self.output / STATE.parent, ignore_errors=True)
        self.trials.append(trial)
        self._write()

    def refuse_other_texts(self, digest: str) -> None:
        """Refuse texts that earlier trials were not judged by."""
        if self.texts not in ("", digest):
            name = shown_path(self.output)
            raise MhaError(f"{name}: its trials had other texts, or another version of mha", "choose another folder")
        self.texts = digest

    def _write(self) -> None:
        with atomic_write(self.output / STUDY) as file:
            file.write(self.model_dump_json(indent=1).encode())


@contextmanager
def held_study(output: Path, config: Config, search: list[str], minutes: float, most_trials: int | None = None) -> Iterator[Study]:
    """Hold a run directory and the study in it, which goes on if it is there already; refuse one with nothing left to do.

    A study that ends before its first trial has leaves the folder as it was.

    Args:
        minutes: time for all trials, those of earlier calls included.
        most_trials: number of trials, likewise; None for any.
    """
    path, name = output / STUDY, shown_path(output)

    def refuse() -> None:
        if not path.is_file():
            refuse_used(output)

    with held_directory(output, refuse):
        study = Study(given={**config_to_dict(config), "search": search})
        if path.is_file():
            now = study.given
            try:
                study = Study.model_validate_json(path.read_bytes())
            except (OSError, ValueError):
                raise MhaError(f"{name}: its {STUDY} is damaged, or not of mha tune", "choose another folder") from None
            refuse_other_settings(output, study.given, now, "give what was given before, or choose another folder")
        study._output, study._seconds, study._most_trials = RunDirectory(output), 60.0 * minutes, most_trials or math.inf
        if study.complete and not study.seconds_left and ((output / METRICS).is_file() or not study.has_gained):
            more = "search more, in another folder" if study.exhausted else "give more --minutes or --trials, or another folder"
            raise MhaError(f"{name}: its search is finished, with {plural(len(study.trials), 'trial')}", more)
        yield study
