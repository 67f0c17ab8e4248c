"""How a benchmark consumes batches: by a reader alone, or by the steady steps of a network.

`reader` consumes batches in the graph, without a Python object per tensor, as in a training.
Contenders that train differ only in their input: each runs the steps of `fit`, many steps per call,
without tracing, evaluation and checkpoints.
"""

import time
from collections.abc import Callable, Iterator
from typing import Any

from penstock.benchmarks import photos, table
from penstock.benchmarks.harness import Measured, measure

STEPS_A_CALL = 20


def reader(batches: Any) -> Callable[[float], int]:
    """Returns a function that reads for a number of seconds and returns the number of rows.

    `batches` is an iterator over a `tf.data.Dataset` of dicts, whose values have the rows as their
    first dimension.
    """
    import tensorflow as tf

    @tf.function(autograph=False)
    def take(steps: Any) -> Any:
        def one(step: Any, rows: Any) -> Any:
            batch = next(batches)
            with tf.control_dependencies(tf.nest.flatten(batch, expand_composites=True)):
                return step + 1, rows + tf.shape(next(iter(batch.values())), tf.int64)[0]

        start = (0, tf.constant(0, tf.int64))
        return tf.while_loop(lambda step, _: step < steps, one, start, parallel_iterations=1)[1]

    take(tf.constant(1))  # traces, and starts tf.data's tuning

    def read(seconds: float) -> int:
        rows, end = 0, time.perf_counter() + seconds
        while time.perf_counter() < end:
            rows += int(take(tf.constant(STEPS_A_CALL)))
        return rows

    return read


def read_in_python(batches: Iterator[dict[str, Any]], seconds: float) -> int:
    """Consumes batches for a number of seconds; returns the number of rows."""
    rows, end = 0, time.perf_counter() + seconds
    while time.perf_counter() < end:
        rows += len(next(iter(next(batches).values())))
    return rows


def gpu_names() -> list[str]:
    """Returns the names of the GPUs that TensorFlow finds on this machine."""
    import tensorflow as tf

    details = map(tf.config.experimental.get_device_details, tf.config.list_physical_devices("GPU"))
    return [one["device_name"] for one in details]


def table_model(units: int) -> Any:
    """Two hidden dense layers on the 32 numbers of a row, and a sigmoid output."""
    import keras

    keras.utils.set_random_seed(0)
    hidden = [keras.layers.Dense(units, activation="relu") for _ in range(2)]
    model = keras.Sequential([*hidden, keras.layers.Dense(1, "sigmoid", dtype="float32")])
    model.build((None, len(table.NUMBERS)))
    model.compile("adam", "binary_crossentropy")
    return model


def image_model(size: int, filters: int, network: str | None = None) -> Any:
    """Three convolutions of stride 2 on uint8 pixels, or a network of `keras.applications`."""
    import keras

    keras.utils.set_random_seed(0)
    image = keras.Input((size, size, 3), dtype="uint8")
    hidden = keras.layers.Rescaling(1 / 127.5, offset=-1)(image)
    if network is not None:
        build = getattr(keras.applications, network)
        hidden = build(weights=None, include_top=False, pooling="avg")(hidden)
    else:
        for widths in (1, 2, 4):
            hidden = keras.layers.Conv2D(widths * filters, 3, strides=2, activation="relu")(hidden)
        hidden = keras.layers.GlobalAveragePooling2D()(hidden)
    model = keras.Model(image, keras.layers.Dense(photos.CLASSES, dtype="float32")(hidden))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(1e-3), loss)
    return model


def numbers_and_label(features: dict[str, Any]) -> tuple[Any, Any]:
    """Returns 32 numbers per row, scaled by asinh, and a label: whether the first is positive."""
    import tensorflow as tf

    numbers = tf.concat([tf.cast(features[n], tf.float32) for n in table.NUMBERS], axis=1)
    return tf.math.asinh(numbers), tf.cast(numbers[:, :1] > 0, tf.float32)


def image_and_label(batch: dict[str, Any]) -> tuple[Any, Any]:
    """Returns pixels and label in the form that a network takes."""
    import tensorflow as tf

    return batch["image"], tf.reshape(batch["label"], [-1])


def table_batches(read: Callable[..., Any], *given: Any) -> Any:
    """Returns the batches of a table reader in the form that a network takes."""
    import tensorflow as tf

    batches = read(*given)
    return batches.map(numbers_and_label, num_parallel_calls=tf.data.AUTOTUNE).prefetch(8)


def first_batch(batches: Any) -> Any:
    """Repeats the first batch, which costs nothing, so no other input can be faster."""
    return batches.take(1).cache().repeat().prefetch(2)


def steady(
    model: Any, batches: Any, rows: int, seconds: float, *, steps_a_call: int = STEPS_A_CALL
) -> Measured:
    """Measures how many rows a training reads in `seconds`, after a first call, which compiles."""
    for batch in batches.take(1):
        model.train_on_batch(*batch)  # creates the optimizer's variables
    model.steps_per_execution = steps_a_call
    model.make_train_function(force=True)
    iterator = iter(batches)

    def train(seconds: float) -> int:
        steps, end = 0, time.perf_counter() + seconds
        while not steps or time.perf_counter() < end:
            logs = model.train_function(iterator)
            float(logs["loss"])  # a GPU works asynchronously until a result is requested
            steps += steps_a_call
        return rows * steps

    train(0)  # traces and compiles
    return measure(lambda: train(seconds))
