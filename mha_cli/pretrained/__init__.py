"""Encoders that others have trained, read as data into our own layers."""
