"""Signatures for clients that send columns or images instead of serialized Examples.

A client sends each raw column by name, [N]; a list (RaggedFeature) is [N, longest], padded with
missing values. If a column is left out or empty, its values are missing in all rows. Images are
sent as encoded files, and are decoded as in training. For a classification, the response contains
the probabilities, and the number and name of the class that is the answer (see `Served`); for a
regression, it contains the value.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import keras
import tensorflow as tf

from penstock.components import image_features
from penstock.components.errors import UsageError
from penstock.components.isolation import isolated
from penstock.components.tfrecord.feature_spec import FeatureSpec
from penstock.components.trainer.export import Prepare, Signature, TransformGraph
from penstock.components.trainer.input.image_decode import StoredImages, decode_whole
from penstock.components.trainer.input.images import IMAGE
from penstock.components.trainer.input.options import ImageInputOptions
from penstock.components.trainer.input.parsing import padded
from penstock.components.trainer.model_setup import input_names
from penstock.components.trainer.served_columns import (
    MISSING_INT,
    class_names_node,
    features_by_column_name,
)

_MISSING = {tf.int64: MISSING_INT, tf.float32: float("nan"), tf.string: ""}


@dataclass(frozen=True)
class Served:
    """Meaning of one output of a model.

    Attributes:
        name: Prefix of the served names, as in `price/value`; empty if there is only one output.
        classes: Names of the classes, in the order of their numbers; empty for a regression.
        threshold: Least probability at which the second of two classes is the answer; if None, the
            answer is the most probable class.
    """

    name: str = ""
    classes: tuple[str, ...] = ()
    threshold: float | None = None


def serve_columns(
    model: keras.Model,
    graph: TransformGraph | None,
    spec: Mapping[str, FeatureSpec],
    served: Mapping[str, Served],
) -> Signature:
    """Returns the signature `serve_columns`, for `export_model(signatures=...)`.

    Args:
        model: Model that returns, for each of `served`, probabilities [N, classes], or the
            probability of the second of two classes [N, 1], or a value [N, 1].
        graph: Transform graph from raw features to the model's features; None if both are the same.
        spec: Raw features without the labels; each has one value or is a RaggedFeature.
        served: Meaning of each output, by the output's name. If the model returns a single tensor,
            the name has no effect.

    Raises:
        UsageError: Two columns differ only in case, spaces or punctuation, or a feature is a
            FixedLenSequenceFeature.
    """
    columns = features_by_column_name(spec)
    taken = [_taken(column, name, spec[name]) for column, name in columns.items()]
    # The graph becomes an attribute of the model, so that `export_model` also saves the graph's
    # vocabularies.
    model.raw_features = graph

    def serve(*values: tf.Tensor) -> dict[str, tf.Tensor]:
        rows = tf.reduce_max(tf.stack([tf.shape(value)[0] for value in values]))
        raw = {
            name: _feature(_filled(value, rows), spec[name])
            for name, value in zip(columns.values(), values, strict=True)
        }
        features = padded(graph(raw) if graph else raw, values[0])
        names = input_names(model)
        predict = isolated(lambda inputs: model(inputs, training=False))
        outputs = predict({name: features[name] for name in names or features})
        if not isinstance(outputs, dict):
            outputs = dict.fromkeys(served, outputs)
        parts = [_answer(outputs[output], one) for output, one in served.items()]
        return {name: value for part in parts for name, value in part.items()}

    return _with_defaults(serve, taken)


def _taken(column: str, name: str, spec: FeatureSpec) -> tf.TensorSpec:
    if isinstance(spec, tf.io.FixedLenSequenceFeature):
        raise UsageError(f"{name}: columns of lists are served of a RaggedFeature; give it as one")
    is_list = isinstance(spec, tf.io.RaggedFeature)
    return tf.TensorSpec([None, None] if is_list else [None], spec.dtype, column)


def _with_defaults(serve: Callable[..., Any], taken: Sequence[tf.TensorSpec]) -> Signature:
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    empty = [tf.zeros([0] * spec.shape.rank, spec.dtype) for spec in taken]
    serve.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter(s.name, kind, default=e) for s, e in zip(taken, empty, strict=True)]
    )
    return tf.function(serve, input_signature=taken, autograph=False)


def _filled(value: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
    """Returns the column, [rows] or [rows, longest]; if it was left out, all values are missing."""
    default = tf.constant(_MISSING[value.dtype], value.dtype)
    if value.shape.rank > 1:
        return tf.cond(tf.size(value) > 0, lambda: value, lambda: tf.fill([rows, 1], default))
    # `tf.cond` is not used here, because its two functions would be traced, saved and loaded for
    # each column. Lists are rarer, so `tf.cond` is used for them above.
    left_out = tf.where(tf.size(value) > 0, 0, rows)
    return tf.concat([value, tf.fill([left_out], default)], 0)


def _feature(value: tf.Tensor, spec: FeatureSpec) -> Any:
    if value.dtype == tf.float32:
        missing = tf.math.is_nan(value)
    else:
        missing = value == tf.constant(_MISSING[value.dtype], value.dtype)
    if isinstance(spec, tf.io.RaggedFeature):
        return tf.ragged.boolean_mask(value, ~missing)
    if isinstance(spec, tf.io.FixedLenFeature):
        default = {tf.string: ""}.get(value.dtype, 0)
        filled = tf.where(missing, tf.constant(default, value.dtype), value)
        return tf.reshape(filled, [-1, *spec.shape])
    rows = tf.where(~missing)
    # The lines below use few operations, because each operation is traced for every column, saved
    # with the model, and loaded.
    shape = tf.concat([tf.shape(value, tf.int64), [1]], 0)
    return tf.SparseTensor(tf.pad(rows, [[0, 0], [0, 1]]), tf.gather_nd(value, rows), shape)


def _answer(output: tf.Tensor, served: Served) -> dict[str, tf.Tensor]:
    prefix = f"{served.name}/" if served.name else ""
    output = tf.cast(output, tf.float32)
    if not served.classes:
        return {f"{prefix}value": tf.reshape(output, [-1])}
    if output.shape[-1] == 1:
        output = tf.concat([1 - output, output], axis=1)
    return {f"{prefix}{name}": value for name, value in _named(output, served).items()}


def _named(probabilities: tf.Tensor, served: Served) -> dict[str, tf.Tensor]:
    """Returns `probabilities` [N, classes], and `label` and `text` [N] of the answer."""
    label = tf.argmax(probabilities, axis=-1)
    if served.threshold is not None:
        label = tf.cast(probabilities[:, 1] >= served.threshold, tf.int64)
    names = tf.constant(list(served.classes), tf.string, name=class_names_node(served.name))
    text = tf.gather(names, label)
    return {"probabilities": probabilities, "label": label, "text": text}


def decode_features(stored: StoredImages, options: ImageInputOptions) -> Prepare:
    """Returns the argument `prepare` of `export_model`, which maps parsed features to model inputs.

    The function takes images as they are stored; raw pixels of varying size need their height and
    width. As in the training input, the output is `{"image": [batch, height, width, channels]}`.
    """

    def prepare(features: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        columns = {name: tf.reshape(features[name], [-1]) for name in stored.spec}
        return {IMAGE: _decoded(columns, stored, options)}

    return prepare


def serve_images(
    model: keras.Model, options: ImageInputOptions, class_texts: Sequence[str]
) -> Signature:
    """Returns a signature that takes encoded image files.

    Input: `encoded`, string [N], files such as JPEG or PNG. Output: `probabilities`, float32 [N,
    classes]; `label`, int64 [N], the most probable class; and `text`, string [N], its name.

    Args:
        model: Model that returns probabilities [N, classes].
        options: Options of the training input.
        class_texts: Names of the classes, in the order of their numbers.
    """

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "encoded")], autograph=False)
    def serve(encoded: tf.Tensor) -> dict[str, tf.Tensor]:
        images = _decoded({image_features.ENCODED: encoded}, StoredImages(), options)
        probabilities = model({IMAGE: images}, training=False)
        return _named(tf.cast(probabilities, tf.float32), Served(classes=tuple(class_texts)))

    return serve


def _decoded(
    columns: Mapping[str, tf.Tensor], stored: StoredImages, options: ImageInputOptions
) -> tf.Tensor:
    decode = partial(decode_whole, stored=stored, options=options)
    size = [options.height, options.width, options.channels]
    return tf.map_fn(decode, columns, fn_output_signature=tf.TensorSpec(size, tf.uint8))
