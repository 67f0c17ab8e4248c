"""`tf.train` protos of Python values: for rows made in Python, a notebook's or a test's.

`coercion.py` has the table of what becomes what. Rows by the million go through
`encoder.py`, which encodes columns of Arrow arrays at a hundredth of the cost.

A serialized tensor in a feature is read back, in a `preprocessing_fn` or an `input_fn` too, by

    tf.io.parse_tensor(parsed["image"], out_type=tf.uint8)
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from penstock.components.errors import DataError
from penstock.components.tfrecord.coercion import Coerced, coerce, unwrap
from penstock.components.tfrecord.feature_kind import FeatureKind

if TYPE_CHECKING:
    import tensorflow as tf


def feature(
    value: Any, *, name: str = "value", kind: FeatureKind | None = None
) -> "tf.train.Feature":
    """One feature.

    Args:
        value: See `coercion.py`; None gives a feature without a value, which parses as missing
            and is what `encoder.py` writes for a null.
        name: What messages call it.
        kind: The kind that it must have; needed for an empty list.

    Raises:
        DataError: The value has no place in a feature.
    """
    return _proto(coerce(value, name, kind), name)


def example(
    values: Mapping[str, Any], *, kinds: Mapping[str, FeatureKind] | None = None
) -> "tf.train.Example":
    """One row.

    Args:
        values: Value of each feature, by name.
        kinds: Kinds of those that must have one, by name.

    Raises:
        DataError: Names the feature and what is wrong with it.
    """
    import tensorflow as tf

    return tf.train.Example(features=_features(values, kinds or {}))


def sequence_example(
    context: Mapping[str, Any],
    feature_lists: Mapping[str, Any],
    *,
    kinds: Mapping[str, FeatureKind] | None = None,
) -> "tf.train.SequenceExample":
    """One sequence: features of the whole and features of each step.

    Args:
        context: Value of each feature of the whole, by name.
        feature_lists: Steps of each feature, by name: a list, tuple or array whose first
            dimension is the steps. One kind serves all steps of a list: int and float steps
            become float, an empty step takes the kind of the others. None is no steps.
        kinds: Kinds of those that must have one, in context and feature lists, by name.

    Raises:
        DataError: Names the feature, the step and what is wrong with it.
    """
    import tensorflow as tf

    kinds = kinds or {}
    lists = {
        name: tf.train.FeatureList(feature=_steps(name, steps, kinds.get(name)))
        for name, steps in feature_lists.items()
    }
    return tf.train.SequenceExample(
        context=_features(context, kinds), feature_lists=tf.train.FeatureLists(feature_list=lists)
    )


def _features(values: Mapping[str, Any], kinds: Mapping[str, FeatureKind]) -> "tf.train.Features":
    import tensorflow as tf

    protos = {}
    for name, value in values.items():
        if not isinstance(name, str):
            raise DataError(f"feature name {name!r} is of type {type(name).__name__}, expected str")
        protos[name] = feature(value, name=name, kind=kinds.get(name))
    return tf.train.Features(feature=protos)


def _steps(name: str, value: Any, kind: FeatureKind | None) -> list["tf.train.Feature"]:
    """The features of one feature list, all of one kind."""
    steps = _listed(name, value)
    kind = kind or _kind_of_steps(name, steps)
    return [_proto(coerce(step, f"{name}[{i}]", kind), name) for i, step in enumerate(steps)]


def _listed(name: str, value: Any) -> Sequence[Any]:
    value = unwrap(value)
    if value is None:
        return []
    if not isinstance(value, (list, tuple, range)) and not getattr(value, "ndim", 0):
        raise DataError(
            f"feature list {name!r}: type {type(value).__name__}, expected a list, tuple or array "
            "whose first dimension is the steps"
        )
    missing = [index for index, step in enumerate(value) if step is None]
    if missing:
        raise DataError(
            f"feature list {name!r}: step {missing[0]} is None; parsers need a value at each step, "
            "give an empty list where there is none"
        )
    return value


def _kind_of_steps(name: str, steps: Sequence[Any]) -> FeatureKind | None:
    """The one kind that serves all steps; None where there are no steps."""
    first: dict[FeatureKind, int] = {}
    for index, step in enumerate(steps):
        coerced = None if _is_empty(step) else coerce(step, f"{name}[{index}]")
        if coerced is not None:
            first.setdefault(coerced.kind, index)
    if FeatureKind.BYTES in first and len(first) > 1:
        places = " and ".join(f"{kind.value} at step {index}" for kind, index in first.items())
        raise DataError(f"feature list {name!r}: {places}; all steps must be of one kind")
    if FeatureKind.FLOAT in first:
        return FeatureKind.FLOAT
    return next(iter(first), None)


def _is_empty(step: Any) -> bool:
    step = unwrap(step)
    if isinstance(step, np.ndarray):
        return step.size == 0
    return isinstance(step, (list, tuple, range)) and len(step) == 0


def _proto(coerced: Coerced | None, name: str) -> "tf.train.Feature":
    import tensorflow as tf

    if coerced is None:
        return tf.train.Feature()
    if coerced.tensor is not None:
        serialized = _serialized(coerced.tensor, name)
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=[serialized]))
    if coerced.kind is FeatureKind.BYTES:
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=coerced.values))
    if coerced.kind is FeatureKind.FLOAT:
        return tf.train.Feature(float_list=tf.train.FloatList(value=coerced.values))
    return tf.train.Feature(int64_list=tf.train.Int64List(value=coerced.values))


def _serialized(array: npt.NDArray[Any], name: str) -> bytes:
    import tensorflow as tf

    try:
        return bytes(tf.io.serialize_tensor(tf.constant(array)).numpy())
    except (TypeError, ValueError, tf.errors.OpError) as error:
        raise DataError(
            f"feature {name!r}: TensorFlow has no tensor of dtype {array.dtype}; convert it"
        ) from error
