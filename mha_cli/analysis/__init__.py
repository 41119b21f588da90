"""What a trained model is worth, and why: functions from a checkpoint to a dataclass. Importing it imports TensorFlow, quietly."""

from mha_cli.system import tensorflow_setup

tensorflow_setup.import_tensorflow()
