"""Requests and responses of one log file, in any of the forms in which they are kept.

TFRecords of TensorFlow Serving's PredictionLog have both in one record. KServe's logger writes one
event for the request and one for the response, with the same id: CloudEvents, which a collector
keeps as JSON lines, or its own records in JSON or (as of 0.17) Parquet.
"""

import base64
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.components.errors import DataError, short_error
from penstock.components.files.content import open_data
from penstock.components.magic import PARQUET_MAGIC
from penstock.components.sources.served.payloads import (
    Row,
    json_predictions,
    json_rows,
    predictions,
    rows_of,
)
from penstock.components.sources.served.prediction_log import parse_prediction
from penstock.components.tfrecord.records import RecordReader

_REQUEST, _RESPONSE = ".request", ".response"
_TEXT = (b"{", b"[")
# Names in CloudEvents and in the records of KServe's logger.
_TYPES, _TIMES = ("type", "reqType"), ("time", "occurrenceTime")


@dataclass(frozen=True)
class Event:
    """A request, a response, or a whole call, which has both.

    Attributes:
        place: File and record, for messages.
        call: Id that request and response share; None for a whole call.
        time_us: Time in microseconds since 1970, UTC; None if unknown.
        version: Version of the model; None if unknown.
        request: Body of the request; None if there is none.
        response: Body of the response; None if there is none.
    """

    place: str
    call: str | None
    time_us: int | None
    version: str | None
    request: Any = None
    response: Any = None

    def rows(self) -> list[Row]:
        """Returns the rows that were asked; ValueError if the body has none."""
        if isinstance(self.request, _Tensors):
            return rows_of(self.request.arrays)
        return json_rows(self.request)

    def predictions(self, rows: int) -> list[Row]:
        """Returns the answer to each of the rows; ValueError if the body has other ones."""
        if isinstance(self.response, _Tensors):
            return predictions(rows_of(self.response.arrays), rows)
        return json_predictions(self.response, rows)


@dataclass(frozen=True)
class _Tensors:
    arrays: Mapping[str, Any]


def read_events(path: str) -> Iterator[Event]:
    """Yields the events of a file.

    Raises:
        DataError: The file is no such log, or a record of it is damaged.
    """
    with open_data(path) as file:
        head = file.read(64).lstrip()
    number = 1  # of the record that is read
    try:
        if head.startswith(PARQUET_MAGIC):
            records: Iterator[Any] = _parquet(path)
        elif head.startswith(_TEXT):
            records = _json(path)
        else:
            records = _tfrecord(path)
        for record in records:
            place = f"{path}: record {number}"
            event = _call(place, record) if isinstance(record, bytes) else _event(place, record)
            if event is not None:
                yield event
            number += 1
    except (ValueError, KeyError, TypeError, AttributeError, pa.ArrowException) as error:
        raise DataError(
            f"{path}: record {number} cannot be read ({short_error(error)}); expected "
            "PredictionLogs of TensorFlow Serving, or CloudEvents or records of KServe's logger"
        ) from error


def _parquet(path: str) -> Iterator[Mapping[str, Any]]:
    with open_data(path) as file:
        for batch in pq.ParquetFile(file).iter_batches():
            yield from batch.to_pylist()


def _json(path: str) -> Iterator[Mapping[str, Any]]:
    """Yields the objects of JSON lines, and those of a list in one line."""
    with open_data(path) as file:
        for line in file:
            if line.strip():
                found = json.loads(line)
                yield from found if isinstance(found, list) else [found]


def _tfrecord(path: str) -> Iterator[bytes]:
    with open_data(path) as file:
        for record in RecordReader(file, path).records():
            yield record.payload


def _call(place: str, payload: bytes) -> Event | None:
    found = parse_prediction(payload)
    if found is None:
        return None
    return Event(
        place,
        None,
        found.seconds * 1_000_000 or None,
        str(found.version) if found.version else None,
        _Tensors(found.inputs),
        _Tensors(found.outputs),
    )


def _event(place: str, record: Mapping[str, Any]) -> Event:
    kind, time = _first(record, _TYPES), _first(record, _TIMES)
    if not isinstance(kind, str) or not kind.endswith((_REQUEST, _RESPONSE)):
        raise ValueError(f"its type is {kind!r}, expected ...{_REQUEST} or ...{_RESPONSE}")
    body = _body(record)
    is_request = kind.endswith(_REQUEST)
    version = None if is_request or not isinstance(body, dict) else body.get("model_version")
    return Event(
        place,
        str(record["id"]),
        _microseconds(time) if time else None,
        str(version) if version else None,
        body if is_request else None,
        None if is_request else body,
    )


def _first(record: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    return next((record[name] for name in names if record.get(name)), None)


def _body(record: Mapping[str, Any]) -> Any:
    if "data" in record:
        data = record["data"]
        return json.loads(data) if isinstance(data, str) else data
    return json.loads(base64.b64decode(record.get("data_base64") or record["bytes"]))


def _microseconds(text: str) -> int:
    """Parses an RFC 3339 time; Python 3.10 knows neither `Z` nor nanoseconds."""
    whole, dot, rest = text.replace("Z", "+00:00").partition(".")
    if dot:
        digits = rest[: len(rest) - len(rest.lstrip("0123456789"))]
        whole += f".{digits[:6]:0<6}{rest[len(digits) :]}"
    return round(datetime.fromisoformat(whole).timestamp() * 1_000_000)
