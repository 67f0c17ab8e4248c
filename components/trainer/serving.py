"""A signature for people and programs that have columns, not serialised Examples.

In: each raw column by name, [N]; one of lists, a RaggedFeature, [N, longest], where missing values
fill up what is shorter. A column that is left out, or given empty, counts as missing in every row.
Out: of classes the probability of each and the most probable by number and in
words; of a regression the value.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf

from penstock.components.errors import UsageError
from penstock.components.tfrecord.feature_spec import FeatureSpec
from penstock.components.trainer.export import Signature, TransformGraph
from penstock.components.trainer.input.parsing import padded
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
    graph: TransformGraph | None,
    spec: Mapping[str, FeatureSpec],
    served: Mapping[str, Served],
) -> Signature:
    """The signature `serve_columns`, for `export(signatures=...)`.

    Args:
        model: Gives, for each of `served`, probabilities [N, classes], that of the second class
            [N, 1], or a value [N, 1].
        graph: Makes the model's features of the raw ones; None where these are the model's.
        spec: The raw features, without the labels; one value each, or a list of a RaggedFeature.
        served: What each output is, by its name; of a model with one output just that.

    Raises:
        UsageError: Two columns have the same name but for spaces and signs, or a feature is a
            FixedLenSequenceFeature.
    """
    columns = features_by_column_name(spec)
    taken = {column: _taken(name, spec[name]) for column, name in columns.items()}
    # The graph's vocabularies are saved with the model.
    model.raw_features = graph

    def serve(*values: tf.Tensor) -> dict[str, tf.Tensor]:
        rows = tf.reduce_max(tf.stack([tf.shape(value)[0] for value in values]))
        raw = {
            name: _feature(_filled(value, rows), spec[name])
            for name, value in zip(columns.values(), values, strict=True)
        }
        features = padded(graph(raw) if graph else raw, values[0])
        names = input_names(model)
        outputs = model({name: features[name] for name in names or features}, training=False)
        if not isinstance(outputs, dict):
            outputs = dict.fromkeys(served, outputs)
        parts = [_answer(outputs[output], one) for output, one in served.items()]
        return {name: value for part in parts for name, value in part.items()}

    return _with_defaults(serve, taken)


def _taken(name: str, spec: FeatureSpec) -> tf.TensorSpec:
    """What the signature takes for a raw feature."""
    if isinstance(spec, tf.io.FixedLenSequenceFeature):
        raise UsageError(f"{name}: columns of lists are served of a RaggedFeature; give it as one")
    is_list = isinstance(spec, tf.io.RaggedFeature)
    return tf.TensorSpec([None, None] if is_list else [None], spec.dtype)


def _with_defaults(serve: Callable[..., Any], taken: Mapping[str, tf.TensorSpec]) -> Signature:
    """A function of named tensors whose default is the empty one."""
    serve.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(
                name,
                inspect.Parameter.POSITIONAL_OR_KEYWORD,
                default=tf.zeros([0] * spec.shape.rank, spec.dtype),
            )
            for name, spec in taken.items()
        ]
    )
    signature = [tf.TensorSpec(spec.shape, spec.dtype, name) for name, spec in taken.items()]
    return tf.function(serve, input_signature=signature, autograph=False)


def _filled(value: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
    """[rows] or [rows, longest], where the column was not given missing in all of them."""
    default = tf.constant(_MISSING[value.dtype], value.dtype)
    shape = [rows, 1][: value.shape.rank]
    return tf.cond(tf.size(value) > 0, lambda: value, lambda: tf.fill(shape, default))


def _feature(value: tf.Tensor, spec: FeatureSpec) -> Any:
    """The column as parsing gives it: ragged, sparse, or dense with the schema's default."""
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
