"""What has to be settled before TensorFlow starts, so that no user has to."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from mha_cli.system.address_limit import need_tensorflow_addresses


def import_tensorflow() -> None:
    """Import TensorFlow and Keras on top of it, without their start-up chatter on stderr and with Keras's own settings.

    A ``keras.json`` in the home folder is neither read nor written: its ``floatx`` and ``epsilon`` would change what is computed.

    Raises:
        MhaError: a limit on addresses leaves too few for it.
    """
    need_tensorflow_addresses()
    os.environ["KERAS_BACKEND"] = "tensorflow"
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    with native_stderr_held_back():
        with _set("KERAS_HOME", f"{os.devnull}/keras"):
            import keras  # noqa: F401
        import tensorflow as tf

        tf.config.list_physical_devices()  # the device search logs too
        tf.get_logger().setLevel("ERROR")  # it warns where several models are traced, which is meant here


@contextmanager
def _set(name: str, value: str) -> Iterator[None]:
    """An environment variable, for the time of a block."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        del os.environ[name]
        if before is not None:
            os.environ[name] = before


def set_seed(seed: int) -> None:
    """Seed every source of chance and make TensorFlow's kernels reproducible: same seed, same numbers."""
    import keras
    import tensorflow as tf

    keras.utils.set_random_seed(seed)
    tf.config.experimental.enable_op_determinism()


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
