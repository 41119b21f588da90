"""A checkpoint in the formats of other programs. What needs TensorFlow is imported inside functions."""
