"""TensorFlow starts quietly, under Keras, whatever the environment says."""

import gc
import os
import subprocess
import sys
import weakref
from contextlib import nullcontext
from pathlib import Path

import pytest

from mha_cli.system.tensorflow_setup import graphs_let_go, native_stderr_held_back

PRINT_SETTINGS_AND_TRACE = """
import mha_cli.report.contents, gc, keras, os
from keras import config
assert gc.isenabled() and not gc.get_freeze_count()  # a program's own objects are looked through
print(keras.backend.backend(), config.floatx(), config.epsilon(), config.image_data_format(), os.environ.get("KERAS_HOME"))
from mha_cli.model.outputs import compile_forward
for _ in range(8):  # a shuffle test of many checkpoints
    compile_forward(lambda token_ids, training: token_ids, (None,))([[2]])
"""
HOSTILE = '{"backend": "nonsense", "floatx": "float16", "image_data_format": "channels_first", "epsilon": 0.5}'


@pytest.mark.process
def test_importing_is_silent_and_leaves_keras_settings_alone(tmp_path: Path) -> None:
    (tmp_path / "keras.json").write_text(HOSTILE)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("TF_", "KERAS_"))}
    environment |= {"KERAS_BACKEND": "jax", "KERAS_HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", PRINT_SETTINGS_AND_TRACE], env=environment, capture_output=True, text=True, check=False)
    assert (done.stderr, done.stdout, done.returncode) == ("", f"tensorflow float32 1e-07 channels_last {tmp_path}\n", 0)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"keras.json": HOSTILE}


@pytest.mark.process
def test_a_command_does_not_look_through_what_it_has_imported() -> None:
    start = "import gc, sys; sys.argv = ['mha', '--version']; from mha_cli.cli.app import main\ntry: main()\nexcept SystemExit: pass"
    code = f"{start}\nimport mha_cli.report.contents; assert gc.isenabled() and gc.get_freeze_count() > 100_000"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


@pytest.mark.parametrize("debug", ["1", "0"])
def test_what_native_code_writes_before_it_fails_is_shown_to_who_asks(
    debug: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MHA_DEBUG", debug)
    with native_stderr_held_back():
        os.write(2, b"chatter\n")
    with pytest.raises(ImportError, match="no such library"), native_stderr_held_back():
        os.write(2, b"what went wrong\n")
        raise ImportError("no such library")
    os.write(2, b"afterwards\n")
    assert capfd.readouterr().err == ("what went wrong\n" if debug == "1" else "") + "afterwards\n"


def test_a_closed_stderr_is_no_obstacle(monkeypatch: pytest.MonkeyPatch) -> None:
    def closed(_: int) -> int:
        raise OSError(9, "Bad file descriptor")

    monkeypatch.setattr(os, "dup", closed)
    with native_stderr_held_back():
        pass


@pytest.mark.parametrize(("block", "kept"), [(nullcontext, True), (graphs_let_go, False)])
def test_graphs_with_gradients_of_their_own_are_let_go(block: type, kept: bool) -> None:
    """Without it, TensorFlow keeps them; should that change, it is of no more use."""
    import tensorflow as tf

    @tf.custom_gradient
    def square(x: tf.Tensor) -> tuple[tf.Tensor, object]:
        return x * x, lambda upstream: 2.0 * x * upstream

    def traced() -> tuple[tf.Tensor, weakref.ref[tf.Graph]]:
        graphs: list[weakref.ref[tf.Graph]] = []

        @tf.function(autograph=False)
        def nine() -> tf.Tensor:
            graphs.append(weakref.ref(tf.compat.v1.get_default_graph()))
            return square(variable)

        variable = tf.Variable(3.0)
        with tf.GradientTape() as tape:
            value = nine()
        return tape.gradient(value, variable), graphs[0]

    with block():
        gradient, graph = traced()
    gc.collect()
    assert gradient == 6.0
    assert (graph() is not None) == kept
    assert traced()[0] == 6.0
