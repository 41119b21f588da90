"""Of a model what its Keras form alone tells: what heads are worth, and gradients. Importing this package imports TensorFlow, quietly."""

from mha_cli.system import tensorflow_setup

tensorflow_setup.import_tensorflow()
