"""A search from its first trial to the training of the best. Importing this module imports TensorFlow, quietly."""

import dataclasses
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import optuna
from optuna.trial import TrialState

import mha_cli.training  # noqa: F401 - before all that imports TensorFlow: it starts it quietly
from mha_cli.config.loading import config_to_yaml
from mha_cli.config.settings import Config, LinearConfig
from mha_cli.errors import MhaError, shown_path
from mha_cli.linear.one_vs_rest import LinearModel
from mha_cli.preparation.prepare import PreparedData, prepare
from mha_cli.runs import ANSWERS, METRICS
from mha_cli.sources.opening import with_columns
from mha_cli.system.callbacks import SILENT, Callbacks, EpochRecord
from mha_cli.system.tensorflow_setup import graphs_let_go
from mha_cli.system.whole_files import atomic_replace
from mha_cli.training.before_encoder import fit_before_encoder
from mha_cli.training.distribution import Distribution
from mha_cli.training.memory_estimate import refuse_what_does_not_fit
from mha_cli.training.progress import Progress
from mha_cli.training.run import fit, train
from mha_cli.training.run_files import TrainingSummary, fingerprint
from mha_cli.training.trainer import Trainer
from mha_cli.training.validation import Validation
from mha_cli.tuning.space import Space, own_values, settings_of, size_of, values_of, with_settings
from mha_cli.tuning.study import QUARTERS, Study, Trial

BEST = "best.yaml"

KEPT_LINEAR = 3  # linear models that are kept for further trials: a table may have a hundred megabytes
FIRST_AT_RANDOM = 6  # random trials before earlier results choose the next one
LEAST_TRIALS = 10  # trials that the importance of settings needs


@dataclass(frozen=True)
class TuningSummary:
    """How a search ended."""

    config: Path  # file of the best settings
    recipe: Trial  # first trial, which is the recipe as it is
    best: Trial  # trial of the lowest validation loss
    standard_error: float  # standard error of its accuracy, from the number of texts
    num_validation: int  # texts that trials were judged by
    seconds: float  # time of all trials
    importance: dict[str, float]  # each setting's share of the differences between trials, the largest first; empty for few trials
    trials: list[Trial]
    training: TrainingSummary | None  # None if no trial beat the recipe, or they were trained before


def tune(config: Config, study: Study, space: Space, data: PreparedData, callbacks: Callbacks = SILENT) -> TuningSummary:
    """Search until the study's budget is spent, then train the best settings in its run directory if they beat the recipe.

    Args:
        study: trials so far; the first trial is trained to its end in any case.
        data: texts for the trials, by ``trial_config``.

    Raises:
        KeyboardInterrupt: the callbacks asked to stop; finished trials, and the state of the last training, are kept.
    """
    output, config = study.output, config.model_copy(update={"data": with_columns(config.data)})
    study.refuse_other_texts(fingerprint(data.config, data).hex())
    _search(config, study, _chooser(study, space, config.seed), space, data, callbacks)
    best, training = study.best, None
    tuned = _keep(config, best, output)
    if study.has_gained and not (output / METRICS).is_file():
        callbacks.note(f"training with the settings of trial {best.number}, as mha train does")
        again = prepare(tuned, dataclasses.replace(callbacks, note=lambda _: None))
        training = train(again.config, output, callbacks, again)
    assert best.accuracy is not None
    return TuningSummary(
        config=output / BEST,
        recipe=study.complete[0],
        best=best,
        standard_error=math.sqrt(best.accuracy * (1.0 - best.accuracy) / len(data.validation)),
        num_validation=len(data.validation),
        seconds=sum(trial.seconds for trial in study.trials),
        importance=_importance(study.trials, space, config.seed),
        trials=study.trials,
        training=training,
    )


