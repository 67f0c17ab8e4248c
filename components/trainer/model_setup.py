"""Builds the model under the right strategy scope and precision, and checks its inputs."""

import logging
from collections.abc import Callable
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


def make_model(
    build_model: BuildModel,
    *data: tf.data.Dataset | None,
    strategy: tf.distribute.Strategy,
) -> keras.Model:
    """Builds a model under the strategy's scope; the training data come first.

    Raises:
        UsageError: It is no compiled model of Keras 3, or takes other features than the data has.
    """
    if keras.backend.backend() != "tensorflow":
        raise UsageError(
            f"Keras runs on {keras.backend.backend()}, TFX needs tensorflow: "
            "set KERAS_BACKEND=tensorflow before keras is imported"
        )
    with strategy.scope():
        model = build_model()
    if not isinstance(model, keras.Model) or not model.compiled:
        raise UsageError(
            "build_model must return a compiled model of Keras 3 (`import keras`, "
            f"`model.compile(...)`), got {type(model)}"
        )
    _warn_of_replicas_apart(model, strategy)
    known = [one for one in data if one is not None]
    for one in known:
        check_features(model, one)
    # XLA compiles again for each length of a batch, and knows neither texts nor other devices.
    specs = tf.nest.flatten(known[0].element_spec) if known else []
    is_dense = all(isinstance(s, tf.TensorSpec) and s.shape.is_fully_defined() for s in specs)
    if not is_dense or not all(map(is_numbers, known[:1])) or strategy.num_replicas_in_sync > 1:
        model.jit_compile = False
    return model


def _warn_of_replicas_apart(model: keras.Model, strategy: tf.distribute.Strategy) -> None:
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


def is_numbers(data: tf.data.Dataset) -> bool:
    """Returns whether all features and labels are numbers, none of them text."""
    parts = tf.nest.flatten(data.element_spec)
    return all(part.dtype != tf.string for part in parts)


def _features(data: tf.data.Dataset) -> Any:
    return data.element_spec[0] if isinstance(data.element_spec, tuple) else data.element_spec
