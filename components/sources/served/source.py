"""Logs of a served model as a `Source`: joins requests, responses and later labels to rows.

The joined rows are staged as JSON lines in the workspace, which workers then read in any parts.
Memory grows with the requests that wait for their response, and with the labels.
"""

import json
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

from penstock.components.errors import DataError, counted
from penstock.components.files.content import fingerprint, hash_file
from penstock.components.files.find import find
from penstock.components.sources.base import Batch
from penstock.components.sources.jsonl import JsonLines, JsonLinesSource, open_json_lines
from penstock.components.sources.kinds import as_options_of
from penstock.components.sources.open import good_tables, open_source
from penstock.components.sources.options import Table
from penstock.components.sources.served.events import Event, read_events
from penstock.components.sources.served.options import REQUEST_ID, Requests
from penstock.components.sources.served.payloads import Row, answers, asked_rows, text_of
from penstock.components.sources.spread import Spread
from penstock.components.sources.text.blocks import RowBlock, RowPlace

TIME, VERSION = "request_time", "model_version"


@dataclass(frozen=True, eq=False, kw_only=True)
class RequestsSource(JsonLinesSource):
    place: str  # What the joined rows were read from, for messages.

    def batches(self, block: RowBlock, place: RowPlace) -> Iterator[Batch]:
        return super().batches(block, place._replace(file=self.place))


def open_requests(inputs: Sequence[str], options: Requests, spread: Spread) -> JsonLinesSource:
    """Opens log files; a folder is read to any depth, since KServe keeps one object per event."""
    listing = find(inputs, "requests")
    contents = list(listing.files)
    labels: dict[str, Row] = {}
    if options.labels_file:
        contents.append(options.labels_file)
        labels = _read_labels(options.labels_file, options.key)
    counts: Counter[str] = Counter()
    name, workspace = f"requests-{uuid.uuid4().hex}.jsonl", spread.workspace()
    with workspace.new_try() as folder:
        with open(folder / name, "w", encoding="utf-8") as out:
            for row in _rows(listing.files, counts):
                key = row.get(options.key)
                found = {} if key is None else labels.get(_text(key), {})
                if taken := row.keys() & found.keys():
                    raise DataError(
                        f"{options.labels_file}: column {min(taken)!r} is one of the requests "
                        "too; rename it"
                    )
                out.write(json.dumps({**row, **found}) + "\n")
                counts.update(rows=1, labelled=bool(found))
        workspace.take(folder)
    if not counts["rows"]:
        raise DataError(
            f"{contents[0]}: the logs have no request with a row; {', '.join(_left_out(counts))}"
        )
    json_options: Any = as_options_of("jsonl", options)
    assert isinstance(json_options, JsonLines)
    source = open_json_lines([workspace.place(name)], json_options, spread)
    notes = _left_out(counts)
    if options.labels_file:
        rows, labelled = counts["rows"], counts["labelled"]
        notes.append(
            f"labels of {options.labels_file}: {labelled:,} of {counted(rows, 'row')} have one, "
            f"{rows - labelled:,} none"
        )
    digests = [(file, hash_file(file).digest) for file in contents]
    staged = {one.name: getattr(source, one.name) for one in fields(source)}
    of_logs = {
        "kind": "requests",
        "files": tuple(listing.files),
        "ignored": tuple(listing.ignored),
        "fingerprint": fingerprint(f"requests {options.key}", digests),
        "notes": tuple(notes),
    }
    return RequestsSource(**{**staged, **of_logs}, place=f"{contents[0]}, joined rows")


def _rows(files: Sequence[str], counts: Counter[str]) -> Iterator[Row]:
    """Yields the rows of all calls; counts requests without a response, and the contrary.

    If there are no responses at all, only requests were logged: all of them become rows.
    """
    waiting: dict[str, Event] = {}
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
            counts["calls"] += 1
    counts["responses"] = sum(1 for event in waiting.values() if event.request is None)
    requests = [event for event in waiting.values() if event.request is not None]
    if counts["calls"] or counts["responses"]:
        counts["requests"] = len(requests)
    else:
        for event in requests:
            yield from _joined(event, None)


def _joined(request: Event, response: Event | None) -> Iterator[Row]:
    try:
        rows = asked_rows(request.request)
        found = answers(response.response, len(rows)) if response else [{}] * len(rows)
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{request.place}: cannot be read as rows: {error}") from error
    told = {
        REQUEST_ID: request.call,
        TIME: request.time_us,
        VERSION: (response.version if response else None) or request.version,
    }
    own = {name: value for name, value in told.items() if value is not None}
    for row, answer in zip(rows, found, strict=True):
        if taken := row.keys() & {*answer, *own}:
            raise DataError(f"{request.place}: a column has the reserved name {min(taken)!r}")
        yield {**row, **answer, **own}


def _left_out(counts: Counter[str]) -> list[str]:
    """Returns a note of what has no counterpart, if any."""
    parts = [
        counted(counts[name], f"{name[:-1]} without a {other}")
        for name, other in (("requests", "response"), ("responses", "request"))
        if counts[name]
    ]
    return [f"left out: {', '.join(parts)}"] if parts else []


def _read_labels(path: str, key: str) -> dict[str, Row]:
    """Returns the labels of a table by the text of their key."""
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
        labels[_text(value)] = {name: _decoded(one) for name, one in row.items()}
    return labels


def _decoded(value: Any) -> Any:
    if isinstance(value, list):
        return [_decoded(item) for item in value]
    return text_of(value) if isinstance(value, bytes) else value


def _text(key: Any) -> str:
    """Returns a key as text, so that whole numbers of both sides match whatever their type."""
    if isinstance(key, bytes):
        return key.decode()
    return str(int(key)) if isinstance(key, float) and key.is_integer() else str(key)
