"""A text classifier whose multi-head attention is written from scratch."""

__version__ = "0.1.0"
