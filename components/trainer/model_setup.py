"""Builds the model under the strategy's scope, checks its inputs, and applies a warm start.

A warm start initializes a new model with the weights of an earlier one.
"""

import hashlib
import logging
import posixpath
from collections.abc import Callable
from itertools import count, takewhile
from typing import Any

import keras
import tensorflow as tf

from penstock.components.errors import DataError, UsageError, short_error

logger = logging.getLogger(__name__)

BuildModel = Callable[[], keras.Model]

# Name of a weight in a model that `export_model` saved; `{}` is its index in `model.weights`.
_KEY = "weights/{}/.ATTRIBUTES/VARIABLE_VALUE"
_EMBEDDINGS = "/embeddings"


def default_strategy(*data: tf.data.Dataset | None) -> tf.distribute.Strategy:
    """Returns a strategy for all GPUs of this machine, or for its only device."""
    gpus = tf.config.list_logical_devices("GPU")
    if len(gpus) > 1:
        return tf.distribute.MirroredStrategy()
    if gpus and all(is_numbers(one) for one in data if one is not None):
        return tf.distribute.OneDeviceStrategy("GPU:0")  # prefetches numbers to the device
    return tf.distribute.get_strategy()


def make_model(
    build_model: BuildModel,
    train_data: tf.data.Dataset,
    eval_data: tf.data.Dataset | None,
    strategy: tf.distribute.Strategy,
) -> keras.Model:
    """Builds a model under the strategy's scope.

    Raises:
        UsageError: The result is not a compiled Keras 3 model, or takes other features than the
            data has.
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
    # XLA would compile the step again for each shape of a batch. It supports neither strings nor a
    # step over several replicas.
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
    """Returns the input names of a functional model that takes a dict; None for other models."""
    try:
        inputs = model.input
    except (AttributeError, ValueError):
        return None
    return tuple(inputs) if isinstance(inputs, dict) else None


def _check_features(model: keras.Model, data: tf.data.Dataset) -> None:
    """Raises UsageError if the data's features are not the model's inputs.

    If names differ, Keras would match by position and train on the wrong columns.
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
    """Returns whether all features and labels are numbers rather than text."""
    return all(part.dtype != tf.string for part in tf.nest.flatten(data.element_spec))


def warm_started(
    build_model: BuildModel,
    base: str | None,
    transform_graph: str | None = None,
    *,
    partly: bool = False,
) -> BuildModel:
    """Wraps `build_model` so that its model starts with the weights of a base model.

    Weights are matched by their order. An embedding has a row for each vocabulary entry, so with a
    `transform_graph` it keeps its initial values unless all vocabularies equal those of the base
    model. The state of the optimizer is never taken from the base model.

    Args:
        build_model: Makes and compiles a model.
        base: Folder of a SavedModel from `export_model`, or a `.keras` file; None returns
            `build_model` unchanged.
        transform_graph: `fn_args.transform_graph_path` of the new model; None if it has no graph.
        partly: Whether a weight that the base model lacks, or has in another shape, keeps its
            initial values; if not, such a weight is an error.

    Raises:
        DataError: The returned function raises it if there is no such model or, unless `partly`, if
            the number of weights or the shape of one differs; the message names that weight.
    """
    if base is None:
        return build_model

    def build() -> keras.Model:
        model = build_model()
        values = _weights(base)
        same = transform_graph is None or (
            _vocabularies(base) == _vocabularies(f"{transform_graph}/transform_fn")
        )
        fresh = []
        for weight, value in zip(model.weights, values, strict=False):
            if not same and weight.path.endswith(_EMBEDDINGS):
                fresh.append(weight.path)
            elif weight.shape == value.shape:
                weight.assign(value)
            elif partly:
                fresh.append(weight.path)
            else:
                raise DataError(
                    f"{base}: {weight.path} is {list(value.shape)} there and {list(weight.shape)} "
                    "here; build the same layers, or others on a base that build_model loads"
                )
        if len(values) != len(model.weights) and not partly:
            raise DataError(f"{base}: {len(values)} weights there, {len(model.weights)} here")
        fresh += [weight.path for weight in model.weights[len(values) :]]
        taken = f"{len(model.weights) - len(fresh)} of {len(model.weights)}"
        names = f"; fresh: {', '.join(fresh)}" if fresh else ""
        print(f"warm start: {taken} weights are those of {base}{names}")
        return model

    return build


def weights_digest(base: str) -> str:
    """Returns the sha256 that identifies the weights of a base model; empty if unreadable."""
    index = posixpath.join(base, "variables", "variables.index")  # checksums of variables
    try:
        return _digest(index if tf.io.gfile.isdir(base) else base)
    except tf.errors.OpError:
        return ""


def _weights(base: str) -> list[Any]:
    if not tf.io.gfile.exists(base):
        raise DataError(f"{base}: no such model; expected a SavedModel's folder or a .keras file")
    try:
        if base.endswith(".keras"):
            return keras.models.load_model(base, compile=False).get_weights()
        reader = tf.train.load_checkpoint(posixpath.join(base, "variables", "variables"))
    except (OSError, ValueError, TypeError, tf.errors.OpError) as error:
        raise DataError(f"{base}: the weights cannot be read ({short_error(error)})") from error
    known = reader.get_variable_to_shape_map()
    keys = list(takewhile(known.__contains__, map(_KEY.format, count())))
    if not keys:
        raise DataError(
            f"{base}: a SavedModel that penstock did not export; load it in build_model, or save "
            "the Keras model as a .keras file"
        )
    return [reader.get_tensor(key) for key in keys]


def _vocabularies(saved_model: str) -> dict[str, str]:
    folder = posixpath.join(saved_model, "assets")
    names = tf.io.gfile.listdir(folder) if tf.io.gfile.isdir(folder) else []
    return {name: _digest(posixpath.join(folder, name)) for name in names}


def _digest(path: str) -> str:
    with tf.io.gfile.GFile(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()
