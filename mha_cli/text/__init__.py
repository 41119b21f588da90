"""Text to token ids. No TensorFlow."""
