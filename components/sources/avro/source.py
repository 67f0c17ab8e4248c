"""Avro files as a `Source`: ranges of rows, of which only the blocks they touch are decoded."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from penstock.components.errors import DataError
from penstock.components.files.content import EMPTY_ADVICE, look
from penstock.components.files.listing import list_files
from penstock.components.sources.avro.file import AvroFile, inspect_file
from penstock.components.sources.avro.options import AvroOptions
from penstock.components.sources.avro.types import avro_feature, number_units
from penstock.components.sources.base import Batch, Column, Piece, RejectedRow
from penstock.components.sources.batches import (
    FIRST_BATCH_ROWS,
    MAX_BATCH_ROWS,
    batch_without,
    next_batch_rows,
)
from penstock.components.sources.layout import check_same_names, check_schema_names
from penstock.components.sources.opened_files import OpenedFiles
from penstock.components.sources.python_values import Row, RowConverter, row_json
from penstock.components.sources.schema import read_schema
from penstock.components.sources.spread import Spread, here
from penstock.components.tfrecord.feature_kind import FeatureKind


@dataclass(frozen=True, eq=False, kw_only=True)
class AvroSource(OpenedFiles[AvroFile]):
    """Avro files, opened, checked and typed; a block that two workers share is decoded by both."""

    options: AvroOptions

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
    rejected = {
        at: RejectedRow(path, first_row + at, 0, *fault, row_json(rows[at]))
        for at, fault in faults.items()
    }
    return batch_without(table, rejected)


def open_avro(inputs: Sequence[str], options: AvroOptions, spread: Spread = here) -> AvroSource:
    """Check, hash and type Avro files.

    Raises:
        DataError: A file or a column of it cannot be read; names both.
    """
    listing = list_files(inputs, "avro")
    files = spread(inspect_file, listing.files, sum(look(path)[0] for path in listing.files))
    for file in files:
        if not file.rows and not options.allow_empty:
            raise DataError(f"{file.path}: has no rows; {EMPTY_ADVICE}")
    columns = _columns(files, options)
    return AvroSource.of("avro", files, listing, columns=columns, options=options)


def _columns(files: Sequence[AvroFile], options: AvroOptions) -> tuple[Column, ...]:
    schema = read_schema(options.schema_file) if options.schema_file else ()
    first = files[0]
    for file in files:
        if schema:
            check_schema_names(file.path, list(file.types), schema, options.extra_columns)
        else:
            check_same_names(file.path, list(file.types), first.path, list(first.types))
        _check_units(file, [wanted.name for wanted in schema] or list(file.types))
    if schema:
        return tuple(Column(wanted.name, wanted.kind, bool(wanted.is_list)) for wanted in schema)
    columns = tuple(_column(first, name, options) for name in first.types)
    for file in files[1:]:
        for column in columns:
            if (other := _column(file, column.name, options)) != column:
                raise DataError(
                    f"{file.path}: column {column.name!r} is {_shown(other)}, expected "
                    f"{_shown(column)} as {first.path} has it; give a schema, or ingest them apart"
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


def _column(file: AvroFile, name: str, options: AvroOptions) -> Column:
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


def _shown(column: Column) -> str:
    return f"{'lists of ' if column.is_list else ''}{column.kind.value}"
