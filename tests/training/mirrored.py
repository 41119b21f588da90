"""One training on one device and on two of one process, which is a program of its own: TensorFlow takes its devices when it starts.

``python -m tests.training.mirrored FORM…`` exits with 0 if both give the same.
"""

import sys
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf

from mha_cli.config.loading import config_from_dict
from mha_cli.config.settings import Config
from mha_cli.model.classifier import build_classifier
from mha_cli.preparation.prepare import prepare
from mha_cli.training import optimizers, trainer
from mha_cli.training.distribution import distributed
from mha_cli.training.optimizers import build_optimizer
from mha_cli.training.trainer import Trainer


def config() -> Config:
    """Everything in which a sum over devices could go wrong: a limit of the norm, tables, a batch size that is odd."""
    settings: dict[str, dict[str, Any]] = {
        "data": {"source": "sample", "num_texts": 200},
        "text": {"vocabulary_size": 300, "sequence_length": 24, "subword_characters": 8},
        "model": {
            "embed_dim": 6,
            "num_heads": 2,
            "key_dim": 6,
            "feed_forward_dim": 5,
            "dropout": 0.0,
        },
        "training": {"batch_size": 7, "learning_rate": 0.01},
    }
    settings["model"] |= {"max_ngram": 2, "ngram_buckets": 32, "subword_buckets": 32}
    return config_from_dict(settings, "test")


def compare(implementation: str) -> None:
    settings = config()
    trainer.build_classifier = partial(build_classifier, attention=implementation)
    trainer.build_optimizer = lambda settings, rate, is_pretrained: build_optimizer(settings, rate, is_pretrained=True)
    optimizers.MOST_NORM = 0.05
    data = prepare(settings)
    with distributed("mirrored") as mirrored:
        assert mirrored.num_replicas == 2
        one, two = Trainer(settings, data), Trainer(settings, data, mirrored)
        batches = list(one.steps(1, one.batches(1)))
        (_, last) = batches[-1]
        steps = [*batches[:3], (batches[0][0][:1], last[:1])]  # the last leaves one device without a text
        for rows, tokens in steps:
            for found, expected in zip(two.step(rows, tokens), one.step(rows, tokens), strict=True):
                np.testing.assert_allclose(found, expected, rtol=1e-5)
        for found, expected in zip(two.arrays(), one.arrays(), strict=True):
            np.testing.assert_allclose(found.astype(np.float64), expected.astype(np.float64), atol=1e-5)


if __name__ == "__main__":
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    for implementation in sys.argv[1:]:
        compare(implementation)
