"""Runs many steps of a compiled Keras model in one TensorFlow call.

The loop over steps and the fetching of batches run in the graph: to start a step from Python
would take longer than a step of a small model (1.7 ms against 0.6 for 17 features in batches of
40). The graph also measures how long each step waits for its batch. AutoGraph is off, as in Keras,
which halves the time of tracing.
"""

import math
import time
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from penstock.components.trainer.utilisation.limits import available_cores
from penstock.components.trainer.utilisation.step_clock import CallTimes, call_times
from penstock.components.trainer.workers import Workers


class Steps:
    """Runs training and evaluation steps of one model, built under `strategy.scope()`.

    With several workers, each has its share of a training batch, but all have the same evaluation.
    """

    def __init__(
        self,
        model: keras.Model,
        train_data: tf.data.Dataset,
        eval_data: tf.data.Dataset | None,
        *,
        strategy: tf.distribute.Strategy,
        workers: Workers | None = None,
        xla: bool,
    ) -> None:
        self.on_gpu = bool(tf.config.list_logical_devices("GPU"))
        self._model = model
        self._strategy = strategy
        self._eval_data = None if eval_data is None else _distribute(strategy, eval_data)
        shares = _distribute if workers is None else _shares
        rows = train_data if self.on_gpu else _with_own_threads(train_data)
        self._batches = iter(shares(strategy, rows))
        train_step = model.train_step
        if xla:
            train_step = tf.function(train_step, jit_compile=True, autograph=False)
        step = _step_function(train_step, strategy)
        self._train = _loop_function(step, strategy, next if self.on_gpu else _next_in_place)
        self._repeat = _loop_function(step, strategy, lambda batch: batch)
        self._evaluate = _eval_function(model.test_step, strategy)

    @property
    def has_eval(self) -> bool:
        return self._eval_data is not None

    def build(self) -> list[str]:
        """Traces the training step, which creates variables; returns the metrics' names."""
        with self._strategy.scope():
            if self._model.built:
                self._model.optimizer.build(self._model.trainable_variables)
            self._train.get_concrete_function(self._batches, tf.TensorSpec([], tf.int32))
        return list(self._model.get_metrics_result())

    def train(self, steps: int) -> tuple[np.ndarray, CallTimes]:
        """Runs training steps and waits until the device has finished them.

        Returns, for each step, the mean loss since the metrics were reset, float32[steps]; and the
        durations.
        """
        return self._call(self._train, self._batches, steps)

    def resident_batch(self) -> Any:
        """Fetches the next training batch and copies its numbers to the device that trains."""
        try:
            batch = next(self._batches)
        except StopIteration as end:
            raise tf.errors.OutOfRangeError(None, None, "no batch is left") from end
        if self._strategy.num_replicas_in_sync > 1:
            return batch  # each part is already on its device
        with tf.device("GPU:0" if self.on_gpu else "CPU:0"):
            return tf.nest.map_structure(
                lambda part: part if part.dtype == tf.string else tf.identity(part),
                batch,
                expand_composites=True,
            )

    def repeat(self, batch: Any, steps: int) -> tuple[np.ndarray, CallTimes]:
        """Runs training steps that all use the same batch; otherwise like `train`."""
        return self._call(self._repeat, batch, steps)

    def eval_batches(self) -> Any:
        assert self._eval_data is not None
        return iter(self._eval_data)

    def evaluate(self, batches: Any, steps: int) -> int:
        return int(self._evaluate(batches, tf.constant(steps)))

    def _call(self, loop: Any, data: Any, steps: int) -> tuple[np.ndarray, CallTimes]:
        begin, cpu = time.perf_counter(), time.process_time()
        losses, marks, waits = (part.numpy() for part in loop(data, tf.constant(steps)))
        seconds, cpu = time.perf_counter() - begin, time.process_time() - cpu
        return losses, call_times(seconds, cpu, marks, waits, runs_ahead=self.on_gpu)


def _distribute(strategy: tf.distribute.Strategy, data: tf.data.Dataset) -> Any:
    copies_ahead = isinstance(strategy, tf.distribute.OneDeviceStrategy)
    if strategy.num_replicas_in_sync == 1 and not copies_ahead:
        return data
    options = tf.data.Options()
    # Each worker reads all files and keeps its share of a batch: files may be fewer than workers.
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    return strategy.experimental_distribute_dataset(data.with_options(options))


