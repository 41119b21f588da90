"""A search from its first trial to the training of the best. Importing this module imports TensorFlow, quietly."""

from __future__ import annotations

import dataclasses
import json
import math
import shutil
import time
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import optuna
from optuna.trial import TrialState

import mha_cli.training  # noqa: F401 - before all that imports TensorFlow: it starts it quietly
from mha_cli.checkpoint.runs import METRICS, STATE
from mha_cli.config.loading import config_to_yaml
from mha_cli.config.settings import Config
from mha_cli.data.preparation import PreparedData, prepare
from mha_cli.errors import MhaError
from mha_cli.ngram_scores.fit import FittedScores
from mha_cli.system.tensorflow_setup import graphs_let_go
from mha_cli.system.watcher import SILENT, EpochRecord, StepProgress, Watcher
from mha_cli.system.whole_files import atomic_write
from mha_cli.training.distribution import Distribution
from mha_cli.training.footprint import refuse_what_does_not_fit
from mha_cli.training.loop import fit
from mha_cli.training.run import TrainingSummary, fingerprint, fit_all_scores, train
from mha_cli.training.trainer import Trainer
from mha_cli.training.validation import Validation
from mha_cli.tuning.space import Space, own_values, settings_of, size_of, with_settings
from mha_cli.tuning.study import QUARTERS, Budget, Study

BEST = "best.yaml"

KEPT_SCORES = 3
"""N-gram scores that are kept for further trials: a table may have a hundred megabytes."""

LEAST_TRIALS = 10
"""Trials from which on it is said which setting mattered."""


@dataclass(frozen=True)
class Trial:
    """A trial.

    Args:
        number: number from 0; those of interrupted trials are left out.
        stopped: True if it was not trained to its end.
        loss: validation loss of the epoch that it would keep, or of the last one, in nats; None if it could not be trained.
        accuracy: validation accuracy of the same epoch, in [0, 1].
        seconds: time that it took.
        settings: settings that were searched.
    """

    number: int
    stopped: bool
    loss: float | None
    accuracy: float | None
    seconds: float
    settings: dict[str, Any]

    def __str__(self) -> str:
        """The figures in a few words."""
        figures = "" if self.loss is None else f"validation loss {self.loss:.4f}, accuracy {self.accuracy:.2%}"
        return f"trial {self.number}: {'stopped early, ' * self.stopped}{figures}, {self.seconds:.0f} s"


@dataclass(frozen=True)
class TuningSummary:
    """How a search ended.

    Args:
        config: file of the best settings.
        recipe: first trial, which is the recipe as it is.
        best: trial of the lowest validation loss.
        standard_error: standard error of its accuracy, from the number of texts.
        num_validation: texts that trials were judged by.
        seconds: time of all trials.
        importance: share of the differences between trials that a setting makes, by its name, the largest first; empty for few trials.
        trials: all trials.
        training: training of the best settings.
    """

    config: Path
    recipe: Trial
    best: Trial
    standard_error: float
    num_validation: int
    seconds: float
    importance: dict[str, float]
    trials: list[Trial]
    training: TrainingSummary


def tune(config: Config, study: Study, space: Space, budget: Budget, data: PreparedData, watcher: Watcher = SILENT) -> TuningSummary:
    """Search until the budget is spent, then train the best settings in the study's run directory.

    Args:
        config: settings of the run.
        study: trials so far.
        space: what is searched.
        budget: what is spent on trials; the first comes to its end in any case.
        data: texts for the trials, by ``trial_config``.
        watcher: reporter of what goes on.

    Raises:
        MhaError: earlier trials had other texts, the recipe as it is cannot be trained, or a file cannot be written.
        KeyboardInterrupt: the watcher asked to stop; finished trials, and the state of the last training, are kept.
    """
    output = study.output
    study.refuse_other_texts(fingerprint(data.config, data))
    if study.seconds_left(budget) or not study.complete:
        (output / METRICS).unlink(missing_ok=True)  # what was trained may not be the best any more
        shutil.rmtree(output / STATE.parent, ignore_errors=True)
        _search(config, study, space, budget, data, watcher)
    trials = [_told(trial) for trial in study.trials]
    complete = [trial for trial in trials if not trial.stopped]
    best = _told(study.optuna.best_trial)
    tuned = _keep(config, best, output / BEST)
    watcher.note(f"training with the settings of trial {best.number}, as mha train does")
    again = prepare(tuned, dataclasses.replace(watcher, note=lambda _: None))
    assert best.accuracy is not None
    return TuningSummary(
        config=output / BEST,
        recipe=complete[0],
        best=best,
        standard_error=math.sqrt(best.accuracy * (1.0 - best.accuracy) / len(data.validation)),
        num_validation=len(data.validation),
        seconds=sum(trial.seconds for trial in trials),
        importance=_importance(study, config.seed),
        trials=trials,
        training=train(again.config, output, watcher, again),
    )


