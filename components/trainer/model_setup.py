"""Builds the model under the right strategy scope and precision, and checks its inputs."""

import logging
from collections.abc import Callable

import keras
import tensorflow as tf

from penstock.components.errors import UsageError

logger = logging.getLogger(__name__)

BuildModel = Callable[[], keras.Model]


def default_strategy(*data: tf.data.Dataset | None) -> tf.distribute.Strategy:
    """Returns a strategy for all GPUs of this machine, or for its only device."""
    gpus = tf.config.list_logical_devices("GPU")
    if len(gpus) > 1:
        return tf.distribute.MirroredStrategy()
    if gpus and all(is_numbers(one) for one in data if one is not None):
        return tf.distribute.OneDeviceStrategy("GPU:0")  # copies batches of numbers ahead
    return tf.distribute.get_strategy()


def make_model(
    build_model: BuildModel,
    train_data: tf.data.Dataset,
    eval_data: tf.data.Dataset | None,
    strategy: tf.distribute.Strategy,
) -> keras.Model:
    """Builds a model under the strategy's scope.

    Raises:
        UsageError: It is no compiled model of Keras 3, or takes other features than the data has.
    """
    with strategy.scope():
        model = build_model()
    if not isinstance(model, keras.Model) or not model.compiled:
        raise UsageError(
            "build_model must return a compiled model of Keras 3 (`import keras`, "
            f"`model.compile(...)`), got {type(model)}"
        )
    _warn_of_replicas_apart(model, strategy)
    for one in (train_data, eval_data):
        if one is not None:
            _check_features(model, one)
    # XLA compiles again for each length of a batch, and knows neither texts nor other devices.
    specs = tf.nest.flatten(train_data.element_spec)
    is_dense = all(isinstance(s, tf.TensorSpec) and s.shape.is_fully_defined() for s in specs)
    if not is_dense or not is_numbers(train_data) or strategy.num_replicas_in_sync > 1:
        model.jit_compile = False
    return model


def _warn_of_replicas_apart(model: keras.Model, strategy: tf.distribute.Strategy) -> None:
    layers = (x for x in model._flatten_layers() if isinstance(x, keras.layers.BatchNormalization))
    apart = [layer.name for layer in layers if layer.trainable and not layer.synchronized]
    if apart and strategy.num_replicas_in_sync > 1:
        logger.warning(
            "%s: each of the %d replicas uses the mean of its own rows; "
            "BatchNormalization(synchronized=True) uses that of all rows",
            ", ".join(apart),
            strategy.num_replicas_in_sync,
        )


def input_names(model: keras.Model) -> tuple[str, ...] | None:
    """Returns the features that a functional model takes by name; None for any other model."""
    try:
        inputs = model.input
    except (AttributeError, ValueError):
        return None
    return tuple(inputs) if isinstance(inputs, dict) else None


def _check_features(model: keras.Model, data: tf.data.Dataset) -> None:
    """Raises UsageError if the data's features are not the model's inputs.

    If names differ, Keras matches by position, and would train on the wrong columns.
    """
    names = input_names(model)
    spec = data.element_spec
    features = spec[0] if isinstance(spec, tuple) else spec
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
    return all(part.dtype != tf.string for part in tf.nest.flatten(data.element_spec))
