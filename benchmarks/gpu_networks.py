"""Networks of tables and of images with short and long steps, and what they are trained from.

On a CPU they are smaller. TensorFlow is imported by what is called, not by this module.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any

from penstock.benchmarks import image_training, made_table, packed_images
from penstock.benchmarks import input as rows_benchmark
from penstock.benchmarks import packed as packed_tables

TABLE_BATCH, IMAGE_BATCH = rows_benchmark.BATCH_SIZE, packed_images.BATCH_SIZE
NUMBERS = made_table.FLOATS + made_table.INTS
NAIVE, ROWS, PACKED = "naive", "row Examples", "packed"


def gpu_names() -> list[str]:
    """The GPUs that TensorFlow trains on here."""
    import tensorflow as tf

    details = map(tf.config.experimental.get_device_details, tf.config.list_physical_devices("GPU"))
    return [one["device_name"] for one in details]


def image_size() -> int:
    """Height and width that networks of images get."""
    return 224 if gpu_names() else 96


def table_model(units: int) -> Any:
    """Two layers over the 32 numbers of a row."""
    import keras

    keras.utils.set_random_seed(0)
    hidden = [keras.layers.Dense(units, activation="relu") for _ in range(2)]
    model = keras.Sequential([*hidden, keras.layers.Dense(1, "sigmoid", dtype="float32")])
    model.build((None, len(NUMBERS)))
    model.compile("adam", "binary_crossentropy")
    return model


def large_image_model() -> Any:
    """ResNet50 on a GPU; on a CPU three convolutions of 64 filters and more."""
    import keras

    if not gpu_names():
        return image_training.make_model(image_size(), 64)
    keras.utils.set_random_seed(0)
    image = keras.Input((image_size(), image_size(), 3), dtype="uint8")
    scaled = keras.layers.Rescaling(1 / 127.5, offset=-1)(image)
    features = keras.applications.ResNet50(weights=None, include_top=False, pooling="avg")(scaled)
    model = keras.Model(image, keras.layers.Dense(10, dtype="float32")(features))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(1e-3), loss)
    return model


def stack(features: dict[str, Any]) -> tuple[Any, Any]:
    """Features by name as one tensor float32[batch, 32], and a label."""
    import tensorflow as tf

    columns = [tf.cast(features[name], tf.float32) for name in NUMBERS]
    return with_label(tf.concat(columns, axis=1))


def with_label(numbers: Any) -> tuple[Any, Any]:
    """Numbers squeezed into a small range, and whether the first is positive."""
    import tensorflow as tf

    return tf.math.asinh(numbers), tf.cast(numbers[:, :1] > 0, tf.float32)


def naive_rows(root: Path) -> Any:
    """One `parse_single_example` after another, nothing ahead, not shuffled."""
    return packed_tables.naive(root).map(stack)


def row_examples(root: Path, **options: Any) -> Any:
    """`Input.rows`."""
    import tensorflow as tf

    batches = rows_benchmark.penstock(packed_tables.row_files(root), **options)
    return batches.map(stack, num_parallel_calls=tf.data.AUTOTUNE).prefetch(8)


def packed_rows(root: Path) -> Any:
    """`Input.packed`, columns of a type in one tensor."""
    import tensorflow as tf

    batches = packed_tables.packed_ids_stacked(root)

    def stack(features: dict[str, Any]) -> tuple[Any, Any]:
        integers = tf.cast(features["int64"], tf.float32)
        return with_label(tf.concat([features["float32"], integers], axis=1))

    return batches.map(stack, num_parallel_calls=tf.data.AUTOTUNE).prefetch(8)


def of_images(read: Callable[[Path, int], Any]) -> Callable[[Path], Any]:
    """An input of `image_training`, at the size that networks get."""

    @wraps(read)
    def batches(root: Path) -> Any:
        return read(root, image_size()).map(image_training.image_and_label)

    return batches


Input = Callable[..., Any]
TABLE_INPUTS: dict[str, Input] = {NAIVE: naive_rows, ROWS: row_examples, PACKED: packed_rows}
IMAGE_INPUTS: dict[str, Input] = {
    NAIVE: of_images(image_training.generator),
    ROWS: of_images(image_training.row_examples),
    PACKED: of_images(image_training.packed),
}


@dataclass(frozen=True)
class Network:
    """A network whose steps have one length, and what it is trained from, in batches of a unit.

    So many `calibration_steps` are enough to know how long a step takes.
    """

    make: Callable[[], Any]
    inputs: Mapping[str, Input]
    unit: str
    batch: int
    calibration_steps: int


SHORT_TABLE, LONG_TABLE = "a table, short steps", "a table, long steps"
SHORT_IMAGES, LONG_IMAGES = "images, short steps", "images, long steps"
NETWORKS = {
    SHORT_TABLE: Network(
        lambda: table_model(256 if gpu_names() else 64), TABLE_INPUTS, "rows", TABLE_BATCH, 40
    ),
    LONG_TABLE: Network(
        lambda: table_model(8192 if gpu_names() else 512), TABLE_INPUTS, "rows", TABLE_BATCH, 40
    ),
    SHORT_IMAGES: Network(
        lambda: image_training.make_model(image_size(), 16), IMAGE_INPUTS, "images", IMAGE_BATCH, 20
    ),
    LONG_IMAGES: Network(large_image_model, IMAGE_INPUTS, "images", IMAGE_BATCH, 10),
}