def _search(config: Config, study: Study, space: Space, budget: Budget, data: PreparedData, watcher: Watcher) -> None:
    scored = _Scores(data, watcher)
    while study.seconds_left(budget) or not study.complete:
        is_first = not study.complete
        if is_first and not study.optuna.get_trials(deepcopy=False, states=(TrialState.WAITING,)):
            study.optuna.enqueue_trial(own_values(space, data.config))
        trial, left = study.optuna.ask(space), study.seconds_left(budget)
        end = math.inf if is_first else time.monotonic() + left
        if not study.is_new(trial, size_of(space)):
            study.optuna.tell(trial, state=TrialState.FAIL)
            continue
        watcher.log(f"trial {trial.number}, {left / 60:.1f} minutes left")
        try:
            with graphs_let_go():
                record, stopped = _try(trial, end, scored, data, watcher)
        except MhaError as error:
            if is_first:
                study.optuna.tell(trial, state=TrialState.FAIL)
                raise
            watcher.note(f"trial {trial.number}: {error.message}")
            study.optuna.tell(trial, state=TrialState.PRUNED)
        except BaseException:
            study.optuna.tell(trial, state=TrialState.FAIL)
            raise
        else:
            trial.set_user_attr("accuracy", record.validation_accuracy)
            trial.set_user_attr("loss", record.validation_loss)
            study.optuna.tell(trial, None if stopped else record.validation_loss, TrialState.PRUNED if stopped else TrialState.COMPLETE)
            best = _told(study.optuna.best_trial)
            is_best = best.number == trial.number
            if is_best:
                _keep(config, best, study.output / BEST)
            others = "" if is_best else f"; best so far: trial {best.number}, {best.loss:.4f}, {best.accuracy:.2%}"
            watcher.note(f"{_told(study.optuna.trials[trial.number])}{others}")


class _Scores:
    """What trials have of n-gram scores, which are fitted once for all that do not differ in them."""

    def __init__(self, data: PreparedData, watcher: Watcher) -> None:
        @lru_cache(KEPT_SCORES)
        def fitted(settings: str, class_weights: str) -> tuple[PreparedData, FittedScores | None]:
            model = data.config.model.model_copy(update=json.loads(settings))
            training = data.config.training.model_copy(update={"class_weights": class_weights})
            config = data.config.model_copy(update={"model": model, "training": training})
            to_learn, scores, _ = fit_all_scores(config, data, watcher.log, Distribution())
            return to_learn, scores

        self._fitted = fitted

    def of(self, config: Config) -> tuple[PreparedData, FittedScores | None]:
        """What the encoder of a config learns from, and the scores, if there are any."""
        settings = {name: value for name, value in config.model.model_dump().items() if name.startswith("score_")}
        return self._fitted(json.dumps(settings), config.training.class_weights)


def _try(trial: Any, end: float, scored: _Scores, data: PreparedData, watcher: Watcher) -> tuple[EpochRecord, bool]:
    """Train a trial; the epoch that it keeps, or the last one, and whether it was stopped before its end.

    Args:
        trial: Optuna's trial.
        end: time of ``time.monotonic`` at which to stop.
        scored: n-gram scores.
        data: reviews.
        watcher: reporter of the steps, which may stop them.

    Raises:
        MhaError: its settings do not go together, it does not fit into memory, or its loss is no longer a number.
        KeyboardInterrupt: the watcher asked to stop.
    """
    config = with_settings(data.config, settings_of(trial.params), "these settings")
    refuse_what_does_not_fit(config, data)
    to_learn, scores = scored.of(config)
    validation = Validation.of_run(config, data, scores)

    def on_step(progress: StepProgress) -> None:
        watcher.on_step(progress)
        if watcher.stop():
            raise KeyboardInterrupt

    kept = record = None
    quarter = 0
    for record in fit(Trainer(config, to_learn), validation, lambda _: None, on_step):
        kept = record if record.best else kept
        if (reached := QUARTERS * record.epoch // config.training.epochs) > quarter:
            quarter = reached
            trial.report(record.validation_loss, quarter)
            if quarter < QUARTERS and trial.should_prune():
                return record, True
        if time.monotonic() > end and record.epoch < config.training.epochs:
            return record, True
    assert kept is not None
    return kept, False


def _told(trial: Any) -> Trial:
    """A trial as Optuna keeps it, in our words."""
    found = trial.user_attrs
    seconds = trial.duration.total_seconds()
    stopped = trial.state is not TrialState.COMPLETE
    return Trial(trial.number, stopped, found.get("loss"), found.get("accuracy"), seconds, settings_of(trial.params))


def _keep(config: Config, best: Trial, path: Path) -> Config:
    """Write the config with the best settings, and give it."""
    tuned = with_settings(config, best.settings, f"trial {best.number}")
    with atomic_write(path) as file:
        file.write(config_to_yaml(tuned).encode())
    return tuned


def _importance(study: Study, seed: int) -> dict[str, float]:
    """How much of the variance between trials each setting explains; those stopped early count with the loss that they had reached.

    Source: Hutter et al. 2014, "An Efficient Approach for Assessing Hyperparameter Importance" (functional ANOVA).
    """
    found = [trial for trial in study.trials if "loss" in trial.user_attrs]
    if len(found) < LEAST_TRIALS:
        return {}
    reached = optuna.create_study()
    for trial in found:
        same = {"params": trial.params, "distributions": trial.distributions}
        reached.add_trial(optuna.trial.create_trial(**same, value=trial.user_attrs["loss"]))
    evaluator = optuna.importance.FanovaImportanceEvaluator(seed=seed)
    try:
        return {name: float(share) for name, share in optuna.importance.get_param_importances(reached, evaluator=evaluator).items()}
    except RuntimeError:  # all trials came to the same
        return {}
