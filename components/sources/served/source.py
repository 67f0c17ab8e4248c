"""Logs of a served model as a `Source`: joins requests, responses and later labels into rows.

The joined rows are staged as Parquet in the workspace, from which each worker then reads a part.
Memory grows with the number of labels, and of requests and responses that are not yet matched.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

from penstock.components.errors import DataError, counted
from penstock.components.files.content import fingerprint, hash_file
from penstock.components.files.find import find
from penstock.components.sources.open import good_tables, open_source
from penstock.components.sources.options import RowFileOptions, Table
from penstock.components.sources.python_values import row_columns
from penstock.components.sources.served.events import (
    Event,
    Row,
    answers,
    asked_rows,
    parsed,
    read_events,
)
from penstock.components.sources.spread import Spread
from penstock.components.sources.staging import StagedSource, stage

REQUEST_ID = "request_id"
_SAMPLED_ROWS = 10_000


@dataclass(frozen=True)
class Requests(RowFileOptions):
    """Logs of a served model, from TensorFlow Serving (PredictionLogs) or KServe's logger.

    Attributes:
        labels_file: Table of labels that arrived after the requests, in any file that is recognised
            as a table; its columns other than `key` are added to the rows with the same key.
        key: Column by which rows and labels are joined.
    """

    kind: str = "requests"
    labels_file: str | None = None
    key: str = REQUEST_ID


def open_requests(inputs: Sequence[str], options: Requests, spread: Spread) -> StagedSource:
    """Opens log files; a folder is read to any depth."""
    listing = find(inputs, "requests")
    first = listing.files[0]
    left_out, labelled = Counter[tuple[str, str]](), Counter[bool]()
    rows = _labelled(_rows(listing.files, left_out), options, labelled)
    sampled = list(islice(rows, _SAMPLED_ROWS))
    columns = row_columns(((row, first) for row in sampled), options)
    place, rows = f"{first}, joined rows", chain(sampled, rows)
    staged = stage(rows, columns, options, place, spread.workspace())
    parts = [f"{counted(n, one)} without a {other}" for (one, other), n in left_out.items()]
    notes = [f"left out: {', '.join(parts)}"] if parts else []
    if not staged.rows:
        raise DataError("; ".join([f"{first}: the logs have no request with a row", *notes]))
    if options.labels_file:
        notes.append(
            f"labels of {options.labels_file}: {labelled[True]:,} of {counted(staged.rows, 'row')} "
            f"have one, {labelled[False]:,} none"
        )
    contents = [*listing.files, *filter(None, [options.labels_file])]
    digests = [(file, hash_file(file).digest) for file in contents]
    return StagedSource.of(
        "requests",
        [staged],
        listing,
        columns=columns,
        fingerprint=fingerprint(f"requests {options.key}", digests),
        notes=tuple(notes),
        options=options,
    )


def _labelled(rows: Iterator[Row], options: Requests, labelled: Counter[bool]) -> Iterator[Row]:
    """Yields the rows; adds the columns that the labels file has for a row's key, if it has any.

    Counts rows with a label in `labelled[True]`, and rows without one in `labelled[False]`.
    """
    labels = _read_labels(options.labels_file, options.key) if options.labels_file else {}
    for row in rows:
        key = row.get(options.key)
        found = {} if key is None else labels.get(_text(key), {})
        if taken := row.keys() & found.keys():
            raise DataError(
                f"{options.labels_file}: column {min(taken)!r} is one of the requests too; "
                "rename it"
            )
        labelled[bool(found)] += 1
        yield {**row, **found}


def _rows(files: Sequence[str], left_out: Counter[tuple[str, str]]) -> Iterator[Row]:
    """Yields the rows of all calls; counts unmatched requests and responses in `left_out`.

    If there are no responses at all, only requests were logged, and all of them become rows.
    """
    waiting: dict[str, Event] = {}
    has_calls = False
    for file in files:
        for event in read_events(file):
            if event.call is None:
                yield from _joined(event, event)
            elif (other := waiting.pop(event.call, None)) is None:
                waiting[event.call] = event
                continue
            elif (event.request is None) == (other.request is None):
                kind = "requests" if event.response is None else "responses"
                raise DataError(f"{event.place} and {other.place}: two {kind} of id {event.call!r}")
            else:
                request, response = (other, event) if event.request is None else (event, other)
                yield from _joined(request, response)
            has_calls = True
    has_responses = any(event.request is None for event in waiting.values())
    for event in waiting.values():
        if event.request is None:
            left_out["response", "request"] += 1
        elif has_calls or has_responses:
            left_out["request", "response"] += 1
        else:
            yield from _joined(event, None)


def _joined(request: Event, response: Event | None) -> Iterator[Row]:
    try:
        rows = asked_rows(parsed(request.request))
        answer = parsed(response.response) if response else None
        found = answers(answer, len(rows)) if response else [{}] * len(rows)
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{request.place}: cannot be read as rows: {error}") from error
    version = request.version or (isinstance(answer, dict) and answer.get("model_version"))
    told = {
        REQUEST_ID: request.call,
        "request_time": request.time_us,
        "model_version": str(version) if version else None,
    }
    own = {name: value for name, value in told.items() if value is not None}
    for row, predicted in zip(rows, found, strict=True):
        if taken := row.keys() & {*predicted, *own}:
            raise DataError(f"{request.place}: a column has the reserved name {min(taken)!r}")
        yield {**row, **predicted, **own}


def _read_labels(path: str, key: str) -> dict[str, Row]:
    source = open_source(path, Table())
    names = [column.name for column in source.columns]
    if key not in names:
        raise DataError(
            f"{path}: has no column {key!r}, by which labels are joined; it has "
            f"{', '.join(names)}; `key` names another"
        )
    labels: dict[str, Row] = {}
    for row in (row for table in good_tables(source) for row in table.to_pylist()):
        if (value := row.pop(key)) is None:
            raise DataError(f"{path}: a row has no {key}; remove it, or give it a key")
        if _text(value) in labels:
            raise DataError(f"{path}: {key} {_text(value)!r} has two labels; leave one")
        labels[_text(value)] = row
    return labels


def _text(key: Any) -> str:
    """Returns a key as text, so that whole numbers of different types match."""
    if isinstance(key, bytes):
        return key.decode()
    return str(int(key)) if isinstance(key, float) and key.is_integer() else str(key)
