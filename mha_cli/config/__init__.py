"""Settings of a run: what they are, how they are read, and which weights they imply."""