def _chooser(study: Study, space: Space, seed: int) -> optuna.Study:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    # Every call has a seed of its own: the same numbers again would draw the same trials again.
    chooser = optuna.create_study(
        sampler=optuna.samplers.TPESampler(seed=seed + len(study.trials), n_startup_trials=FIRST_AT_RANDOM),
        pruner=optuna.pruners.MedianPruner(n_startup_trials=3, n_warmup_steps=QUARTERS // 2),
    )
    try:
        chooser.add_trials([_frozen(trial, space, None if trial.stopped else trial.loss) for trial in study.trials])
    except (LookupError, OverflowError, TypeError, ValueError):
        raise MhaError(f"{shown_path(study.output)}: its trials are of another search", "choose another folder") from None
    return chooser


def _frozen(trial: Trial, space: Space, value: float | None) -> optuna.trial.FrozenTrial:
    return optuna.trial.create_trial(
        state=TrialState.PRUNED if value is None else TrialState.COMPLETE,
        value=value,
        params=values_of(space, trial.settings),
        distributions=space,
        intermediate_values=trial.reached,
    )


def _search(config: Config, study: Study, chooser: optuna.Study, space: Space, data: PreparedData, callbacks: Callbacks) -> None:
    @lru_cache(KEPT_LINEAR)
    def linear_of(settings: str | None, class_weights: str) -> tuple[PreparedData, LinearModel | None]:
        """The data to learn from and the linear model, fitted once for all trials that do not differ in its settings."""
        linear = None if settings is None else LinearConfig.model_validate_json(settings)
        fitted = data.config.changed(training={"class_weights": class_weights}).model_copy(update={"linear": linear})
        return fit_before_encoder(fitted, data, study.output / ANSWERS.name, callbacks, Distribution())[:2]

    while study.seconds_left or not study.complete:
        is_first, number = not study.complete, len(study.trials)
        if is_first:
            chooser.enqueue_trial(own_values(space, data.config))
        trial, left = chooser.ask(space), study.seconds_left
        settings = settings_of(trial.params)
        if not study.is_new(settings, size_of(space)) and not is_first:
            chooser.tell(trial, state=TrialState.FAIL)
            continue
        callbacks.log(f"trial {number}, {left / 60:.1f} minutes left")
        begun, end = time.perf_counter(), math.inf if is_first else time.monotonic() + left
        stopped, record, reached = True, None, dict[int, float]()
        try:
            with graphs_let_go():
                tried = with_settings(data.config, settings, "these settings")
                refuse_what_does_not_fit(tried, data)
                to_learn, linear = linear_of(tried.linear and tried.linear.model_dump_json(), tried.training.class_weights)
                record, stopped = _try(trial, end, Trainer(tried, to_learn), Validation(tried, data, linear), callbacks, reached)
        except MhaError as error:
            if is_first:
                raise
            callbacks.note(f"trial {number}: {error.message}")
        loss, accuracy = (None, None) if record is None else (record.validation_loss, record.validation_accuracy)
        done = Trial(number, stopped, loss, accuracy, time.perf_counter() - begun, settings, reached)
        study.add(done)
        chooser.tell(trial, None if stopped else loss, TrialState.PRUNED if stopped else TrialState.COMPLETE)
        best = study.best
        if best is done:
            _keep(config, best, study.output)
        if record is not None:
            others = "" if best is done else f"; best so far: trial {best.number}, {best.loss:.4f}, {best.accuracy:.2%}"
            callbacks.note(f"{done}{others}")


def _try(
    trial: optuna.Trial, end: float, trainer: Trainer, validation: Validation, callbacks: Callbacks, reached: dict[int, float]
) -> tuple[EpochRecord, bool]:
    """Train a trial; the epoch that it keeps, or the last one, and whether it was stopped before its ``end``, by ``time.monotonic``.

    ``reached`` takes the validation loss after each quarter of the epochs.
    """
    kept = record = None
    quarter, epochs = 0, trainer.config.training.epochs
    for record, _ in fit(trainer, validation.score, Progress(trainer), callbacks.after_step):
        kept = record if record.best else kept
        if (now := QUARTERS * record.epoch // epochs) > quarter:
            quarter = now
            reached[quarter] = record.validation_loss
            trial.report(record.validation_loss, quarter)
            if quarter < QUARTERS and trial.should_prune():
                return record, True
        if time.monotonic() > end and record.epoch < epochs:
            return record, True
    assert kept is not None
    return kept, False


def _keep(config: Config, best: Trial, output: Path) -> Config:
    tuned = with_settings(config, best.settings, f"trial {best.number}")
    with atomic_replace(output / BEST) as file:
        file.write(config_to_yaml(tuned).encode())
    return tuned


def _importance(trials: Sequence[Trial], space: Space, seed: int) -> dict[str, float]:
    """How much of the variance between trials each setting explains; those stopped early count with the loss that they had reached.

    Source: Hutter et al. 2014, "An Efficient Approach for Assessing Hyperparameter Importance" (functional ANOVA).
    """
    found = [_frozen(trial, space, trial.loss) for trial in trials if trial.loss is not None]
    if len(found) < LEAST_TRIALS:
        return {}
    reached = optuna.create_study()
    reached.add_trials(found)
    evaluator = optuna.importance.FanovaImportanceEvaluator(seed=seed)
    try:
        return {name: float(share) for name, share in optuna.importance.get_param_importances(reached, evaluator=evaluator).items()}
    except RuntimeError:  # all trials came to the same
        return {}
