"""Batches taken as a training loop takes them: in the graph, without a Python object a tensor."""

import time
from collections.abc import Callable, Iterator
from typing import Any


def reader(batches: Any, *, steps_a_call: int = 20) -> Callable[[float], int]:
    """A function that reads for so many seconds and says how many rows that were.

    Batches are an iterator of a `tf.data.Dataset` of dicts, whose values have rows first.
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
            rows += int(take(tf.constant(steps_a_call)))
        return rows

    return read


def read_in_python(batches: Iterator[dict[str, Any]], seconds: float) -> int:
    """Take batches for so many seconds; how many rows these were."""
    rows, end = 0, time.perf_counter() + seconds
    while time.perf_counter() < end:
        rows += len(next(iter(next(batches).values())))
    return rows


def _rows(batch: dict[str, Any]) -> Any:
    import tensorflow as tf

    feature = next(iter(batch.values()))
    shape = feature.dense_shape if isinstance(feature, tf.SparseTensor) else tf.shape(feature)
    return tf.cast(shape[0], tf.int64)
