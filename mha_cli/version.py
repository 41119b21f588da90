"""The version of mha."""

__version__ = "0.1.0"
