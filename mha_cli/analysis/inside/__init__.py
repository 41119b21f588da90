"""Analysis with the Keras model: importance of heads, and gradients. Importing this package imports TensorFlow, quietly."""

from mha_cli.system import tensorflow_setup

tensorflow_setup.import_tensorflow()
