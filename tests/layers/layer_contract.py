"""What every layer of the model has to honour, checked in one place."""

import inspect
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

Make = Callable[..., keras.Layer]

TOLERANCE = 1e-5


class MaskProbe(keras.layers.Layer):
    """Hands its input on and keeps the mask that came with it."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        self.seen: Any = None

    def call(self, inputs: Any, mask: Any = None) -> Any:
        self.seen = mask
        return inputs


class Masked(keras.layers.Layer):
    """Gives numbers (B, L, D) the mask of token ids (B, L), as an embedding would."""

    def call(self, inputs: Sequence[Any]) -> Any:
        return keras.ops.copy(inputs[0])

    def compute_mask(self, inputs: Sequence[Any], previous: Any = None) -> Any:
        return keras.ops.not_equal(inputs[1], 0)

    def compute_output_shape(self, input_shapes: Sequence[Any]) -> Any:
        return input_shapes[0]


def randomize(layer: keras.Layer, scale: float = 0.5) -> None:
    """Give every weight random values, biases, norms and what is not trained included."""
    rng = np.random.default_rng(0)
    for weight in layer.weights:
        weight.assign(rng.normal(0.0, scale, weight.shape))


def padding_masks(inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Bool (B, L) for each input: the first sequence is whole, every later one is padded to a different length."""
    return [np.arange(x.shape[1]) < (x.shape[1] - np.arange(len(x))[:, None]) for x in inputs]


def check_layer(
    layer_class: type[keras.Layer],
    arguments: dict[str, Any],
    inputs: Sequence[np.ndarray],
    output_shape: tuple[int, ...],
    folder: Path,
    *,
    keeps_mask: bool,
    at_default: Sequence[str] = (),
    weights_without_gradient: Sequence[str] = (),
) -> None:
    """Check the whole contract.

    Args:
        layer_class: what to check.
        arguments: a value for every constructor argument.
        inputs: what to call the layer with: float (B, L, D), or tokens (B, L) or (B, L, 1 + W).
        output_shape: what then comes out.
        folder: for the saved file.
        keeps_mask: whether the mask of the first input goes on to the next layer.
        at_default: the only arguments that may have their default value, which would hide that the config forgets them.
        weights_without_gradient: names of weights on which the output does not depend.
    """

    def make(**more: Any) -> keras.Layer:
        return layer_class(**arguments, **more)

    _check_config(layer_class, arguments, at_default)
    _check_save_and_load(make, inputs, folder)
    _check_shapes(make, inputs, output_shape)
    _check_training_step(make, inputs, weights_without_gradient)
    _check_mixed_precision(make, inputs)
    _check_mask(make, inputs, keeps_mask)


def _check_config(layer_class: type[keras.Layer], arguments: dict[str, Any], at_default: Sequence[str]) -> None:
    own = defaults_of(layer_class)
    assert set(arguments) == set(own)
    assert {name for name, default in own.items() if arguments[name] == default} == set(at_default)
    config = layer_class(**arguments, name="checked", dtype="mixed_bfloat16").get_config()
    assert {name: config[name] for name in arguments} == arguments
    again = layer_class.from_config(json.loads(json.dumps(config)))
    assert again.get_config() == config
    assert again.dtype_policy.name == "mixed_bfloat16"
    restored = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(layer_class(**arguments, name="checked")))
    assert type(restored) is layer_class
    assert {name: getattr(restored, name) for name in arguments} == arguments


def defaults_of(layer_class: type[keras.Layer]) -> dict[str, Any]:
    """Every constructor argument of the class and of its bases in this package, with its default."""
    bases = [base for base in reversed(layer_class.__mro__) if base.__module__.startswith("mha_cli.") and "__init__" in vars(base)]
    parameters = {name: one for base in bases for name, one in inspect.signature(vars(base)["__init__"]).parameters.items()}
    return {name: parameter.default for name, parameter in parameters.items() if name not in ("self", "kwargs")}


def _check_save_and_load(make: Make, inputs: Sequence[np.ndarray], folder: Path) -> None:
    symbolic = [_symbolic(x) for x in inputs]
    model = keras.Model(symbolic, make(name="checked")(*symbolic))
    randomize(model)
    model.save(folder / "model.keras")
    loaded = keras.models.load_model(folder / "model.keras")
    assert [weight.path for weight in loaded.weights] == [weight.path for weight in model.weights]
    np.testing.assert_array_equal(loaded(list(inputs)), model(list(inputs)))


