"""Labelled texts in figures, and a config for them."""
