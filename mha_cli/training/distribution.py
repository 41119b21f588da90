"""Training on several devices and machines: a device is a replica of the model, and the gradients of all replicas are added up.

A step of every worker (``Trainer`` has the code):

1. Seed, epoch and step determine the texts of a batch, the same on all workers. Worker i of n reads its texts i, i + n, i + 2n …
   (``worker_slice``), and its devices share these in the same way. Batches are sorted by length, so every replica has short and long texts.
2. A replica computes the gradients of the sum of its losses, divided by the number of texts in the *whole* batch. Their sum over all
   replicas is then the gradient of the batch's mean loss, even if some replicas have fewer texts.
3. Each step exchanges data once (``sum_over_replicas``): one all-reduce of dense gradients, loss and requests to stop. Of an embedding
   table, only the touched rows are gathered, each once.
4. Every worker changes its weights by that sum, outside ``strategy.run``. All start with the same weights, so they stay the same.

Weights are ordinary variables, not the mirrored ones of ``strategy.scope()``. Inside ``strategy.run``, Keras's optimizers would sum
gradients that each device has clipped; and reading one row of a mirrored variable reads all of it.
"""

import dataclasses
import hashlib
import io
import re
import signal
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from threading import Thread
from typing import Any

import numpy as np
import tensorflow as tf

from mha_cli.arrays import Array, Floats, Int32s
from mha_cli.corpus.encoded_texts import EncodedTexts
from mha_cli.errors import EXIT_FAILURE, MhaError
from mha_cli.system.callbacks import SILENT, Callbacks
from mha_cli.system.cluster import ALONE, Task, task_of
from mha_cli.training.optimizers import rows_once

Arrays = dict[str, Array]

START_SECONDS = 600.0  # longest wait for the other workers to start

WORKER_ENDED = tuple(getattr(tf.errors, f"{name}Error") for name in ("Unavailable", "DeadlineExceeded", "Aborted", "Internal", "Cancelled"))
"""Errors of TensorFlow when another worker has ended, or no longer sends heartbeats."""

ENDED_WORKER = re.compile(r"(?:reported from|remote target) /job:(\w+)/(?:replica:0/)?task:(\d+)")


class Distribution:
    """The replicas that train one model, seen from one worker; without arguments, this process alone on one device.

    Args:
        strategy: TensorFlow's distribution strategy; None for its default, which is one device.
        task: this worker's number, and the number of all workers.
        asked_to_stop: function that returns whether this worker was asked to stop.
    """

    def __init__(self, strategy: Any = None, task: Task = ALONE, asked_to_stop: Callable[[], bool] = lambda: False) -> None:
        self._strategy = tf.distribute.get_strategy() if strategy is None else strategy
        self.task, self.asked_to_stop = task, asked_to_stop
        self.stopping = False  # whether any worker was asked to stop before the last step; the same on all workers
        self.worker_slice = slice(task.index, None, task.num_workers)  # texts of a batch that this worker reads
        self.num_replicas: int = self._strategy.num_replicas_in_sync  # devices of all workers together

    def sum_over_replicas(self, function: Callable[..., list[Any]], *batch: Any) -> list[Any]:
        """The sum of a function's results over all replicas; to be called within a ``tf.function``.

        The function takes a replica's share of ``batch``, which are this worker's tensors (B, …). It returns tensors and, for embedding
        tables, IndexedSlices.
        """
        if self.num_replicas == 1:
            return function(*batch)
        num_local = self.num_replicas // self.task.num_workers

        def sum_of_replica() -> Any:
            replica = tf.distribute.get_replica_context()
            local = replica.replica_id_in_sync_group % num_local
            values = function(*(array[local::num_local] for array in batch))
            values = [rows_once(value) if isinstance(value, tf.IndexedSlices) else value for value in values]
            return replica.all_reduce(tf.distribute.ReduceOp.SUM, values)

        return [self._strategy.experimental_local_results(value)[0] for value in self._strategy.run(sum_of_replica)]

    def sum(self, array: Array) -> Array:
        """The sum of the workers' arrays, all of the same shape."""
        if self.task.num_workers == 1:
            return array
        return self._strategy.reduce(tf.distribute.ReduceOp.SUM, tf.constant(array), axis=None).numpy()

    def gathered(self, score: Callable[[EncodedTexts], Floats], texts: EncodedTexts) -> Floats:
        """A function's results for all texts, (N, C), of which each worker computes its share."""
        if self.task.num_workers == 1:
            return score(texts)
        scores = score(texts.subset(np.arange(len(texts))[self.worker_slice]))
        all_scores = np.zeros((len(texts), scores.shape[1]), np.float32)
        all_scores[self.worker_slice] = scores
        return self.sum(all_scores)

    def from_chief(self, make: Callable[[], Arrays]) -> Arrays:
        """The arrays that ``make`` returns on the chief; the other workers do not call it, and wait.

        Raises:
            KeyboardInterrupt: the chief was interrupted.
        """
        if self.task.num_workers == 1:
            return make()
        words, failure = np.zeros(0, np.int32), None
        if self.task.is_chief:
            try:
                words = _packed(make())
            except BaseException as error:
                failure = error
        status = [len(words), failure is not None, isinstance(failure, KeyboardInterrupt)]
        length, failed, interrupted = self.sum(np.array(status, np.int64)).tolist()
        if failure is not None:
            raise failure
        if interrupted:
            raise KeyboardInterrupt
        if failed:
            raise MhaError("the chief cannot go on", "its own message says why", EXIT_FAILURE)
        words = self.sum(words if self.task.is_chief else np.zeros(length, np.int32))
        with np.load(io.BytesIO(words.tobytes()), allow_pickle=False) as file:
            return dict(file)

    def refuse_difference(self, what: str, digest: Callable[[], bytes]) -> None:
        """Refuse workers whose digest of ``what`` differs from the chief's; a single worker computes none."""
        if self.task.num_workers == 1:
            return
        digest_here = np.frombuffer(digest(), np.uint8)
        differs = np.zeros(self.task.num_workers, np.int32)
        differs[self.task.index] = not np.array_equal(digest_here, self.from_chief(lambda: {"digest": digest_here})["digest"])
        if others := np.flatnonzero(self.sum(differs)).tolist():
            workers, way_out = ", ".join(map(str, others)), "give all workers the same files, config and version of mha"
            raise MhaError(f"other {what} on worker {workers} than on the chief", way_out)

    def watched(self, callbacks: Callbacks) -> Callbacks:
        """The same callbacks, with a ``stop`` that is True on all workers after the same step."""
        return callbacks if self.task.num_workers == 1 else dataclasses.replace(callbacks, stop=lambda: self.stopping)


