"""What has to be settled before TensorFlow starts, so that no user has to."""

import gc
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from mha_cli.system.private_names import gradient_registry

in_command = False  # True in a command, whose objects may stay until it ends; a Python program's may become garbage


def import_tensorflow() -> None:
    """Import TensorFlow and Keras on top of it, without their start-up chatter on stderr and with Keras's own settings.

    A ``keras.json`` in the home folder is neither read nor written: its ``floatx`` and ``epsilon`` would change results.
    """
    os.environ["KERAS_BACKEND"] = "tensorflow"
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    home, os.environ["KERAS_HOME"] = os.environ.get("KERAS_HOME"), f"{os.devnull}/keras"
    collects = gc.isenabled()
    gc.disable()  # nothing of all that is imported is garbage; to look for it, here and at the end, takes two seconds
    with native_stderr_held_back():
        try:
            import keras  # noqa: F401
        finally:
            del os.environ["KERAS_HOME"]
            os.environ.update({} if home is None else {"KERAS_HOME": home})
            if in_command:
                gc.freeze()
            if collects:
                gc.enable()
        import tensorflow as tf

        tf.config.list_physical_devices()  # the device search logs too
        tf.get_logger().setLevel("ERROR")  # it warns where several models are traced, which is meant here


def set_seed(seed: int) -> None:
    """Seed every source of chance and make TensorFlow's kernels reproducible: same seed, same numbers."""
    import keras
    import tensorflow as tf

    keras.utils.set_random_seed(seed)
    tf.config.experimental.enable_op_determinism()


@contextmanager
def graphs_let_go() -> Iterator[None]:
    """Let go of the graphs of custom gradients that are traced in a block, and of their variables."""
    registered = gradient_registry()
    before = set(registered)
    try:
        yield
    finally:
        for name in [name for name in registered if name.startswith("CustomGradient-") and name not in before]:
            del registered[name]
        gc.collect()


@contextmanager
def native_stderr_held_back() -> Iterator[None]:
    """Hold back what native code writes to file descriptor 2; show it only if the block fails under MHA_DEBUG=1."""
    try:
        stderr = os.dup(2)
    except OSError:  # stderr is closed
        yield
        return
    with tempfile.TemporaryFile() as held:
        os.dup2(held.fileno(), 2)
        try:
            yield
        except BaseException:
            if os.environ.get("MHA_DEBUG") == "1":
                held.seek(0)
                os.write(stderr, held.read())
            raise
        finally:
            with suppress(OSError, ValueError):
                sys.stderr.flush()
            os.dup2(stderr, 2)
            os.close(stderr)
