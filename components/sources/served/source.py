"""Logs of a served model as a `Source`: joins requests, responses and later labels to rows.

The joined rows are staged as JSON lines in the workspace, which workers then read in any parts.
Memory grows with the requests that wait for their response, and with the labels.
"""

import json
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from penstock.components.errors import DataError, counted
from penstock.components.files.content import fingerprint, hash_file
from penstock.components.files.find import find
from penstock.components.sources.base import Batch
from penstock.components.sources.jsonl import JsonLines, JsonLinesSource, open_json_lines
from penstock.components.sources.open import good_tables, open_source
from penstock.components.sources.options import Table
from penstock.components.sources.served.events import Event, read_events
from penstock.components.sources.served.options import REQUEST_ID, Requests
from penstock.components.sources.served.payloads import Row, text_of
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
    listing = find(inputs, options.kind)
    files = listing.files
    labels = _Labels.read(options) if options.labels_file else None
    counts: Counter[str] = Counter()
    name, workspace = f"requests-{uuid.uuid4().hex}.jsonl", spread.workspace()
    with workspace.new_try() as folder:
        with open(folder / name, "w", encoding="utf-8") as out:
            for row in _rows(files, counts):
                if labels is not None:
                    row = labels.add(row)
                out.write(json.dumps(row) + "\n")
                counts["rows"] += 1
        workspace.take(folder)
    if not counts["rows"]:
        raise DataError(f"{files[0]}: the logs have no request with a row; {_left_out(counts)}")
    names = {one.name for one in fields(JsonLines)} & {one.name for one in fields(options)}
    kept = {name: getattr(options, name) for name in names - {"kind"}}
    source = open_json_lines([workspace.place(name)], JsonLines(**kept), spread)
    contents = [*files, *([options.labels_file] if options.labels_file else [])]
    digests = [(file, hash_file(file).digest) for file in contents]
    notes = [_left_out(counts), *(labels.notes() if labels else ())]
    given = {one.name: getattr(source, one.name) for one in fields(source)}
    opened = RequestsSource(**given, place=f"{files[0]}, joined rows")
    return replace(
        opened,
        kind=options.kind,
        files=tuple(files),
        ignored=tuple(listing.ignored),
        fingerprint=fingerprint(f"{options.kind} {options.key}", digests),
        notes=tuple(note for note in notes if note),
    )


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
    for event in waiting.values():
        if event.request is None:
            counts["responses"] += 1
        elif counts["calls"] or any(one.request is None for one in waiting.values()):
            counts["requests"] += 1
        else:
            yield from _joined(event, None)


def _joined(request: Event, response: Event | None) -> Iterator[Row]:
    try:
        rows = request.rows()
        answers = response.predictions(len(rows)) if response else [{}] * len(rows)
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{request.place}: cannot be read as rows: {error}") from error
    told = {
        REQUEST_ID: request.call,
        TIME: request.time_us,
        VERSION: (response.version if response else None) or request.version,
    }
    own = {name: value for name, value in told.items() if value is not None}
    for row, answer in zip(rows, answers, strict=True):
        if taken := row.keys() & {*answer, *own}:
            raise DataError(f"{request.place}: a column has the reserved name {min(taken)!r}")
        yield {**row, **answer, **own}


def _left_out(counts: Counter[str]) -> str:
    parts = [
        counted(counts[name], f"{name[:-1]} without a {other}")
        for name, other in (("requests", "response"), ("responses", "request"))
        if counts[name]
    ]
    return f"left out: {', '.join(parts)}" if parts else ""


@dataclass
class _Labels:
    """Labels by the text of their key."""

    path: str
    key: str
    by_key: dict[str, Row]
    counts: Counter[str] = field(default_factory=Counter)

    @classmethod
    def read(cls, options: Requests) -> "_Labels":
        assert options.labels_file is not None
        source = open_source(options.labels_file, Table())
        names = [column.name for column in source.columns]
        if options.key not in names:
            raise DataError(
                f"{options.labels_file}: has no column {options.key!r}, by which labels are "
                f"joined; it has {', '.join(names)}; `key` names another"
            )
        found = cls(options.labels_file, options.key, {})
        for table in good_tables(source):
            for row in table.to_pylist():
                found._take(row)
        return found

    def _take(self, row: Row) -> None:
        if (value := row.pop(self.key)) is None:
            raise DataError(f"{self.path}: a row has no {self.key}; remove it, or give it a key")
        key = _text(value)
        if key in self.by_key:
            raise DataError(f"{self.path}: {self.key} {key!r} has two labels; leave one")
        self.by_key[key] = {name: _decoded(value) for name, value in row.items()}

    def add(self, row: Row) -> Row:
        self.counts["rows"] += 1
        key = row.get(self.key)
        found = self.by_key.get(_text(key), {}) if key is not None else {}
        self.counts["labelled"] += bool(found)
        if taken := row.keys() & found.keys():
            raise DataError(
                f"{self.path}: column {min(taken)!r} is one of the requests too; rename it"
            )
        return {**row, **found}

    def notes(self) -> Iterator[str]:
        rows, labelled = self.counts["rows"], self.counts["labelled"]
        yield f"labels of {self.path}: {labelled:,} of {counted(rows, 'row')} have one, " + (
            f"{rows - labelled:,} none"
        )


def _decoded(value: Any) -> Any:
    if isinstance(value, list):
        return [_decoded(item) for item in value]
    return text_of(value) if isinstance(value, bytes) else value


def _text(key: Any) -> str:
    """Returns a key as text, so that whole numbers of both sides match whatever their type."""
    if isinstance(key, bytes):
        return key.decode()
    return str(int(key)) if isinstance(key, float) and key.is_integer() else str(key)
