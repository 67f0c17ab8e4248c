"""Default Keras models for each task.

A model has one float32 output per target. Its shape is [batch, 1] for a binary task (the
probability of the second class) and for a regression (in the label's unit), and [batch, classes]
for several classes. With several targets, a model returns a dict of its outputs by the names of the
transformed labels.
"""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf

from penstock.components.trainer.images.applications import ApplicationBase
from penstock.components.trainer.images.augmentation import Augmentation
from penstock.components.trainer.images.augmentation_options import AugmentOptions
from penstock.components.trainer.input.images import IMAGE
from penstock.pipelines.blocks.config import ImageModelOptions, TableModelOptions
from penstock.pipelines.blocks.facts import LabelFacts, ModelFacts
from penstock.pipelines.blocks.preprocessing import CATEGORIES_XF, NUMBERS_XF
from penstock.pipelines.blocks.target import Target

_METRICS = {"binary": "accuracy", "classes": "accuracy", "regression": "mean_absolute_error"}


def table_model(
    facts: ModelFacts, options: TableModelOptions, *, categories: Sequence[int] = ()
) -> keras.Model:
    """Returns a compiled wide and deep model: one weight per category plus a small network.

    Inputs: `numbers_xf` float32 [batch, numbers] and `categories_xf` int64 [batch, categories],
    each only if it has columns.

    Args:
        facts: The targets, the width of `numbers_xf`, and the statistics of the labels, which
            regressions and class weights need.
        options: Options of the network.
        categories: Number of ids of each column of `categories_xf`, from `category_sizes`.
    """
    inputs, wide, deep = {}, [], []
    if numbers := facts.width(NUMBERS_XF):
        inputs[NUMBERS_XF] = keras.Input((numbers,), name=NUMBERS_XF, dtype="float32")
        deep.append(inputs[NUMBERS_XF])
    if categories:
        inputs[CATEGORIES_XF] = keras.Input((len(categories),), name=CATEGORIES_XF, dtype="int64")
        # The wide and the deep part each have one embedding table, in which each column has its own
        # range of rows.
        first_row = [0, *itertools.accumulate(categories[:-1])]
        rows = inputs[CATEGORIES_XF] + keras.ops.convert_to_tensor(first_row, dtype="int64")
        ids = sum(categories)
        wide.append(_flat_embedding(rows, ids, 1, "zeros"))
        deep.append(_flat_embedding(rows, ids, options.embedding_size, "uniform"))
    seen = _joined(deep)
    for units in options.hidden_units:
        seen = keras.layers.Dense(units, activation="relu")(seen)
        if options.dropout:
            seen = keras.layers.Dropout(options.dropout)(seen)
    labels = _labels(facts, options)
    outputs = _heads(_joined([*wide, seen]), facts.targets, labels)
    return _compiled(keras.Model(inputs, outputs), facts.targets, labels, options)


def image_model(facts: ModelFacts, options: ImageModelOptions) -> keras.Model:
    """Returns a compiled model: augmentation, convolutional base, dense layers.

    Input: `image` [batch, height, width, channels], uint8 or floats in the range 0..255.

    Args:
        facts: The targets, the shape of `image`, and the statistics of the labels, which
            regressions and class weights need.
        options: Options of the network, and random changes of the images in training.
    """
    height, width, channels = shape = facts.inputs[IMAGE]
    seen = image = keras.Input(shape, name=IMAGE, dtype="float32")
    if options.augment != AugmentOptions():
        seen = Augmentation(options.augment, seed=facts.seed, channels=channels)(seen)
    seen = (
        _application(seen, options, (height, width, channels))
        if options.application
        else _small(seen, options)
    )
    seen = keras.layers.Dropout(options.dropout)(seen)
    if options.hidden_units:
        seen = keras.layers.Dense(options.hidden_units, activation="relu")(seen)
        seen = keras.layers.Dropout(options.dropout)(seen)
    labels = _labels(facts, options)
    model = keras.Model({IMAGE: image}, _heads(seen, facts.targets, labels))
    return _compiled(model, facts.targets, labels, options)


