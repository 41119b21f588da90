"""Experiments: functions that take a config and return a dataclass. Importing this package imports TensorFlow, quietly."""

from mha_cli import tensorflow_setup

tensorflow_setup.import_tensorflow()
