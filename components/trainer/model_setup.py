"""Builds the model under the right strategy scope and precision, and checks its inputs."""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import keras
import tensorflow as tf

from penstock.components.errors import UsageError

logger = logging.getLogger(__name__)

BuildModel = Callable[[], keras.Model]


def default_strategy(*, prefetch_to_device: bool) -> tf.distribute.Strategy:
    """Returns a strategy for all GPUs of this machine, or for its only device."""
    gpus = tf.config.list_logical_devices("GPU")
    if len(gpus) > 1:
        return tf.distribute.MirroredStrategy()
    if prefetch_to_device:
        return tf.distribute.OneDeviceStrategy("GPU:0" if gpus else "CPU:0")
    return tf.distribute.get_strategy()


def set_memory_growth() -> None:
    """Makes TensorFlow take GPU memory as needed, which leaves the rest to other processes.

    By default it takes all memory at once. Has no effect once TensorFlow has used a GPU.
    """
    for gpu in tf.config.list_physical_devices("GPU"):
        try:
            tf.config.experimental.set_memory_growth(gpu, True)
        except (RuntimeError, ValueError) as error:
            logger.info("memory growth of %s is left as it is: %s", gpu.name, error)


def prefetches_to_device(option: bool | None, data: Sequence[tf.data.Dataset | None]) -> bool:
    """Returns whether to copy batches to the device ahead; by default to GPUs if without text."""
    if option is not None:
        return option
    has_gpu = bool(tf.config.list_logical_devices("GPU"))
    return has_gpu and not any(_text_features(one) for one in data if one is not None)


def make_model(
    build_model: BuildModel, *, strategy: tf.distribute.Strategy, mixed_precision: str
) -> keras.Model:
    if keras.backend.backend() != "tensorflow":
        raise UsageError(
            f"Keras runs on {keras.backend.backend()}, TFX needs tensorflow: "
            "set KERAS_BACKEND=tensorflow before keras is imported"
        )
    with strategy.scope(), _dtype_policy(mixed_precision):
        model = build_model()
    if not isinstance(model, keras.Model):
        raise UsageError(
            f"build_model must return a keras.Model of Keras 3 (`import keras`), got {type(model)}"
        )
    if not model.compiled:
        raise UsageError("build_model must return a compiled model: call model.compile(...) in it")
    apart = [
        layer.name
        for layer in model._flatten_layers()
        if isinstance(layer, keras.layers.BatchNormalization)
        and layer.trainable
        and not layer.synchronized
    ]
    if apart and strategy.num_replicas_in_sync > 1:
        logger.warning(
            "%s and %d other BatchNormalization layers: each of the %d replicas uses the mean "
            "of its own rows; BatchNormalization(synchronized=True) uses that of all rows",
            apart[0],
            len(apart) - 1,
            strategy.num_replicas_in_sync,
        )
    return model


def input_names(model: keras.Model) -> tuple[str, ...] | None:
    """Returns the features that a functional model takes by name; None for any other model."""
    try:
        inputs = model.input
    except (AttributeError, ValueError):
        return None
    return tuple(inputs) if isinstance(inputs, dict) else None


def check_features(model: keras.Model, data: tf.data.Dataset) -> None:
    """Raises UsageError if the data's features are not the model's inputs.

    If names differ, Keras matches by position, and would train on the wrong columns.
    """
    names = input_names(model)
    features = _features(data)
    if names is None or not isinstance(features, dict) or set(features) == set(names):
        return
    missing = sorted(set(names) - set(features))
    surplus = sorted(set(features) - set(names))
    raise UsageError(
        f"the model's inputs and the data's features differ: missing {missing}, not taken "
        f"{surplus}; give the input functions a spec of the model's inputs and the label"
    )


def check_numbers(data: tf.data.Dataset, option: str) -> None:
    if strings := _text_features(data):
        raise UsageError(
            f"{option} needs inputs that are all numbers, {', '.join(strings)} is text: "
            "turn it into ids in preprocessing_fn, or train without"
        )


def _text_features(data: tf.data.Dataset) -> list[str]:
    features = _features(data)
    named = features if isinstance(features, dict) else {"the input": features}
    return [
        name
        for name, spec in named.items()
        if any(part.dtype == tf.string for part in tf.nest.flatten(spec))
    ]


def _features(data: tf.data.Dataset) -> Any:
    return data.element_spec[0] if isinstance(data.element_spec, tuple) else data.element_spec


@contextmanager
def _dtype_policy(mixed_precision: str) -> Iterator[None]:
    kind = _kind_for_gpus() if mixed_precision == "auto" else mixed_precision
    if kind == "none":
        yield
        return
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(f"mixed_{kind}")
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)


def _kind_for_gpus() -> str:
    """Returns `bfloat16` if the GPUs have it: with float32's range, no loss needs scaling.

    Returns `none` without a GPU: few CPUs compute in 16 bits, and others become slower.
    """
    gpus = tf.config.list_physical_devices("GPU")
    for gpu in gpus:
        # Ampere (compute capability 8.0) is the first with bfloat16.
        details = tf.config.experimental.get_device_details(gpu)
        if details.get("compute_capability", (0, 0)) < (8, 0):
            return "float16"
    return "bfloat16" if gpus else "none"
