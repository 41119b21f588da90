"""The trials on disk: Optuna's SQLite file in the run directory, so that the same command goes on with them."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy.typing as npt

from mha_cli.checkpoint.runs import METRICS, RunDirectory, held_directory, refuse_other_settings, refuse_used
from mha_cli.config.loading import config_to_dict
from mha_cli.config.settings import Config
from mha_cli.errors import EXIT_FAILURE, MhaError, printable, shown_path

STUDY = "study.db"

NAME = "mha"
"""Name of the study in it."""

FIRST_AT_RANDOM = 6
"""Trials before what they gave decides which is the next."""

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


class Study:
    """The trials of a run directory.

    Args:
        output: run directory, which this process holds.
        study: Optuna's study.

    Attributes:
        output: the same directory.
        optuna: the same study.
    """

    def __init__(self, output: RunDirectory, study: Any) -> None:
        self.output, self.optuna = output, study

    @property
    def trials(self) -> list[Any]:
        """The trials that have come to an end, or were stopped early; not those that were interrupted."""
        from optuna.trial import TrialState

        return list(self.optuna.get_trials(deepcopy=False, states=(TrialState.COMPLETE, TrialState.PRUNED)))

    @property
    def complete(self) -> list[Any]:
        """The trials that have come to an end."""
        return [trial for trial in self.trials if trial.state.name == "COMPLETE"]

    def seconds_left(self, budget: Budget) -> float:
        """Time that is left for trials; 0 if there may or can be no more."""
        trials = self.trials
        if self._exhausted or (budget.trials is not None and len(trials) >= budget.trials):
            return 0.0
        spent: float = sum(trial.duration.total_seconds() for trial in trials)
        return max(0.0, 60.0 * budget.minutes - spent)

    @property
    def _exhausted(self) -> bool:
        """Whether all that there can be has been tried."""
        return bool(self.optuna.user_attrs.get("exhausted"))

    def is_new(self, trial: Any, size: float) -> bool:
        """Whether a trial has not been tried before. Once all that there can be, ``size``, have been tried, the search is exhausted."""
        tried = {json.dumps(earlier.params, sort_keys=True) for earlier in self.trials}
        if len(tried) >= size:
            self.optuna.set_user_attr("exhausted", True)
        return json.dumps(trial.params, sort_keys=True) not in tried

    def refuse_finished(self, budget: Budget) -> None:
        """Refuse to go on where nothing is left to do.

        Raises:
            MhaError: the best config is trained, and the budget is spent.
        """
        if (self.output / METRICS).is_file() and not self.seconds_left(budget):
            name, count = shown_path(self.output), len(self.trials)
            more = "search more, in another folder" if self._exhausted else "give more --minutes or --trials, or another folder"
            raise MhaError(f"--output {name}: its search is finished, with {count} trials", more)

    def refuse_other_texts(self, arrays: Sequence[npt.NDArray[Any]]) -> None:
        """Refuse texts that earlier trials were not judged by.

        Args:
            arrays: numbers that differ where texts, settings or mha do.

        Raises:
            MhaError: they differ from those of the first call.
        """
        digest = hashlib.sha256(b"".join(hashlib.sha256(array.tobytes()).digest() for array in arrays)).hexdigest()
        if self.optuna.user_attrs.get("texts", digest) != digest:
            name = shown_path(self.output)
            raise MhaError(f"--output {name}: its trials had other texts, or another version of mha", "choose another folder")
        self.optuna.set_user_attr("texts", digest)


@contextmanager
def held_study(output: Path, config: Config, search: list[str], seed: int) -> Iterator[Study]:
    """Hold a run directory and the study in it, which goes on if it is there already.

    A new one that ends before its first trial has leaves the folder as it was.

    Args:
        output: run directory; made if it is missing.
        config: settings of the run.
        search: what is searched, as the user gave it.
        seed: seed of the search.

    Raises:
        MhaError: the folder is in use or holds something else, or its study is of another config or cannot be read.
    """
    path = output / STUDY

    def refuse() -> None:
        if not path.is_file():
            refuse_used(output)
        elif not _is_ours(path):
            raise MhaError(f"--output {shown_path(output)}: {STUDY} is not of mha tune", "choose another folder")

    with held_directory(output, refuse):
        is_new = not path.is_file()
        with _faults_named(path), _opened(path, seed) as study:
            given = {**config_to_dict(config), "search": search}
            earlier = study.user_attrs.get("given")
            if earlier is None:
                study.set_user_attr("given", given)
            else:
                refuse_other_settings(output, earlier, _padded(given, earlier), "give what was given before, or choose another folder")
            held = Study(RunDirectory(output), study)
            try:
                yield held
            except BaseException:
                if is_new and not held.trials:
                    path.unlink()
                raise


def _is_ours(path: Path) -> bool:
    with closing(sqlite3.connect(path)) as database, suppress(sqlite3.Error):
        return (NAME,) in database.execute("SELECT study_name FROM studies").fetchall()
    return False


def _padded(now: Mapping[str, Any], earlier: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with None for those that were given earlier and are not now."""
    padded: dict[str, Any] = {**dict.fromkeys(earlier), **now}
    for section, settings in earlier.items():
        if isinstance(settings, dict):
            padded[section] = {**dict.fromkeys(settings), **(padded[section] or {})}
    return padded


@contextmanager
def _opened(path: Path, seed: int) -> Iterator[Any]:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    # A URL would give ?, { and % in the path a meaning.
    connect = partial(sqlite3.connect, path)
    storage = optuna.storages.RDBStorage("sqlite://", engine_kwargs={"creator": connect})
    try:
        study = optuna.create_study(
            storage=storage,
            study_name=NAME,
            load_if_exists=True,
            direction="minimize",
            pruner=optuna.pruners.MedianPruner(n_startup_trials=3, n_warmup_steps=QUARTERS // 2),
        )
        for trial in study.get_trials(deepcopy=False, states=(optuna.trial.TrialState.RUNNING,)):  # of a process that was killed
            study.tell(trial.number, state=optuna.trial.TrialState.FAIL)
        # Of its own for every call: the same numbers again would draw the same trials again.
        study.sampler = optuna.samplers.TPESampler(seed=seed + len(study.trials), n_startup_trials=FIRST_AT_RANDOM)
        yield study
    finally:
        storage.remove_session()
        storage.engine.dispose()


@contextmanager
def _faults_named(path: Path) -> Iterator[None]:
    import optuna
    import sqlalchemy

    name = shown_path(path)
    try:
        yield
    except (sqlalchemy.exc.SQLAlchemyError, optuna.exceptions.StorageInternalError, sqlite3.Error) as error:
        reason = printable(str(getattr(error.__cause__, "orig", None) or getattr(error, "orig", None) or error).splitlines()[0], 200)
        raise MhaError(f"{name}: cannot be read or written: {reason}", "choose another folder", EXIT_FAILURE) from None
