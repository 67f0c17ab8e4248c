"""A signature for people and programs that have columns, not serialised Examples.

In: each raw column by name, [N]; a column that is left out, or given empty, counts as missing
in every row. Out: of classes the probability of each and the most probable by number and in
words; of a regression the value.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf

from penstock.components.tfrecord.feature_spec import FeatureSpec
from penstock.components.trainer.export import Signature, TransformGraph
from penstock.components.trainer.model_setup import input_names
from penstock.components.trainer.served_columns import MISSING_INT, features_by_column_name

_MISSING = {tf.int64: MISSING_INT, tf.float32: float("nan"), tf.string: ""}


@dataclass(frozen=True)
class Served:
    """What one output of a model says.

    Attributes:
        name: Before the names of what is served of it, as `price/value`; empty where the model
            has one output.
        classes: The classes in words, by number; empty for a regression.
    """

    name: str = ""
    classes: tuple[str, ...] = ()


def serve_columns(
    model: keras.Model,
    graph: TransformGraph,
    spec: Mapping[str, FeatureSpec],
    served: Mapping[str, Served],
) -> Signature:
    """The signature `serve_columns`, for `export(signatures=...)`.

    Args:
        model: Gives, for each of `served`, probabilities [N, classes], that of the second class
            [N, 1], or a value [N, 1].
        graph: Makes the model's features of the raw ones.
        spec: The raw features, without the labels; one value each.
        served: What each output is, by its name; of a model with one output just that.

    Raises:
        UsageError: Two columns have the same name but for spaces and signs.
    """
    columns = features_by_column_name(spec)
    # The graph's vocabularies are saved with the model.
    model.raw_features = graph

    def serve(*values: tf.Tensor) -> dict[str, tf.Tensor]:
        rows = tf.reduce_max(tf.stack([tf.size(value) for value in values]))
        raw = {
            name: _feature(_filled(value, rows), spec[name])
            for name, value in zip(columns.values(), values, strict=True)
        }
        features = graph(raw)
        names = input_names(model)
        outputs = model({name: features[name] for name in names or features}, training=False)
        if not isinstance(outputs, dict):
            outputs = dict.fromkeys(served, outputs)
        parts = [_answer(outputs[output], one) for output, one in served.items()]
        return {name: value for part in parts for name, value in part.items()}

    dtypes = {column: spec[name].dtype for column, name in columns.items()}
    return _with_defaults(serve, dtypes)


def _with_defaults(serve: Callable[..., Any], dtypes: Mapping[str, tf.DType]) -> Signature:
    """A function of named vectors whose default is the empty one."""
    serve.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(
                name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=tf.constant([], dtype)
            )
            for name, dtype in dtypes.items()
        ]
    )
    signature = [tf.TensorSpec([None], dtype, name) for name, dtype in dtypes.items()]
    return tf.function(serve, input_signature=signature, autograph=False)


def _filled(value: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
    """[rows], where the column was not given missing in all of them."""
    default = tf.constant(_MISSING[value.dtype], value.dtype)
    given = tf.size(value) > 0
    return tf.cond(given, lambda: value, lambda: tf.fill([rows], default))


def _feature(value: tf.Tensor, spec: FeatureSpec) -> tf.Tensor | tf.SparseTensor:
    """The column as parsing gives it: sparse, or dense with the schema's default."""
    if value.dtype == tf.float32:
        missing = tf.math.is_nan(value)
    else:
        missing = value == tf.constant(_MISSING[value.dtype], value.dtype)
    if isinstance(spec, tf.io.FixedLenFeature):
        default = {tf.string: ""}.get(value.dtype, 0)
        filled = tf.where(missing, tf.constant(default, value.dtype), value)
        return tf.reshape(filled, [-1, *spec.shape])
    rows = tf.where(~missing)[:, 0]
    places = tf.stack([rows, tf.zeros_like(rows)], axis=1)
    shape = tf.stack([tf.size(value, tf.int64), tf.constant(1, tf.int64)])
    return tf.SparseTensor(places, tf.boolean_mask(value, ~missing), shape)


def _answer(output: tf.Tensor, served: Served) -> dict[str, tf.Tensor]:
    prefix = f"{served.name}/" if served.name else ""
    output = tf.cast(output, tf.float32)
    if not served.classes:
        return {f"{prefix}value": tf.reshape(output, [-1])}
    if output.shape[-1] == 1:
        output = tf.concat([1 - output, output], axis=1)
    return {f"{prefix}{name}": value for name, value in named(output, served.classes).items()}


def named(probabilities: tf.Tensor, classes: Sequence[str]) -> dict[str, tf.Tensor]:
    """`probabilities` [N, classes], with `label` int64 [N] and `text` string [N] of the highest."""
    label = tf.argmax(probabilities, axis=-1)
    text = tf.gather(tf.constant(list(classes), tf.string), label)
    return {"probabilities": probabilities, "label": label, "text": text}
