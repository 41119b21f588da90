"""Checks of layers' arguments, which raise a ValueError that names the argument, and base classes of layers."""

import inspect
from collections.abc import Sequence
from typing import Any

import keras


def check_sizes(**sizes: int | None) -> None:
    """Refuse a size below 1; None stands for a default."""
    for name, size in sizes.items():
        if size is not None and size < 1:
            raise ValueError(f"{name} is {size}; it must be at least 1")


def check_buckets(**sizes: int) -> None:
    """Refuse a hash table whose number of rows is not a power of two."""
    for name, size in sizes.items():
        if size < 1 or size & (size - 1):
            raise ValueError(f"{name} is {size}; it must be a power of two")


def check_shares(**shares: float) -> None:
    """Refuse a dropout rate outside [0, 1)."""
    for name, share in shares.items():
        if not 0.0 <= share < 1.0:
            raise ValueError(f"{name} is {share}; it must be at least 0 and below 1")


def check_choice(name: str, value: str, choices: Sequence[str]) -> None:
    """Refuse a value that is not among the choices."""
    if value not in choices:
        raise ValueError(f"{name} is {value!r}; choose from {', '.join(choices)}")


class Layer(keras.layers.Layer):
    """A Keras layer that has an attribute for every constructor argument, so that its config can be read from them."""

    def get_config(self) -> dict[str, Any]:
        """Every constructor argument."""
        constructors = (cls.__init__ for cls in type(self).__mro__ if issubclass(cls, Layer) and "__init__" in vars(cls))
        names = dict.fromkeys(name for constructor in constructors for name in inspect.signature(constructor).parameters)
        return {**super().get_config(), **{name: getattr(self, name) for name in names if name not in ("self", "kwargs")}}


def check_inputs(layer: Any, **inputs: Any) -> None:
    """Refuse a ``query``, ``value`` or ``key`` that does not fit an attention layer's kernels, or another input."""
    for name, x in inputs.items():
        width = getattr(layer, f"{name}_kernel").shape[0]
        if len(x.shape) != 3 or x.shape[-1] not in (None, width):
            raise ValueError(f"{name} has shape {tuple(x.shape)}; it takes (batch, length, {width})")
    for first, second, axis, unit in (("query", "value", 0, "entries"), ("value", "key", 0, "entries"), ("value", "key", 1, "positions")):
        sizes = inputs[first].shape[axis], inputs[second].shape[axis]
        if sizes[0] != sizes[1] and None not in sizes:
            raise ValueError(f"{first} has {sizes[0]} {unit} and {second} has {sizes[1]}; both need the same number")


class AttentionLayer(Layer):
    """The projections of an attention layer, and its output shapes, from ``num_heads``, and ``output_dim`` or the width of the query."""

    num_heads: int
    output_dim: int | None
    use_bias: bool

    def add_projection(self, name: str, kernel_shape: tuple[int, ...], bias_shape: tuple[int, ...]) -> tuple[Any, Any]:
        """A kernel and its bias, which is None without ``use_bias``."""
        kernel = self.add_weight(name=f"{name}_kernel", shape=kernel_shape, initializer="glorot_uniform")
        return kernel, self.add_weight(name=f"{name}_bias", shape=bias_shape, initializer="zeros") if self.use_bias else None

    def compute_output_shape(self, query_shape: Any, value_shape: Any = None, key_shape: Any = None) -> tuple[Any, ...]:
        """(B, L, O)."""
        return (*query_shape[:-1], self.output_dim or query_shape[-1])

    def compute_output_spec(self, query: Any, value: Any = None, key: Any = None, return_attention_scores: bool = False, **_: Any) -> Any:
        """Shapes of a symbolic call: (B, L, O), and the weights (B, H, L, M) on request."""
        output = keras.KerasTensor(self.compute_output_shape(query.shape), dtype=self.compute_dtype)
        if not return_attention_scores:
            return output
        keys = next(tensor for tensor in (key, value, query) if tensor is not None)
        return output, keras.KerasTensor((query.shape[0], self.num_heads, query.shape[1], keys.shape[1]), dtype=self.compute_dtype)
