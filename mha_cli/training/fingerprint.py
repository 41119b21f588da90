"""Digests of what a training depends on."""

import hashlib
import json
from itertools import chain

import numpy as np

from mha_cli.config.settings import Config
from mha_cli.data.preparation import PreparedData
from mha_cli.training.distribution import digest_of
from mha_cli.training.precision import choose_precision
from mha_cli.version import __version__


def fingerprint(config: Config, data: PreparedData) -> bytes:
    """A digest that differs where settings, texts, labels or mha do; where the texts lie does not count."""
    settings = __version__, choose_precision(config), config.model_dump_json(exclude={"data"})
    return hashlib.sha256(json.dumps(settings).encode() + texts_digest(data)).digest()


def texts_digest(data: PreparedData) -> bytes:
    """A digest that differs where words, texts, labels, weights or their parts do."""
    names = json.dumps([data.class_names, data.vocabulary.tokens]).encode()
    parts = [data.train, data.validation, *([] if data.unlabelled is None else [data.unlabelled])]
    return digest_of(chain([np.frombuffer(names, np.uint8)], *(part.arrays() for part in parts)))
