"""Reads requests and responses from one log file of a served model.

In TFRecords with TensorFlow Serving's PredictionLogs, one record contains both the request and the
response. KServe's logger writes one event for the request and one for the response, with the same
id. The events are CloudEvents, which a collector stores as JSON lines, or KServe's own records in
JSON or (as of KServe 0.17) Parquet.

A body is JSON of TensorFlow Serving's REST API (KServe's protocol V1) or of the open inference
protocol (V2). A PredictionLog's body becomes a dict in the columnar form of V1, with a NumPy array
for each tensor. In the rows, a missing value is None; in requests, it is one of the markers that
the serving signature `serve_columns` expects, such as NaN.
"""

import base64
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.components.errors import DataError, short_error
from penstock.components.files.content import open_data
from penstock.components.magic import PARQUET_MAGIC
from penstock.components.tfrecord.example_proto import parse_example
from penstock.components.tfrecord.prediction_log import parse_prediction
from penstock.components.tfrecord.records import RecordReader

_REQUEST, _RESPONSE = ".request", ".response"
# This value marks a missing integer, because integer tensors have no null.
# `components.trainer.served_columns` uses the same value.
_MISSING_INT = -(2**63)
PREDICTION, PROBABILITY = "prediction", "probability"
Row = dict[str, Any]


@dataclass(frozen=True)
class Event:
    """A request, a response, or a whole call, which has both.

    Attributes:
        place: File and record, for messages.
        call: Id that request and response share; None for a whole call.
        time_us: Time in microseconds since 1970, UTC; None if unknown.
        version: Version of the model; None if it is unknown, or if only the response's body names
            it.
        request: Body of the request, as a dict or as JSON text; may be anything if the server
            refused it.
        response: Body of the response, as a dict or as JSON text.
    """

    place: str
    call: str | None
    time_us: int | None
    version: int | None
    request: Any = None
    response: Any = None


def read_events(path: str) -> Iterator[Event]:
    """Yields the events of a file.

    Raises:
        DataError: The file is not a log of TensorFlow Serving or KServe, or one of its records is
            damaged.
    """
    with open_data(path) as file:
        head = file.read(64).lstrip()
    read = _tfrecord
    if head.startswith(PARQUET_MAGIC):
        read = _parquet
    elif head.startswith((b"{", b"[")):
        read = _json
    number = 1  # current record, from 1
    try:
        for record in read(path):
            place = f"{path}: record {number}"
            if event := _of_call(place, record) if read is _tfrecord else _of_record(place, record):
                yield event
            number += 1
    # An OSError is from Arrow: version 10 cannot decode the Parquet of KServe's logger.
    except (ValueError, KeyError, TypeError, AttributeError, pa.ArrowException, OSError) as error:
        raise DataError(
            f"{path}: record {number} cannot be read ({short_error(error)}); expected "
            "PredictionLogs of TensorFlow Serving, or CloudEvents or records of KServe's logger"
        ) from error


def _parquet(path: str) -> Iterator[Any]:
    with open_data(path) as file:
        for batch in pq.ParquetFile(file).iter_batches():
            yield from batch.to_pylist()


def _json(path: str) -> Iterator[Any]:
    """Yields the objects of JSON lines; a line may also be a list of objects."""
    with open_data(path) as file:
        for line in file:
            if line.strip():
                found = json.loads(line)
                yield from found if isinstance(found, list) else [found]


def _tfrecord(path: str) -> Iterator[Any]:
    with open_data(path) as file:
        for record in RecordReader(file, path).records():
            yield record.payload


def _of_call(place: str, payload: bytes) -> Event | None:
    """Returns the call of Predict in a PredictionLog; None for other kinds of calls."""
    found = parse_prediction(payload)
    if found is None:
        return None
    log, inputs, outputs = found
    versions = [log.log_metadata.model_spec.version, log.predict_log.response.model_spec.version]
    return Event(
        place,
        None,
        log.log_metadata.timestamp_secs * 1_000_000 or None,
        versions[0].value or versions[1].value,
        {"inputs": inputs},
        {"outputs": outputs},
    )


def _of_record(place: str, record: Mapping[str, Any]) -> Event | None:
    """Converts a CloudEvent or a record of KServe's logger; returns None if its body is empty.

    The logger keeps all calls, including health checks of the server, which have no body.
    """
    kind = record.get("type") or record.get("reqType")
    time = record.get("time") or record.get("occurrenceTime")
    if not isinstance(kind, str) or not kind.endswith((_REQUEST, _RESPONSE)):
        raise ValueError(f"its type is {kind!r}, expected ...{_REQUEST} or ...{_RESPONSE}")
    coded = record.get("data_base64") or record.get("bytes")
    body = base64.b64decode(coded) if coded else record.get("data")
    if body in (None, ""):
        return None
    sides = {"request": body} if kind.endswith(_REQUEST) else {"response": body}
    return Event(place, str(record["id"]), _microseconds(time) if time else None, None, **sides)


