"""Rows of columns from the bodies of requests, predictions from the bodies of responses.

A body is JSON of TensorFlow Serving's REST API (KServe's protocol V1), JSON of the open inference
protocol (V2), or tensors by name. A missing value, as `serve_columns` marks it, becomes None.
"""

import base64
import binascii
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from penstock.components.tfrecord.example_proto import parse_example

# As `components.trainer.served_columns`: neither JSON nor integer tensors have null.
_MISSING_INT = -(2**63)
PREDICTION, PROBABILITY = "prediction", "probability"
Row = dict[str, Any]


def json_rows(body: Any) -> list[Row]:
    """Returns the rows of a request's body in JSON.

    Raises:
        ValueError: The body has no columns by name.
    """
    if not isinstance(body, dict):
        raise ValueError(f"the request is {type(body).__name__}, expected an object")
    if isinstance(body.get("instances"), list):
        return [_instance(one) for one in body["instances"]]
    inputs = body.get("inputs")
    if isinstance(inputs, list):
        inputs = {one["name"]: _reshaped(one) for one in inputs}
    if not isinstance(inputs, dict):
        raise ValueError("the request has no 'instances' and no 'inputs'")
    # TensorFlow Serving takes a value without its list for a single row.
    lists = {name: one if isinstance(one, list) else [one] for name, one in inputs.items()}
    return rows_of(lists)


def json_predictions(body: Any, rows: int) -> list[Row]:
    """Returns the predictions of a response's body in JSON, one for each of the rows."""
    if not isinstance(body, dict):
        raise ValueError(f"the response is {type(body).__name__}, expected an object")
    if isinstance(body.get("predictions"), list):
        found = [one if isinstance(one, dict) else {PREDICTION: one} for one in body["predictions"]]
    else:
        outputs = body.get("outputs")
        if isinstance(outputs, list) and outputs and isinstance(outputs[0], dict):
            outputs = {one["name"]: _reshaped(one) for one in outputs}
        if outputs is None:
            raise ValueError("the response has no 'predictions' and no 'outputs'")
        found = rows_of(outputs if isinstance(outputs, dict) else {PREDICTION: outputs})
    return predictions(found, rows)


def rows_of(tensors: Mapping[str, Any]) -> list[Row]:
    """Returns rows from columns [rows] or [rows, longest]; serialized Examples become columns."""
    columns = {name: values for name, values in tensors.items() if len(values)}
    if len({len(values) for values in columns.values()}) > 1:
        sizes = ", ".join(f"{name} {len(values)}" for name, values in columns.items())
        raise ValueError(f"the columns have different numbers of rows: {sizes}")
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return [_instance(row) for row in rows]


def predictions(found: Sequence[Mapping[str, Any]], rows: int) -> list[Row]:
    """Returns `prediction` and `probability` of each row, named as by `penstock predict`.

    A single output is the prediction; several are named `prediction_NAME`.
    """
    if len(found) != rows:
        raise ValueError(f"{len(found)} predictions for {rows} rows")
    return [_prediction(one) for one in found]


def _prediction(outputs: Mapping[str, Any]) -> Row:
    named: Row = {}
    for name, value in outputs.items():
        prefix, _, part = name.rpartition("/")
        prefix += "/" if prefix else ""
        if part == "probabilities" and isinstance(value, list | np.ndarray):
            named[f"{prefix}{PROBABILITY}"] = float(max(value))
        elif part in ("text", "value", PREDICTION) or len(outputs) == 1:
            named[f"{prefix}{PREDICTION}"] = _plain(value)
        elif part != "label" or f"{prefix}text" not in outputs:
            named[f"{PREDICTION}_{name}"] = _plain(value)
    return named


def _reshaped(tensor: Mapping[str, Any]) -> list[Any]:
    """Returns the data of a tensor of protocol V2, which may be flat, as one item a row."""
    data, shape = tensor["data"], tensor["shape"]
    if len(shape) > 1 and data and not isinstance(data[0], list):
        width = math.prod(shape[1:])
        return [data[at : at + width] for at in range(0, len(data), width)]
    return list(data)


def _instance(one: Any) -> Row:
    """Returns a row: an object by column, or a serialized Example alone or as its only value."""
    if isinstance(one, dict) and set(one) != {"b64"}:
        [only, *more] = one.values() or [None]
        example = None if more else _example(only)
        if example is None:
            return {name: _plain(value) for name, value in one.items()}
        return example
    example = _example(one)
    if example is None:
        raise ValueError(f"a row is {str(one)[:40]!r}, expected an object with columns by name")
    return example


def _example(value: Any) -> Row | None:
    if isinstance(value, dict) and set(value) == {"b64"}:
        value = _decoded(value["b64"])
    if not isinstance(value, bytes):
        return None
    message: Any = parse_example(value)
    if message is None or not message.context.feature:
        return None  # almost any short text can be parsed as a message without fields
    return {name: _feature(feature) for name, feature in sorted(message.context.feature.items())}


def _feature(feature: Any) -> Any:
    kind = feature.WhichOneof("kind")
    values = [_plain(value) for value in getattr(feature, kind).value] if kind else []
    return values if len(values) > 1 else next(iter(values), None)


def _plain(value: Any) -> Any:
    """Returns a value as JSON has it; None if it is missing."""
    if isinstance(value, np.ndarray | list):
        values = [_plain(item) for item in value]
        if isinstance(value, np.ndarray) and len(values) == 1:
            return values[0]
        while values and values[-1] is None:
            values.pop()  # a list is filled up to the longest of its batch
        return values
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, dict) and set(value) == {"b64"}:
        value = _decoded(value["b64"])
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


def _decoded(text: Any) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (TypeError, binascii.Error) as error:
        raise ValueError(f"{str(text)[:40]!r} is not base64") from error
