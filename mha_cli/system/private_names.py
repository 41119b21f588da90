"""What no public name of TensorFlow, Keras and TFDS gives; a test says in which versions these names are there.

The test covers Typer in ``cli/command.py`` and uvicorn in ``serve/server.py`` as well, which are used below their documentation.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


def gradient_registry() -> dict[str, Any]:
    """TensorFlow's gradients by name; it keeps for ever the graph that a custom gradient was traced in."""
    from tensorflow.python.framework import ops

    registry: dict[str, Any] = ops.gradient_registry._registry
    return registry


def layers_at_any_depth(model: Any) -> list[Any]:
    """The layers of a Keras model, and the layers inside them."""
    return list(model._flatten_layers())


@contextmanager
def only_features_of_tfds() -> Iterator[None]:
    """Refuse a data set's folder that names other features than TFDS's own: to find one, TFDS would import whatever module it names."""
    import tensorflow_datasets as tfds

    connector = tfds.features.FeatureConnector
    before = vars(connector)["cls_from_name"]

    def cls_from_name(_: Any, name: str) -> Any:
        if not name.startswith("tensorflow_datasets."):
            raise ValueError(f"its features.json names {name}, which is none of TFDS's features")
        return before.__get__(None, connector)(name)

    connector.cls_from_name = classmethod(cls_from_name)
    try:
        yield
    finally:
        connector.cls_from_name = before
