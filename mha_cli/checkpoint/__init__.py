"""A trained model in one file, and where such files lie."""