def _check_shapes(make: Make, inputs: Sequence[np.ndarray], output_shape: tuple[int, ...]) -> None:
    layer = make()
    eager = layer(*inputs)
    assert tuple(eager.shape) == output_shape
    assert layer.compute_output_shape(*(x.shape for x in inputs)) == output_shape
    fixed = layer(*(keras.KerasTensor(x.shape, dtype=x.dtype.name) for x in inputs))
    assert tuple(fixed.shape) == output_shape
    assert fixed.dtype == keras.backend.standardize_dtype(eager.dtype)
    open_ended = layer(*(_symbolic(x) for x in inputs))
    assert tuple(open_ended.shape) == (*([None] * (len(output_shape) - 1)), output_shape[-1])

    signature = [tf.TensorSpec([None, None, *x.shape[2:]], x.dtype) for x in inputs]
    graph = tf.function(layer, input_signature=signature)(*inputs)
    np.testing.assert_allclose(graph, eager, atol=TOLERANCE, rtol=TOLERANCE)


def _check_training_step(make: Make, inputs: Sequence[np.ndarray], without_gradient: Sequence[str]) -> None:
    layer = make()
    layer(*inputs)
    randomize(layer)
    before = [np.array(weight) for weight in layer.trainable_variables]
    with tf.GradientTape() as tape:
        output = layer(*inputs, training=True) if "training" in inspect.signature(layer.call).parameters else layer(*inputs)
        target = np.random.default_rng(1).normal(size=output.shape)
        loss = tf.reduce_sum(tf.square(output - target))
    gradients = tape.gradient(loss, layer.trainable_variables)
    assert np.isfinite(loss)
    if not before:
        return
    keras.optimizers.SGD(0.01).apply(gradients, layer.trainable_variables)
    gradients = [np.array(tf.convert_to_tensor(gradient)) for gradient in gradients]  # that of an embedding comes as rows
    largest = max(np.abs(gradient).max() for gradient in gradients)
    for weight, old, gradient in zip(layer.trainable_variables, before, gradients, strict=True):
        if weight.name in without_gradient:
            assert np.abs(gradient).max() < 1e-5 * largest, weight.path
            continue
        assert np.isfinite(weight).all(), weight.path
        assert np.abs(np.array(weight) - old).max() > 1e-5, f"{weight.path} did not change"


def _check_mixed_precision(make: Make, inputs: Sequence[np.ndarray]) -> None:
    exact, mixed = make(), make(dtype="mixed_bfloat16")
    for layer in (exact, mixed):
        layer(*inputs)
        randomize(layer)
    expected, output = exact(*inputs), mixed(*inputs)
    assert output.dtype == tf.bfloat16
    assert all(weight.dtype == "float32" for weight in mixed.trainable_variables)
    output = np.array(tf.cast(output, "float32"))
    assert np.isfinite(output).all()
    np.testing.assert_allclose(output, expected, atol=0.05 * np.abs(expected).max())


def _check_mask(make: Make, inputs: Sequence[np.ndarray], keeps_mask: bool) -> None:
    """The mask arrives by itself, what it leaves out is not seen, and it goes on where it should; eagerly and in a model."""
    masks = padding_masks(inputs)
    takes_ids = inputs[0].dtype.kind == "i"
    layer, probe = make(), MaskProbe()
    layer(*inputs)
    randomize(layer)

    def run(token_ids: Sequence[Any], contents: Sequence[Any]) -> Any:
        if takes_ids:
            return probe(layer(*token_ids))
        return probe(layer(*(Masked()([content, ids]) for content, ids in zip(contents, token_ids, strict=True))))

    if takes_ids:
        token_ids = [np.where(mask.reshape(*mask.shape, *[1] * (x.ndim - 2)), x, 0) for x, mask in zip(inputs, masks, strict=True)]
    else:
        token_ids = [mask.astype(np.int32) for mask in masks]
    output = run([tf.constant(ids) for ids in token_ids], [tf.constant(x) for x in inputs])
    if keeps_mask:
        np.testing.assert_array_equal(probe.seen, masks[0])
    else:
        assert probe.seen is None
    symbolic_ids, symbolic_contents = [_symbolic(ids) for ids in token_ids], [_symbolic(x) for x in inputs]
    model = keras.Model([*symbolic_ids, *([] if takes_ids else symbolic_contents)], run(symbolic_ids, symbolic_contents))
    in_model = model([*token_ids, *([] if takes_ids else inputs)])
    assert (probe.seen is not None) == keeps_mask
    real = masks[0] if keeps_mask else slice(None)
    np.testing.assert_allclose(np.array(in_model)[real], np.array(output)[real], atol=TOLERANCE, rtol=TOLERANCE)
    if not takes_ids:
        disturbed = [np.where(mask[:, :, None], x, np.float32(100.0)) for x, mask in zip(inputs, masks, strict=True)]
        after = run([tf.constant(ids) for ids in token_ids], [tf.constant(x) for x in disturbed])
        np.testing.assert_allclose(np.array(after)[real], np.array(output)[real], atol=TOLERANCE, rtol=TOLERANCE)


def _symbolic(x: np.ndarray) -> Any:
    return keras.Input(shape=(None, *x.shape[2:]), dtype=x.dtype.name)
