"""Computes what test_backends.py compares, under the backend that KERAS_BACKEND names: ``python backend_run.py GIVEN.npz RESULTS.npz``.

Needs neither TensorFlow nor pytest. A case is plain values: a layer as Keras writes it down, or the config of a classifier, and what to
call it with.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import keras
import numpy as np

from mha_cli.config.loading import config_from_dict
from mha_cli.layers import blockwise_attention, scaled_dot_product_attention
from mha_cli.model.classifier import build_classifier

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

LABELS = np.array([[1.0], [0.0], [1.0]], np.float32)


def make(case: Mapping[str, Any]) -> Any:
    """The layer or the classifier of a case."""
    if "layer" in case:
        return keras.saving.deserialize_keras_object(case["layer"])
    return build_classifier(config_from_dict(case["config"], "test"), case["vocabulary_size"], case["num_classes"])


def results_of(case: Mapping[str, Any], inputs: Mapping[str, np.ndarray], weights: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
    """What comes out of a case; for a classifier to train also its weights after one step of plain gradient descent."""
    layer = make(case)

    def call(**arguments: Any) -> Any:
        tensors = {name: keras.ops.convert_to_tensor(value) for name, value in inputs.items()}
        return layer(**tensors, **arguments) if "layer" in case else layer(*tensors.values())

    call()
    layer.set_weights(weights)
    outputs = call(**case.get("call", {}))
    results = {f"output_{number}": keras.ops.convert_to_numpy(x) for number, x in enumerate(keras.tree.flatten(outputs))}
    if case.get("train"):
        layer.compile(optimizer=keras.optimizers.SGD(0.1), loss="binary_crossentropy", run_eagerly=keras.backend.backend() != "jax")
        layer.train_on_batch(inputs["token_ids"], LABELS)
        results |= {f"trained_{weight.path}": keras.ops.convert_to_numpy(weight) for weight in layer.trainable_variables}
    return results


def blockwise_dropout() -> np.ndarray:
    """Which attention weights two calls one after the other drop, by call and block of five queries, (2, 2, 5, 7)."""
    q, k, units = (
        keras.ops.convert_to_tensor(x, "float32") for x in (np.ones((1, 1, 10, 3)), np.ones((1, 1, 7, 3)), np.eye(7)[None, None])
    )
    seeds = keras.random.SeedGenerator(3)
    calls = [blockwise_attention(q, k, units, None, 0.5, seeds.next(), 5) for _ in range(2)]
    return np.stack([keras.ops.convert_to_numpy(weights).reshape(2, 5, 7) == 0 for weights in calls])


def second_derivatives() -> dict[str, np.ndarray]:
    """Of a sum of squares, the product of its Hessian with numbers, for every function with a gradient of its own."""
    rng, tensor = np.random.default_rng(3), keras.ops.convert_to_tensor
    mask = tensor(np.tri(7, 5, k=-1, dtype=bool)[None, None])  # the first query looks nowhere
    attention = [(2, 3, 7, 5), (2, 3, 5, 5), (2, 3, 5, 2)]
    cases: dict[str, Any] = {
        "plain": (lambda *x: scaled_dot_product_attention(*x, mask)[0], attention),
        "blockwise": (lambda *x: blockwise_attention(*x, mask, block_length=3), attention),
    }
    products = {}
    for name, (function, shapes) in cases.items():
        inputs, directions = ([tensor(rng.normal(size=shape), "float32") for shape in shapes] for _ in range(2))
        gradients = gradients_of(lambda *x, function=function: keras.ops.sum(function(*x) ** 2))
        along = lambda *x: sum(keras.ops.sum(g * d) for g, d in zip(gradients(*x), directions, strict=True))  # noqa: B023, E731
        found = gradients_of(along)(*inputs)
        products |= {f"hessian/{name}/{number}": keras.ops.convert_to_numpy(keras.ops.stop_gradient(x)) for number, x in enumerate(found)}
    return products


def gradients_of(function: Callable[..., Any]) -> Callable[..., Any]:
    """The backend's own derivative of a function of three arrays."""

    def gradients(*inputs: Any) -> Any:
        if keras.backend.backend() == "jax":
            import jax

            return jax.grad(function, argnums=(0, 1, 2))(*inputs)
        if keras.backend.backend() == "torch":
            import torch

            inputs = tuple(x if x.requires_grad else x.requires_grad_() for x in inputs)
            return torch.autograd.grad(function(*inputs), inputs, create_graph=True)
        import tensorflow as tf

        with tf.GradientTape() as tape:
            tape.watch(inputs)
            value = function(*inputs)
        return tape.gradient(value, inputs)

    return gradients


def part(arrays: Mapping[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    """The arrays whose names start with ``prefix``, without it."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def main() -> None:
    """Compute every case of the first file into the second."""
    with np.load(sys.argv[1]) as file:
        given = dict(file)
    results = {"backend": np.array(keras.backend.backend()), "dropout": blockwise_dropout(), **second_derivatives()}
    for name, case in json.loads(str(given["cases"])).items():
        own = results_of(case, part(given, f"{name}/input/"), list(part(given, f"{name}/weight/").values()))
        results |= {f"{name}/{result}": array for result, array in own.items()}
    np.savez(sys.argv[2], **results)


if __name__ == "__main__":
    main()
