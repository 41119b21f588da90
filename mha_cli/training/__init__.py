"""From a config to a checkpoint. Importing this package imports TensorFlow, quietly."""

from mha_cli.system import tensorflow_setup

tensorflow_setup.import_tensorflow()