@contextmanager
def distributed(setting: str, callbacks: Callbacks = SILENT) -> Iterator[Distribution]:
    """Train with the devices and workers of ``training.distribution``; TensorFlow must not have computed anything before."""
    task = task_of(setting)
    if task.num_workers > 1:
        callbacks.log(f"waiting for the other workers: {task.num_workers - 1}")
        try:
            terminate = signal.getsignal(signal.SIGTERM)
            strategy = _connected(task)
            signal.signal(signal.SIGTERM, terminate)  # TensorFlow installs its own handler, for notices of preemption
            yield Distribution(strategy, task, callbacks.stop)
        except WORKER_ENDED as error:
            peers = ", ".join(sorted({f"{job} {number}" for job, number in ENDED_WORKER.findall(str(error))})) or "another worker"
            way_out = "see its own message, and start all again, with --resume where the run directory has a state"
            raise MhaError(f"{peers}: ended, or does not answer", way_out, EXIT_FAILURE) from error
    elif setting == "mirrored" or (setting == "auto" and len(tf.config.list_physical_devices("GPU")) > 1):
        devices = tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")
        if len(devices) == 1:
            raise MhaError(f"training.distribution=mirrored: the only device is {devices[0].name}", "take none")
        yield Distribution(tf.distribute.MirroredStrategy([device.name for device in devices]), asked_to_stop=callbacks.stop)
    else:
        yield Distribution(asked_to_stop=callbacks.stop)


def _multi_worker_strategy(task: Task) -> Any:
    resolvers = tf.distribute.cluster_resolver
    resolver = resolvers.TFConfigClusterResolver()
    if task.environment == "SLURM":
        # Without GPUs, TensorFlow's resolver finds no addresses; with them, it would assign the GPUs that srun has assigned already.
        slurm = resolvers.SlurmClusterResolver(gpus_per_node=task.num_workers, gpus_per_task=1, auto_set_gpu=False)
        gpus = {"GPU": len(tf.config.list_physical_devices("GPU"))}
        resolver = resolvers.SimpleClusterResolver(slurm.cluster_spec(), "worker", task.index, num_accelerators=gpus, rpc_layer="grpc")
    return tf.distribute.MultiWorkerMirroredStrategy(resolver)


def _connected(task: Task) -> Any:
    """The strategy, once all workers have started. A thread waits for them, so that signals are handled and the wait can time out."""
    strategy: Future[Any] = Future()

    def connect() -> None:
        try:
            strategy.set_result(_multi_worker_strategy(task))
        except BaseException as error:
            strategy.set_exception(error)

    Thread(target=connect, daemon=True).start()
    try:
        return strategy.result(START_SECONDS)
    except TimeoutError:
        message = f"other workers have not started within {START_SECONDS / 60:.0f} minutes"
        raise MhaError(message, "start all of them", EXIT_FAILURE) from None


def digest_of(arrays: Iterable[Array]) -> bytes:
    """A digest of the bytes of arrays."""
    return hashlib.sha256(b"".join(hashlib.sha256(array.tobytes()).digest() for array in arrays)).digest()


def _packed(arrays: Arrays) -> Int32s:
    """Arrays as integers, since workers exchange arrays as sums: the chief's integers plus the zeros of the others."""
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    buffer.write(bytes(-buffer.tell() % 4))
    return np.frombuffer(buffer.getvalue(), np.int32)
