"""Labelled texts: where they come from, and what their labels are."""
