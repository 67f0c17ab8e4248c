"""Requests and responses of one log file, in any of the forms in which they are kept.

TFRecords of TensorFlow Serving's PredictionLog have both in one record. KServe's logger writes one
event for the request and one for the response, with the same id: CloudEvents, which a collector
keeps as JSON lines, or its own records in JSON or (as of 0.17) Parquet.
"""

import base64
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.components.errors import DataError, short_error
from penstock.components.files.content import open_data
from penstock.components.magic import PARQUET_MAGIC
from penstock.components.tfrecord.prediction_log import parse_prediction
from penstock.components.tfrecord.records import RecordReader

_REQUEST, _RESPONSE = ".request", ".response"


@dataclass(frozen=True)
class Event:
    """A request, a response, or a whole call, which has both.

    Attributes:
        place: File and record, for messages.
        call: Id that request and response share; None for a whole call.
        time_us: Time in microseconds since 1970, UTC; None if unknown.
        version: Version of the model; none if the response may tell it.
        request: Body, see `payloads`, or its JSON; anything if the server refused it.
        response: The same of the response.
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
        DataError: The file is no such log, or a record of it is damaged.
    """
    with open_data(path) as file:
        head = file.read(64).lstrip()
    read = _tfrecord
    if head.startswith(PARQUET_MAGIC):
        read = _parquet
    elif head.startswith((b"{", b"[")):
        read = _json
    number = 1  # of the record that is read
    try:
        for record in read(path):
            place = f"{path}: record {number}"
            if event := _of_call(place, record) if read is _tfrecord else _of_record(place, record):
                yield event
            number += 1
    # An OSError of Arrow: version 10 cannot decode the Parquet of KServe's logger.
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
    """Yields the objects of JSON lines, and those of a list in one line."""
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
    """Returns the call of Predict in a PredictionLog; None for another kind of call."""
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
    """Returns a CloudEvent or a record of KServe's logger; None for a body that is empty.

    The logger keeps all calls, also those for the server's health, which ask nothing.
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
    """Parses an RFC 3339 time; Python 3.10 knows neither `Z` nor nanoseconds."""
    [time] = pa.array([text]).cast(pa.timestamp("ns", "UTC")).cast(pa.int64()).to_pylist()
    return int(time) // 1000
