"""A training, to read from top to bottom: the linear model, then the encoder in epochs of steps; the best epoch is kept."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from mha_cli.config.settings import Config
from mha_cli.preparation.prepare import PreparedData, prepare
from mha_cli.runs import ANSWERS, FEATURES, RunDirectory
from mha_cli.system.callbacks import SILENT, Callbacks, EpochRecord, StepProgress
from mha_cli.training.before_encoder import fit_before_encoder
from mha_cli.training.distribution import distributed
from mha_cli.training.frozen import FrozenEncoder
from mha_cli.training.learner import Learner
from mha_cli.training.memory_estimate import refuse_what_does_not_fit
from mha_cli.training.progress import Progress
from mha_cli.training.run_files import RunFiles, TrainingSummary
from mha_cli.training.trainable_blocks import decide_trainable_blocks
from mha_cli.training.trainer import Trainer
from mha_cli.training.validation import Score, Validation


def train(config: Config, output: RunDirectory, callbacks: Callbacks = SILENT, data: PreparedData | None = None) -> TrainingSummary:
    """Train a classifier in its run directory, or resume an interrupted run, which ends with the same weights as an uninterrupted one.

    Args:
        config: settings of the run; with ``data``, those that the data decided.
        output: run directory, from ``run_directory``.
        data: texts from ``prepare``; None to read them here, as several workers must, once TensorFlow knows the workers.

    Raises:
        KeyboardInterrupt: the callbacks asked to stop.
    """
    with distributed(config.training.distribution, callbacks) as distribution:
        callbacks = distribution.watched(callbacks)
        texts = decide_trainable_blocks(replace(data, config=config) if data else prepare(config, callbacks), callbacks)
        config = texts.config
        refuse_what_does_not_fit(config, texts, distribution.task.num_workers)
        if texts.are_guessed:
            # The accuracy of steps and epochs would be that of guesses about guesses.
            callbacks = replace(callbacks, on_step=lambda _: None, on_epoch=lambda _: None)
        files = RunFiles(output, distribution, callbacks)
        files.begin(config, texts)

        # Before the encoder: the last layer that fine-tuning starts from, and the linear model, which may teach the encoder.
        if texts.pretrained and not (config.is_frozen or texts.base):
            texts = texts.starting_from(distribution.from_chief(lambda: FrozenEncoder(config, texts, output / FEATURES, callbacks).start()))
        to_learn, linear, refitted, out_of_fold = fit_before_encoder(config, texts, output / ANSWERS, callbacks, distribution)

        # The encoder, epoch by epoch; after each, the validation part decides the weights of encoder and linear model.
        validation, warning = Validation(config, texts, linear, refitted, out_of_fold), ""
        callbacks.log("building the model")
        learner: Learner
        if config.is_frozen:
            learner = FrozenEncoder(config, to_learn, output / FEATURES, callbacks)
        else:
            learner = Trainer(config, to_learn, distribution)
        progress = files.resume(learner)
        for record, score in fit(learner, validation.score, progress, files.after_step):
            if record.best or config.training.monitor == "last":  # then every epoch, so that an interrupted run has a checkpoint
                files.keep(validation.checkpoint(learner.weights(), record, score))
                warning = score.warning
            files.after_epoch(record)

        # The encoder again, on all labelled texts, with the weights of encoder and linear model from above.
        if config.training.refits_encoder:
            score = validation.score(learner)  # again, since a resumed run may have no epoch left
            callbacks.log("training the encoder again, with the validation part")
            again = learner.with_validation()
            for _ in fit(again, lambda _: score, Progress(again), callbacks.after_step):
                pass
            files.keep(validation.checkpoint(again.weights(), progress.records[-1], score))

        if warning:
            callbacks.note(f"validation part: {warning}")
        return files.end(config, texts, to_learn, learner.precision)


def fit(
    learner: Learner, validate: Callable[[Learner], Score], progress: Progress, on_step: Callable[[StepProgress], None] = lambda _: None
) -> Iterator[tuple[EpochRecord, Score]]:
    """Train epoch by epoch until patience runs out, and yield each epoch's record and score before the next one changes the learner.

    Args:
        progress: steps and epochs of the learner so far, to which ``fit`` adds.
        on_step: function to call after each step.
    """
    for epoch in progress.epochs_left():
        for rows, tokens in progress.steps_left(epoch):
            loss_sum, num_correct = learner.step(rows, tokens)
            on_step(progress.after_step(loss_sum, num_correct, len(rows)))
        score = validate(learner)
        yield progress.after_epoch(score.loss, score.accuracy), score
