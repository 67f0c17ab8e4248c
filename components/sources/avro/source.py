"""Avro files as a `Source`: ranges of rows, of which only the blocks they touch are decoded."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from penstock.components.errors import DataError
from penstock.components.files.content import EMPTY_ADVICE, look
from penstock.components.files.listing import list_files
from penstock.components.sources.avro.file import AvroFile, inspect_file
from penstock.components.sources.avro.options import Avro
from penstock.components.sources.base import NUMBERS, Batch, Column, Piece
from penstock.components.sources.batches import (
    FIRST_BATCH_ROWS,
    MAX_BATCH_ROWS,
    batch_without,
    next_batch_rows,
)
from penstock.components.sources.layout import check_layouts
from penstock.components.sources.opened_files import OpenedFiles
from penstock.components.sources.python_values import Row, RowConverter, row_json
from penstock.components.sources.schema import read_schema
from penstock.components.sources.spread import Spread, here
from penstock.components.tfrecord.feature_kind import FeatureKind

_KINDS = {
    "boolean": FeatureKind.INT,
    "int": FeatureKind.INT,
    "long": FeatureKind.INT,
    "float": FeatureKind.FLOAT,
    "double": FeatureKind.FLOAT,
    "string": FeatureKind.BYTES,
    "bytes": FeatureKind.BYTES,
    "enum": FeatureKind.BYTES,
    "fixed": FeatureKind.BYTES,
}
_NESTED = ("record", "error", "map")
# What fastavro reads as dates and times; millis and micros both become microseconds.
_TIME = re.compile(r"(date|time|timestamp|local-timestamp)(-millis|-micros)?")


@dataclass(frozen=True, eq=False, kw_only=True)
class AvroSource(OpenedFiles[AvroFile]):
    """Avro files, opened, checked and typed; a block that two workers share is decoded by both."""

    options: Avro

    def read(self, pieces: Sequence[Piece]) -> Iterator[Batch]:
        """The rows of the pieces, at most `MAX_BATCH_ROWS` in a batch."""
        converter = RowConverter(self.columns, self.options)
        for piece in pieces:
            rows = self.scanned[piece.file].read_rows(piece.start, piece.end)
            number, wanted = piece.first_row, FIRST_BATCH_ROWS
            while some := list(islice(rows, wanted)):
                batch = _batch(some, piece.file, number, converter)
                yield batch
                number += len(some)
                row_bytes = batch.table.nbytes // len(some)
                wanted = next_batch_rows(wanted, row_bytes, MAX_BATCH_ROWS)


def _batch(rows: Sequence[Row], path: str, first_row: int, converter: RowConverter) -> Batch:
    table, faults = converter.convert(rows)
    return batch_without(faults, table, path, first_row, lambda at: row_json(rows[at]))


def open_avro(inputs: Sequence[str], options: Avro, spread: Spread = here) -> AvroSource:
    """Check, hash and type Avro files."""
    listing = list_files(inputs, "avro")
    files = spread(inspect_file, listing.files, sum(look(path)[0] for path in listing.files))
    for file in files:
        if not file.rows and not options.allow_empty:
            raise DataError(f"{file.path}: has no rows; {EMPTY_ADVICE}")
    columns = _columns(files, options)
    return AvroSource.of("avro", files, listing, columns=columns, options=options)


def _columns(files: Sequence[AvroFile], options: Avro) -> tuple[Column, ...]:
    schema = read_schema(options.schema_file)
    check_layouts(files, schema, options)
    for file in files:
        _check_units(file, [wanted.name for wanted in schema] or file.names)
    if schema:
        return tuple(Column(wanted.name, wanted.kind, bool(wanted.is_list)) for wanted in schema)
    first = files[0]
    columns = tuple(_column(first, name, options) for name in first.names)
    for file in files[1:]:
        for column in columns:
            if (other := _column(file, column.name, options)) != column:
                raise DataError(
                    f"{file.path}: column {column.name!r} is {other.holds}, expected "
                    f"{column.holds} as {first.path} has it; give a schema, or ingest them apart"
                )
    return columns


def _check_units(file: AvroFile, names: Sequence[str]) -> None:
    for name in names:
        units = sorted(number_units(file.types.get(name)))
        if len(units) > 1:
            raise DataError(
                f"{file.path}: column {name!r} is a union of {' and '.join(units)}, which count "
                "different units; write a column of each"
            )


def _column(file: AvroFile, name: str, options: Avro) -> Column:
    avro_type = file.types[name]
    feature = avro_feature(avro_type)
    if feature is not None:
        described = json.dumps(avro_type)
        is_text = '"bytes"' not in described and '"fixed"' not in described
        return Column(name, feature[0] or FeatureKind.BYTES, feature[1], is_text)
    if options.nested == "json":
        return Column(name, FeatureKind.BYTES, is_text=True)
    raise DataError(
        f"{file.path}: column {name!r} has type {json.dumps(avro_type)[:120]}, which no feature "
        "can hold; set `nested='json'` to keep it as JSON text, or leave it out of a schema and "
        "set `extra_columns='drop'`"
    )


def avro_feature(avro_type: Any) -> tuple[FeatureKind | None, bool] | None:
    """(kind, whether a list) of the feature that holds an Avro type; None where none does.

    The kind is None for Avro's null. A union is held where all but null are of one kind.
    """
    if isinstance(avro_type, list):
        return _union(avro_type)
    if not isinstance(avro_type, Mapping):
        return (None, False) if avro_type == "null" else _plain(avro_type)
    if avro_type.get("logicalType") == "decimal":
        return FeatureKind.FLOAT, False
    if avro_type["type"] == "array":
        item = avro_feature(avro_type["items"])
        return (item[0], True) if item is not None and not item[1] else None
    if isinstance(avro_type["type"], (list, Mapping)):
        return avro_feature(avro_type["type"])
    return _plain(avro_type["type"])


def number_units(avro_type: Any) -> set[str]:
    """What the numbers of a type may count: `date`, `timestamp`, ..., and `number` of plain ones.

    A column of several would mix days with microseconds, whatever wrote which.
    """
    if isinstance(avro_type, list):
        return {unit for branch in avro_type for unit in number_units(branch)}
    if not isinstance(avro_type, Mapping):
        is_number = isinstance(avro_type, str) and _KINDS.get(avro_type) in NUMBERS
        return {"number"} if is_number else set()
    logical = avro_type.get("logicalType")
    if logical == "decimal":
        return {"number"}
    time = _TIME.fullmatch(str(logical)) if avro_type["type"] in ("int", "long") else None
    if time:
        return {time[1]}
    return number_units(avro_type["items" if avro_type["type"] == "array" else "type"])


def _plain(name: str) -> tuple[FeatureKind, bool] | None:
    return None if name in _NESTED or name not in _KINDS else (_KINDS[name], False)


def _union(branches: list[Any]) -> tuple[FeatureKind | None, bool] | None:
    features = [avro_feature(branch) for branch in branches]
    found = {feature for feature in features if feature != (None, False)}
    if None in found or len(found) > 2:
        return None
    numbers = {(FeatureKind.INT, False), (FeatureKind.FLOAT, False)}
    if len(found) == 2:
        return (FeatureKind.FLOAT, False) if found == numbers else None
    return next(iter(found)) if found else (None, False)