def _microseconds(text: str) -> int:
    """Parses an RFC 3339 time; `datetime` of Python 3.10 parses neither `Z` nor nanoseconds."""
    [time] = pa.array([text]).cast(pa.timestamp("ns", "UTC")).cast(pa.int64()).to_pylist()
    return int(time) // 1000


def parsed(body: Any) -> Any:
    """Parses a body that is JSON, as text or bytes; returns other bodies unchanged."""
    return json.loads(body) if isinstance(body, str | bytes) else body


def asked_rows(body: Any) -> list[Row]:
    """Returns the rows of a request's body; raises ValueError if it has no named columns."""
    return [_row(one) for one in _items(body, "instances", "inputs")]


def answers(body: Any, rows: int) -> list[Row]:
    """Returns the outputs of each row, by the column names that `penstock predict` uses.

    A single output, or one that is named `text`, `value` or `prediction`, becomes `prediction`. The
    largest of `probabilities` becomes `probability`, a `label` beside a `text` is left out, and any
    other output becomes `prediction_NAME`.
    """
    found = _items(body, "predictions", "outputs")
    if len(found) != rows:
        raise ValueError(f"{len(found)} predictions for {rows} rows")
    return [_prediction(one if isinstance(one, dict) else {PREDICTION: one}) for one in found]


def _items(body: Any, by_row: str, by_column: str) -> list[Any]:
    """Returns one item per row; an item is a dict if the body names its columns."""
    found = body if isinstance(body, dict) else {}
    if isinstance(found.get(by_row), list):
        return list(found[by_row])
    tensors = found.get(by_column)
    if isinstance(tensors, list) and not all(isinstance(one, dict) for one in tensors):
        return tensors
    if isinstance(tensors, list):  # protocol V2, where data may be flat
        tensors = {one["name"]: np.array(one["data"], object).reshape(one["shape"])
                   for one in tensors}  # fmt: skip
    if not isinstance(tensors, dict):
        raise ValueError(f"the body has no {by_row!r} and no {by_column!r}")
    # For a single row, TensorFlow Serving accepts a bare value instead of a list.
    lists = {n: one if isinstance(one, list | np.ndarray) else [one] for n, one in tensors.items()}
    columns = {name: values for name, values in lists.items() if len(values)}
    if len({len(values) for values in columns.values()}) > 1:
        sizes = ", ".join(f"{name} {len(values)}" for name, values in columns.items())
        raise ValueError(f"the columns have different numbers of rows: {sizes}")
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _row(one: Any) -> Row:
    """Returns a row's columns; the row is a dict of columns, or holds one serialized Example."""
    is_object = isinstance(one, dict) and set(one) != {"b64"}
    values = list(one.values()) if is_object else [one]
    if len(values) == 1 and (example := _example(_decoded(values[0]))):
        return example
    if not is_object:
        raise ValueError(f"a row is {str(one)[:40]!r}, expected an object with columns by name")
    return {name: _plain(value) for name, value in one.items()}


def _example(value: Any) -> Row:
    """Returns the columns of a serialized Example; an empty dict for any other value."""
    message: Any = parse_example(value) if isinstance(value, bytes) else None
    if message is None:
        return {}
    return {name: _feature(feature) for name, feature in sorted(message.context.feature.items())}


def _feature(feature: Any) -> Any:
    kind = feature.WhichOneof("kind")
    return _plain(np.array(getattr(feature, kind).value, object)) if kind else None


def _prediction(outputs: Mapping[str, Any]) -> Row:
    named: Row = {}
    for name, value in outputs.items():
        part = name.rpartition("/")[2]
        prefix = name.removesuffix(part)
        if part == "probabilities" and isinstance(value, list | np.ndarray):
            named[f"{prefix}{PROBABILITY}"] = float(max(value))
        elif part in ("text", "value", PREDICTION) or len(outputs) == 1:
            named[f"{prefix}{PREDICTION}"] = _plain(value)
        elif part != "label" or f"{prefix}text" not in outputs:
            named[f"{PREDICTION}_{name}"] = _plain(value)
    return named


def _plain(value: Any) -> Any:
    """Returns a Python value: an array of one value becomes that value, a missing value None."""
    if isinstance(value, np.ndarray):
        value = value.item() if value.size == 1 else value.tolist()
    if isinstance(value, list):
        values = [_plain(item) for item in value]
        while values and values[-1] is None:
            values.pop()  # lists are padded to the longest of their batch
        return values
    value = _decoded(value.item() if isinstance(value, np.generic) else value)
    is_missing = value in ("", b"", _MISSING_INT) or (
        isinstance(value, float) and math.isnan(value)
    )
    return None if is_missing else value


def _decoded(value: Any) -> Any:
    """Decodes `{"b64": ...}`, the JSON form of bytes; returns other values unchanged."""
    is_coded = isinstance(value, dict) and set(value) == {"b64"}
    return base64.b64decode(value["b64"], validate=True) if is_coded else value
