"""Settings of a run, the reading of them, and the weights that they imply."""
