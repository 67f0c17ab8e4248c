"""Rows of columns from the bodies of requests, predictions from the bodies of responses.

A body is JSON of TensorFlow Serving's REST API (KServe's protocol V1) or of the open inference
protocol (V2), or has tensors by name, as NumPy arrays, where V1 has columns. A missing value, as
`serve_columns` marks it, becomes None.
"""

import base64
import binascii
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from penstock.components.tfrecord.example_proto import parse_example

# As `components.trainer.served_columns`: neither JSON nor integer tensors have null.
_MISSING_INT = -(2**63)
PREDICTION, PROBABILITY = "prediction", "probability"
Row = dict[str, Any]


def asked_rows(body: Any) -> list[Row]:
    """Returns the rows of a request's body; ValueError if it has no columns by name."""
    return [_row(one) for one in _items(body, "instances", "inputs")]


def answers(body: Any, rows: int) -> list[Row]:
    """Returns `prediction` and `probability` of each of the rows, named as by `penstock predict`.

    A single output is the prediction; several are named `prediction_NAME`.
    """
    found = _items(body, "predictions", "outputs")
    if len(found) != rows:
        raise ValueError(f"{len(found)} predictions for {rows} rows")
    return [_prediction(one if isinstance(one, dict) else {PREDICTION: one}) for one in found]


def _items(body: Any, by_row: str, by_column: str) -> list[Any]:
    """Returns one item a row; a dict where the body has names."""
    found = body if isinstance(body, dict) else {}
    if isinstance(found.get(by_row), list):
        return list(found[by_row])
    tensors = found.get(by_column)
    if isinstance(tensors, list):
        if not tensors or not isinstance(tensors[0], dict):
            return tensors
        tensors = {one["name"]: _reshaped(one) for one in tensors}
    if not isinstance(tensors, dict):
        raise ValueError(f"the body has no {by_row!r} and no {by_column!r}")
    return _transposed(tensors)


def _reshaped(tensor: Mapping[str, Any]) -> list[Any]:
    """Returns the data of a tensor of protocol V2, which may be flat, as one item a row."""
    data, shape = tensor["data"], tensor["shape"]
    if len(shape) > 1 and data and not isinstance(data[0], list):
        width = math.prod(shape[1:])
        return [data[at : at + width] for at in range(0, len(data), width)]
    return list(data)


def _transposed(tensors: Mapping[str, Any]) -> list[Row]:
    # TensorFlow Serving takes a value without its list for a single row.
    lists = {n: one if isinstance(one, list | np.ndarray) else [one] for n, one in tensors.items()}
    columns = {name: values for name, values in lists.items() if len(values)}
    if len({len(values) for values in columns.values()}) > 1:
        sizes = ", ".join(f"{name} {len(values)}" for name, values in columns.items())
        raise ValueError(f"the columns have different numbers of rows: {sizes}")
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _row(one: Any) -> Row:
    """Returns a row: an object by column, or a serialized Example alone or as its only value."""
    is_object = isinstance(one, dict) and set(one) != {"b64"}
    values = list(one.values()) if is_object else [one]
    if len(values) == 1 and (example := _example(values[0])):
        return example
    if not is_object:
        raise ValueError(f"a row is {str(one)[:40]!r}, expected an object with columns by name")
    return {name: _plain(value) for name, value in one.items()}


def _example(value: Any) -> Row:
    """Returns the columns of a serialized Example; none of another value.

    Almost any short text can be parsed as a message without fields.
    """
    value = _decoded(value)
    message: Any = parse_example(value) if isinstance(value, bytes) else None
    if message is None:
        return {}
    return {name: _feature(feature) for name, feature in sorted(message.context.feature.items())}


def _feature(feature: Any) -> Any:
    kind = feature.WhichOneof("kind")
    values = [_plain(value) for value in getattr(feature, kind).value] if kind else []
    return values if len(values) > 1 else next(iter(values), None)


def _prediction(outputs: Mapping[str, Any]) -> Row:
    named: Row = {}
    for name, value in outputs.items():
        prefix, slash, part = name.rpartition("/")
        prefix += slash
        if part == "probabilities" and isinstance(value, list | np.ndarray):
            named[f"{prefix}{PROBABILITY}"] = float(max(value))
        elif part in ("text", "value", PREDICTION) or len(outputs) == 1:
            named[f"{prefix}{PREDICTION}"] = _plain(value)
        elif part != "label" or f"{prefix}text" not in outputs:
            named[f"{PREDICTION}_{name}"] = _plain(value)
    return named


def _plain(value: Any) -> Any:
    """Returns a value as JSON has it; None if it is missing."""
    if isinstance(value, np.ndarray | list):
        values = [_plain(item) for item in value]
        if isinstance(value, np.ndarray) and len(values) == 1:
            return values[0]
        while values and values[-1] is None:
            values.pop()  # a list is filled up to the longest of its batch
        return values
    value = _decoded(value.item() if isinstance(value, np.generic) else value)
    if isinstance(value, bytes):
        value = text_of(value)
    is_missing = value in ("", _MISSING_INT) or (isinstance(value, float) and math.isnan(value))
    return None if is_missing else value


def text_of(value: bytes) -> str:
    """Returns bytes as text, or in base64 if they are no text, such as an image."""
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return base64.b64encode(value).decode()


def _decoded(value: Any) -> Any:
    """Returns the bytes that TensorFlow Serving's JSON has in base64; other values unchanged."""
    if not isinstance(value, dict) or set(value) != {"b64"}:
        return value
    try:
        return base64.b64decode(value["b64"], validate=True)
    except (TypeError, binascii.Error) as error:
        raise ValueError(f"{str(value['b64'])[:40]!r} is not base64") from error