def _shares(strategy: tf.distribute.Strategy, data: tf.data.Dataset) -> Any:
    if not tf.config.list_logical_devices("GPU"):
        # A single replica fetches its batch directly: the strategy's threads would copy each tensor
        # alone, which takes 150 us of CPU for the 20 tensors of a batch.
        return data
    # Marked as endless; otherwise all workers would communicate before each step.
    endless = data.apply(tf.data.experimental.assert_cardinality(tf.data.INFINITE_CARDINALITY))
    return strategy.distribute_datasets_from_function(lambda _: endless)


def _with_own_threads(data: tf.data.Dataset) -> tf.data.Dataset:
    """Runs `data` in its own threads: a step may occupy a shared thread while it waits for data."""
    options = tf.data.Options()
    if data.options().threading.private_threadpool_size is None:
        options.threading.private_threadpool_size = math.ceil(available_cores())
    return data.with_options(options)


def _next_in_place(batches: Any) -> Any:
    """Fetches the next batch in the calling thread; TensorFlow's iterator uses another thread.

    To change to that thread and back takes 15 us of CPU.
    """
    if not isinstance(batches, tf.data.Iterator):  # a strategy's iterator for several devices
        return next(batches)
    specs = tf.nest.flatten(batches.element_spec)
    if not all(isinstance(spec, tf.TensorSpec) for spec in specs):
        return next(batches)
    (resource,) = tf.nest.flatten(batches, expand_composites=True)
    parts = tf.raw_ops.IteratorGetNextSync(
        iterator=resource,
        output_types=[spec.dtype for spec in specs],
        output_shapes=[spec.shape for spec in specs],
    )
    return tf.nest.pack_sequence_as(batches.element_spec, parts)


def _step_function(
    train_step: Callable[[Any], dict[str, tf.Tensor]], strategy: tf.distribute.Strategy
) -> Any:
    """Returns a step on a batch as a function, so that both loops share one trace."""

    @tf.function(autograph=False, reduce_retracing=True)
    def step(batch: Any) -> tf.Tensor:
        logs = strategy.run(train_step, args=(batch,))
        loss = strategy.reduce(tf.distribute.ReduceOp.MEAN, logs["loss"], axis=None)
        return tf.cast(loss, tf.float32)

    return step


def _loop_function(
    train_one: Callable[[Any], tf.Tensor],
    strategy: tf.distribute.Strategy,
    take: Callable[[Any], Any],
) -> Any:
    """Returns a loop of steps; `take` fetches each batch from the loop's first argument."""

    @tf.function(autograph=False, reduce_retracing=True)
    def train(batches: Any, steps: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        def one(
            step: tf.Tensor, losses: tf.TensorArray, begins: tf.TensorArray, waits: tf.TensorArray
        ) -> tuple[tf.Tensor, tf.TensorArray, tf.TensorArray, tf.TensorArray]:
            begin = tf.timestamp()
            with tf.control_dependencies([begin]):
                batch = take(batches)
            with tf.control_dependencies(_tensors(strategy, batch)):
                wait = tf.timestamp() - begin
            # Otherwise a step that blocks its thread may run before the time is taken.
            with tf.control_dependencies([wait]):
                losses = losses.write(step, train_one(batch))
            return step + 1, losses, begins.write(step, begin), waits.write(step, wait)

        arrays = [tf.TensorArray(kind, steps) for kind in (tf.float32, tf.float64, tf.float64)]
        # One step at a time; otherwise a wait would overlap with the previous step.
        _, losses, begins, waits = tf.while_loop(
            lambda step, *_: step < steps, one, (0, *arrays), parallel_iterations=1
        )
        losses = losses.stack()
        with tf.control_dependencies([losses]):
            end = tf.timestamp()
        return losses, tf.concat([begins.stack(), [end]], 0), waits.stack()

    return train


def _eval_function(test_step: Callable[[Any], Any], strategy: tf.distribute.Strategy) -> Any:
    @tf.function(autograph=False, reduce_retracing=True)
    def evaluate(batches: Any, steps: tf.Tensor) -> tf.Tensor:
        def one(done: tf.Tensor, _: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            batch = batches.get_next_as_optional()

            def step() -> bool:
                strategy.run(test_step, args=(batch.get_value(),))
                return True

            more = tf.cond(batch.has_value(), step, lambda: False)
            return done + tf.cast(more, tf.int32), more

        done, _ = tf.while_loop(
            lambda done, more: more & (done < steps), one, (0, True), parallel_iterations=1
        )
        return done

    return evaluate


def _tensors(strategy: tf.distribute.Strategy, batch: Any) -> list[tf.Tensor]:
    values = [strategy.experimental_local_results(value) for value in tf.nest.flatten(batch)]
    parts = tf.nest.flatten(values, expand_composites=True)
    return [part for part in parts if isinstance(part, tf.Tensor)]
