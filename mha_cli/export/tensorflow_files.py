"""The classifier in TensorFlow's formats: a SavedModel folder, and a LiteRT file (.tflite) for phones and small devices."""

import json
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from mha_cli.checkpoint.file import Checkpoint
from mha_cli.config.loading import config_to_dict
from mha_cli.config.parameters import input_names
from mha_cli.errors import EXIT_FAILURE, MhaError, printable, reason_of
from mha_cli.system import tensorflow_setup
from mha_cli.version import __version__

EXTRA_FOLDER = "assets.extra"  # folder of a SavedModel for files that are not part of the graph


def companions(checkpoint: Checkpoint) -> dict[str, str]:
    """Files that a program needs besides the model, by name; see docs/export.md."""
    description = {"mha_version": __version__, "class_names": list(checkpoint.class_names), "config": config_to_dict(checkpoint.config)}
    return {
        "vocabulary.txt": "\n".join(checkpoint.vocabulary.tokens) + "\n",
        "labels.txt": "".join(f"{printable(name, 1000)}\n" for name in checkpoint.class_names),
        "mha.json": json.dumps(description, indent=1, ensure_ascii=False) + "\n",
        **({"tokenizer.json": checkpoint.tokenizer.decode()} if checkpoint.tokenizer is not None else {}),
    }


def write_saved_model(checkpoint: Checkpoint, path: Path) -> None:
    """Write a folder whose signature ``serving_default`` takes ``token_ids`` and gives ``probabilities``."""
    _write_graph(checkpoint, path)
    (path / EXTRA_FOLDER).mkdir()
    for name, text in companions(checkpoint).items():
        (path / EXTRA_FOLDER / name).write_text(text, encoding="utf-8")


def load_saved_model(path: Path) -> Any:
    """The folder in TensorFlow, as a function from inputs to probabilities."""
    import tensorflow as tf

    loaded = tf.saved_model.load(str(path))  # kept by the function: a signature alone does not keep the variables alive
    serve = loaded.signatures["serving_default"]
    return lambda inputs: serve(**{name: tf.constant(tokens) for name, tokens in inputs.items()})["probabilities"].numpy()


def write_litert(checkpoint: Checkpoint, path: Path) -> None:
    """Write a LiteRT file of built-in operators only, with the companions appended as a zip archive, like LiteRT's metadata."""
    with tensorflow_setup.native_stderr_held_back(), tempfile.TemporaryDirectory() as folder:
        _write_graph(checkpoint, Path(folder))
        import tensorflow as tf

        converter = tf.lite.TFLiteConverter.from_saved_model(folder, signature_keys=["serving_default"])
        try:
            content = converter.convert()
        except Exception as error:  # the converter raises what its stages raise
            message = f"--format litert: TensorFlow cannot convert this model: {reason_of(error)}"
            raise MhaError(message, exit_code=EXIT_FAILURE) from None
    path.write_bytes(content)
    with zipfile.ZipFile(path, "a") as archive:
        for name, text in companions(checkpoint).items():
            archive.writestr(zipfile.ZipInfo(name), text)  # without the time: the same model gives the same bytes


def load_litert(path: Path) -> Any:
    """The file in LiteRT's interpreter, as a function from inputs to probabilities."""
    with tensorflow_setup.native_stderr_held_back():
        from ai_edge_litert.interpreter import Interpreter

        interpreter = Interpreter(str(path))
        interpreter.allocate_tensors()  # prints how it computes

    serve = interpreter.get_signature_runner("serving_default")
    return lambda inputs: serve(**inputs)["probabilities"]


def _write_graph(checkpoint: Checkpoint, path: Path) -> None:
    """A SavedModel without the companions."""
    tensorflow_setup.import_tensorflow()
    with tensorflow_setup.native_stderr_held_back():
        import tensorflow as tf

        from mha_cli.model.classifier import to_model

        model = to_model(checkpoint, attention="fused")  # which has no branch: not every format can hold one
        names, has_one_unit = input_names(checkpoint.config), model.output_shape[-1] == 1

        def serve(**inputs: Any) -> dict[str, Any]:
            arrays = [inputs[name] for name in names]
            probabilities = model(arrays if len(arrays) > 1 else arrays[0], training=False)
            return {"probabilities": tf.concat([1.0 - probabilities, probabilities], axis=1) if has_one_unit else probabilities}

        module = tf.Module()  # Keras's ExportArchive writes every weight twice, as its variable and as TensorFlow's
        module.weights = [weight.value for weight in model.weights]
        specs = {name: tf.TensorSpec(tensor.shape, tf.int32, name=name) for name, tensor in zip(names, model.inputs, strict=True)}
        signature = tf.function(serve, autograph=False).get_concrete_function(**specs)
        tf.saved_model.save(module, str(path), signatures={"serving_default": signature})