def _labels(
    facts: ModelFacts, options: TableModelOptions | ImageModelOptions
) -> Mapping[str, LabelFacts]:
    """Returns the facts of the labels if the model needs them, else {}.

    Facts that are not needed are not computed, because that would read all rows.
    """
    needed = options.class_weights or any(t.task == "regression" for t in facts.targets)
    return facts.labels if needed else {}


def _heads(seen: Any, targets: Sequence[Target], labels: Mapping[str, LabelFacts]) -> Any:
    outputs = {target.label: _head(seen, target, labels.get(target.label)) for target in targets}
    return outputs if len(targets) > 1 else next(iter(outputs.values()))


def _compiled(
    model: keras.Model,
    targets: Sequence[Target],
    labels: Mapping[str, LabelFacts],
    options: TableModelOptions | ImageModelOptions,
) -> keras.Model:
    losses, metrics = {}, {}
    for target in targets:
        facts = labels.get(target.label)
        # The loss of a regression is always scaled by the label's variance; class weights are
        # optional.
        is_used = facts is not None and (options.class_weights or not facts.class_counts)
        losses[target.label] = _loss(target, facts if is_used else None)
        metrics[target.label] = [_METRICS[target.task]]
    only = targets[0].label
    model.compile(
        optimizer=keras.optimizers.Adam(options.learning_rate),
        loss=losses if len(targets) > 1 else losses[only],
        metrics=metrics if len(targets) > 1 else metrics[only],
        jit_compile=False,  # on a CPU, XLA costs seconds at the start
    )
    return model


def _head(seen: Any, target: Target, facts: LabelFacts | None) -> Any:
    # The output is float32 under every precision policy, because probabilities in 16 bits are too
    # coarse for the loss.
    activation = {"binary": "sigmoid", "classes": "softmax"}.get(target.task)
    output = keras.layers.Dense(target.outputs, activation=activation, dtype="float32")(seen)
    if target.task == "regression" and facts is not None:
        # The layers before this one predict the label scaled to mean 0 and variance 1.
        output = keras.layers.Rescaling(facts.deviation or 1.0, facts.mean, dtype="float32")(output)
    return output


def _loss(target: Target, facts: LabelFacts | None) -> Any:
    if facts is None:
        return target.loss
    if target.task == "regression":
        # The loss is in units of the label's variance, so that targets in different units have
        # similar weight.
        scale = 1.0 / (facts.deviation or 1.0) ** 2
        return lambda y, p: scale * keras.losses.mean_squared_error(y, p)
    weights = keras.ops.convert_to_tensor(facts.class_weights, "float32")
    loss = keras.losses.get(target.loss)

    def weighted(y: Any, p: Any) -> Any:
        numbers = keras.ops.cast(keras.ops.reshape(y, (-1,)), "int32")
        return loss(y, p) * keras.ops.take(weights, numbers)

    return weighted


def _flat_embedding(rows: Any, ids: int, size: int, initializer: str) -> Any:
    layer = keras.layers.Embedding(ids, size, embeddings_initializer=initializer)
    return keras.layers.Flatten()(layer(rows))


def _joined(parts: Sequence[Any]) -> Any:
    return keras.layers.Concatenate()(parts) if len(parts) > 1 else parts[0]


def _application(seen: Any, options: ImageModelOptions, shape: tuple[int, int, int]) -> Any:
    """Returns features from a network of `keras.applications`; a single channel is repeated."""
    height, width, channels = shape
    if channels == 1:
        seen = keras.layers.Concatenate()([seen, seen, seen])
    assert options.application is not None
    return ApplicationBase(
        options.application,
        height=height,
        width=width,
        weights=options.weights,
        trainable=options.train_base,
    )(seen)


def _small(seen: Any, options: ImageModelOptions) -> Any:
    layers = keras.layers
    shared = tf.distribute.get_strategy().num_replicas_in_sync > 1
    seen = layers.Rescaling(1 / 255)(seen)
    for filters in options.filters:
        for _ in range(2):
            seen = layers.Conv2D(filters, 3, padding="same", use_bias=False)(seen)
            # With Keras' default of 0.99, the moving averages would need hundreds of steps to
            # settle, more than a training on small data has.
            seen = layers.BatchNormalization(momentum=0.9, synchronized=shared)(seen)
            seen = layers.Activation("relu")(seen)
        seen = layers.MaxPooling2D(padding="same")(seen)
    return layers.Flatten()(seen)
