"""N-gram scores of a text: a linear model beside the encoder, fitted before it. Importing this package imports TensorFlow, quietly."""

from mha_cli.system import tensorflow_setup

tensorflow_setup.import_tensorflow()
