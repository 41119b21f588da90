"""A text classifier whose multi-head attention is written from scratch.

What is named here is the whole of mha in Python, and stays; docs/python.md shows it at work. It is imported when it is first asked for, so
that ``import mha_cli`` takes no time and answers come without TensorFlow.
"""

from typing import TYPE_CHECKING, Any

from mha_cli.version import __version__

if TYPE_CHECKING:
    from mha_cli.errors import MhaError
    from mha_cli.python.api import evaluate, load, next_texts, train
    from mha_cli.python.estimator import MHAClassifier
    from mha_cli.runtime.classifier import Classifier, Prediction

__all__ = ["Classifier", "MHAClassifier", "MhaError", "Prediction", "__version__", "evaluate", "load", "next_texts", "train"]

_MODULES = {
    "Classifier": "runtime.classifier",
    "MHAClassifier": "python.estimator",
    "MhaError": "errors",
    "Prediction": "runtime.classifier",
    "evaluate": "python.api",
    "load": "python.api",
    "next_texts": "python.api",
    "train": "python.api",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'mha_cli' has no attribute '{name}'")
    from importlib import import_module

    found = getattr(import_module(f"mha_cli.{_MODULES[name]}"), name)
    globals()[name] = found  # so that the next time it is found at once
    return found


def __dir__() -> list[str]:
    return __all__
