"""A training in NumPy: what happens around the steps of an encoder is tested with it."""

from collections.abc import Callable
from typing import Any

import numpy as np

from mha_cli.config.parameters import num_outputs, parameter_table
from mha_cli.config.settings import Config, FilesData, ModelConfig, TextConfig, TrainingConfig
from mha_cli.corpus.encoded_texts import EncodedTexts
from mha_cli.preparation.prepare import PreparedData
from mha_cli.runtime import forward
from mha_cli.text.vocabulary import Vocabulary
from mha_cli.training import run, validation
from mha_cli.training.distribution import Distribution
from mha_cli.training.learner import Learner, targets_of
from tests.reviews import encoded

MOMENTUM, DROPOUT = 0.9, 0.2
WORDS = ("film", "plot", "cast", "scene", "it", "fine", "dull")
NUM_TRAIN, NUM_VALIDATION, NUM_UNLABELLED = 56, 20, 37
EPOCHS, STEPS = 3, 4  # steps of an epoch, in batches of 16


class NumpyTrainer(Learner):
    """Logistic regression on the features of a random encoder, which stays as it is; the methods are those of ``Trainer``."""

    def __init__(self, config: Config, data: PreparedData, distribution: Distribution | None = None) -> None:
        super().__init__(config, data, (distribution or Distribution()).worker_slice)
        rng = np.random.default_rng(config.seed)
        self._encoder = {
            parameter.path: rng.normal(parameter.path.endswith("gamma"), 1.0 if "token" in parameter.path else 0.1, parameter.shape).astype(
                "f4"
            )
            for parameter in parameter_table(config, len(data.vocabulary), len(data.class_names))
            if parameter.path.startswith(("embedding/", "encoder_"))
        }
        units = num_outputs(len(data.class_names), config.is_multi_label)
        self._layer = np.zeros((config.model.embed_dim + 1, units), np.float32)  # the bias stands last
        self._velocity = np.zeros_like(self._layer)
        self._random_state = np.array(0)

    def step(self, rows: np.ndarray, tokens: np.ndarray) -> tuple[float, int]:
        features = self._features(tokens)
        features *= np.random.default_rng(int(self._random_state)).random(features.shape) > DROPOUT
        self._random_state = self._random_state + 1
        probabilities = forward.ForwardPass(self.weights(), self.config).classify(features)
        targets = targets_of(self.data, rows)
        errors = (probabilities - targets)[:, -self._layer.shape[1] :]
        gradient = np.concatenate([features, np.ones((len(rows), 1), np.float32)], axis=1).T @ errors / len(rows)
        self._velocity = MOMENTUM * self._velocity + gradient
        self._layer = self._layer - self.config.training.learning_rate * self._velocity
        losses = -(targets * np.log(np.maximum(probabilities, 1e-7))).sum(axis=1)
        return float(losses.sum()), int((probabilities.argmax(axis=1) == targets.argmax(axis=1)).sum())

    def arrays(self) -> list[np.ndarray]:
        return [self._layer, self._velocity, self._random_state]

    def set_arrays(self, arrays: list[np.ndarray]) -> None:
        self._layer, self._velocity, self._random_state = arrays

    def weights(self) -> dict[str, np.ndarray]:
        return {**self._encoder, "classifier/kernel": self._layer[:-1], "classifier/bias": self._layer[-1]}

    def logits(self, texts: EncodedTexts) -> np.ndarray:
        return self._features(texts.padded(np.arange(len(texts)))) @ self._layer[:-1] + self._layer[-1]

    def with_validation(self) -> "NumpyTrainer":
        return NumpyTrainer(self.config, self.data.with_validation())

    def _features(self, tokens: np.ndarray) -> np.ndarray:
        encoder = forward.ForwardPass(self._encoder, self.config)
        return encoder.pooled(encoder.embed(tokens), forward.ids_of(tokens) != 0)


def in_numpy(patch: Any) -> None:
    """Let ``run.train`` train in NumPy; ``patch`` sets an attribute of a module."""
    patch(run, "Trainer", NumpyTrainer)
    built: list[str] = []  # once for all runs: their models have one architecture

    def keras_config(model: Callable[[], Any]) -> str:
        return built[0]

    built.append(validation.keras_config(validation.build_classifier(numpy_config(), 2 + len(WORDS), 2)))
    patch(validation, "build_classifier", lambda *_: None)
    patch(validation, "keras_config", keras_config)


def numpy_config(**training: Any) -> Config:
    """Three epochs."""
    settings = {"epochs": EPOCHS, "batch_size": 16, "learning_rate": 0.05, "word_dropout": 0.2} | training
    return Config(
        seed=3,
        data=FilesData(source="files", train="never-read.csv", unlabelled="never-read.txt"),
        text=TextConfig(vocabulary_size=50, sequence_length=11),
        model=ModelConfig(embed_dim=12, num_heads=2, feed_forward_dim=7),
        training=TrainingConfig.model_validate(settings),
    )


def numpy_data() -> PreparedData:
    """Texts of one to nine words, whose last one mostly says the class."""
    rng = np.random.default_rng(0)

    def part(number: int) -> EncodedTexts:
        labels = rng.integers(0, 2, number)
        said = np.where(rng.random(number) < 0.2, 1 - labels, labels)  # what misleads now and then
        return encoded([[*rng.integers(2, 7, rng.integers(1, 9)).tolist(), 7 + int(label)] for label in said], labels.tolist())

    train = part(NUM_TRAIN)
    return PreparedData(
        numpy_config(),
        train,
        part(NUM_VALIDATION),
        Vocabulary(WORDS),
        ("neg", "pos"),
        unlabelled=part(NUM_UNLABELLED),
    )
