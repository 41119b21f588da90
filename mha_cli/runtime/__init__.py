"""The classifier's forward pass in NumPy, for every command that must answer at once. No TensorFlow, no Keras."""
