"""Batches taken as a training loop takes them: in the graph, without a Python object a tensor."""

import time
from collections.abc import Callable
from typing import Any

_STEPS_A_CALL = 20


def reader(batches: Any) -> Callable[[float], int]:
    """A function that reads for so many seconds and says how many rows that were.

    Args:
        batches: An iterator of a `tf.data.Dataset` of dicts, whose values have rows first.
    """
    import tensorflow as tf

    @tf.function(autograph=False)
    def take(steps: Any) -> Any:
        def one(step: Any, rows: Any) -> Any:
            batch = next(batches)
            with tf.control_dependencies(tf.nest.flatten(batch, expand_composites=True)):
                return step + 1, rows + _rows(batch)

        start = (0, tf.constant(0, tf.int64))
        return tf.while_loop(lambda step, _: step < steps, one, start, parallel_iterations=1)[1]

    take(tf.constant(1))  # traced, and tf.data has begun to tune itself

    def read(seconds: float) -> int:
        rows, end = 0, time.perf_counter() + seconds
        while time.perf_counter() < end:
            rows += int(take(tf.constant(_STEPS_A_CALL)))
        return rows

    return read


def _rows(batch: dict[str, Any]) -> Any:
    import tensorflow as tf

    feature = next(iter(batch.values()))
    shape = feature.dense_shape if isinstance(feature, tf.SparseTensor) else tf.shape(feature)
    return tf.cast(shape[0], tf.int64)
