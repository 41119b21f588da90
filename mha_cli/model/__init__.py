"""The classifier as a Keras model, and what it answers. Importing this package imports TensorFlow, quietly."""

from mha_cli.system import tensorflow_setup

tensorflow_setup.import_tensorflow()
