"""Avro container files as a `Source`: a worker reads only the blocks that its rows lie in.

If two workers share a block, both decode it.
"""

import json
import lzma
import re
import struct
import zlib
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, BinaryIO

import fastavro
import pyarrow as pa

from penstock.components.errors import DataError, short_error
from penstock.components.files.content import hash_file, open_data, open_unchanged
from penstock.components.files.find import find
from penstock.components.files.sniff import not_text
from penstock.components.sources.arrow_values import feature_type, number_unit
from penstock.components.sources.base import NUMBERS, Batch, Column, Piece
from penstock.components.sources.batches import (
    FIRST_BATCH_ROWS,
    MAX_BATCH_ROWS,
    batch_without,
    next_batch_rows,
)
from penstock.components.sources.files import FileSource, ScannedFile, require_rows, spread_files
from penstock.components.sources.options import RowFileOptions
from penstock.components.sources.partitions import Folders, add_partitions, find_folders
from penstock.components.sources.python_values import Row, RowConverter, row_json
from penstock.components.sources.schema import check_layouts, read_schema
from penstock.components.sources.spread import Spread, here
from penstock.components.tfrecord.feature_kind import FeatureKind

try:  # The package for the codec "snappy", if it is installed.
    from cramjam import DecompressionError
except ImportError:
    DecompressionError = ValueError

_MAGIC = b"Obj\x01"
_SYNC_BYTES = 16
_CRC_BYTES = 4
# Exceptions of fastavro for a damaged file, or for a codec that is not installed.
_DAMAGE = (
    EOFError, ValueError, IndexError, KeyError, TypeError, OverflowError, MemoryError, OSError,
    struct.error, zlib.error, lzma.LZMAError, DecompressionError,
)  # fmt: skip
_ARROW_TYPES = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "bytes": pa.binary(),
    "enum": pa.string(),
    "fixed": pa.binary(),
}
_TIMES = {"date": pa.date32(), "time": pa.time64("us"), "timestamp": pa.timestamp("us")}
# Logical types of dates and times for fastavro; millis and micros both become microseconds.
_TIME = re.compile(r"(?:local-)?(date|time|timestamp)(?:-millis|-micros)?")


@dataclass(frozen=True)
class Avro(RowFileOptions):
    """Avro object container files."""

    kind: str = "avro"


@dataclass(frozen=True, eq=False, kw_only=True)
class AvroFile(ScannedFile):
    """An Avro file, described by its header and the headers of its blocks."""

    schema: Mapping[str, Any]  # Avro schema (JSON) of its records.
    block_starts: tuple[int, ...]  # First byte of each block.
    block_ends: tuple[int, ...]  # One past the last row of each block, ascending.

    @property
    def types(self) -> dict[str, Any]:
        return {field["name"]: field["type"] for field in self.schema["fields"]}

    @property
    def names(self) -> list[str]:
        return list(self.types)

    def read_rows(self, start: int, end: int) -> Iterator[Row]:
        block = bisect_right(self.block_ends, start)
        row = self.block_ends[block - 1] if block else 0
        with open_unchanged(self.path, self.content) as stream:
            try:
                values = fastavro.reader(stream)  # Reads the header.
                stream.seek(self.block_starts[block])
                for value in values:
                    if row >= end:
                        return
                    if row >= start:
                        yield value  # type: ignore[misc]  # a file's rows are records
                    row += 1
            except _DAMAGE as error:
                raise DataError(
                    f"{self.path}: damaged at row {row + 1} or after it ({short_error(error)}); "
                    "copy or write it again"
                ) from error
        if row < end:
            raise DataError(f"{self.path}: rows end at {row}, expected {end}; it has changed")


@dataclass(frozen=True, eq=False, kw_only=True)
class AvroSource(FileSource[AvroFile]):
    options: Avro

    def read_piece(self, file: AvroFile, piece: Piece) -> Iterator[Batch]:
        converter = RowConverter(self.columns, self.options)
        rows = file.read_rows(piece.start, piece.end)
        number, wanted = piece.first_row, FIRST_BATCH_ROWS
        while some := list(islice(rows, wanted)):
            batch = _batch(some, piece.file, number, converter)
            yield batch
            number += len(some)
            wanted = next_batch_rows(wanted, batch.table.nbytes // len(some), MAX_BATCH_ROWS)


def _batch(rows: Sequence[Row], path: str, first_row: int, converter: RowConverter) -> Batch:
    table, faults = converter.convert(rows)
    return batch_without(faults, table, path, first_row, lambda at: row_json(rows[at]))


def open_avro(inputs: Sequence[str], options: Avro, spread: Spread = here) -> AvroSource:
    listing = find(inputs, "avro")
    files = spread_files(_inspect, listing.files, spread)
    require_rows(files, allow_empty=options.allow_empty)
    folders = find_folders(listing.files, inputs)
    columns = _columns(files, options, folders)
    source = AvroSource.of("avro", files, listing, columns=columns, options=options)
    return add_partitions(source, folders)


def _inspect(path: str) -> AvroFile:
    with open_data(path) as stream:
        head = stream.read(512)
    content = hash_file(path)
    if not head.startswith(_MAGIC):
        problem = not_text(head) if content.size else "is empty (0 bytes)"
        raise DataError(f"{path}: {problem or 'is no Avro file'}; expected an Avro container file")
    starts, ends, rows = [], [], 0
    with open_data(path) as stream:
        try:
            reader = fastavro.block_reader(stream)
            for block in reader:
                _check_crc(stream, block)
                starts.append(block.offset)
                rows += block.num_records
                ends.append(rows)
        except _DAMAGE as error:
            raise DataError(
                f"{path}: damaged or cut after row {rows} ({short_error(error)}); "
                "copy or write it again"
            ) from error
        schema = reader.writer_schema
    if not isinstance(schema, Mapping) or schema.get("type") != "record":
        raise DataError(f"{path}: its rows are {schema!r}; expected records with named fields")
    return AvroFile(
        path=path,
        content=content,
        rows=rows,
        schema=schema,
        block_starts=tuple(starts),
        block_ends=tuple(ends),
    )


def _check_crc(stream: BinaryIO, block: Any) -> None:
    """Compares a block with the CRC-32 that the codec snappy adds; fastavro does not."""
    if block.codec != "snappy":
        return
    end = block.offset + block.size
    stream.seek(end - _SYNC_BYTES - _CRC_BYTES)
    stored = int.from_bytes(stream.read(_CRC_BYTES), "big")
    stream.seek(end)
    if zlib.crc32(block.bytes_.getbuffer()) != stored:
        raise ValueError(f"the block at byte {block.offset} differs from its checksum")


def _columns(files: Sequence[AvroFile], options: Avro, folders: Folders) -> tuple[Column, ...]:
    schema = read_schema(options.schema_file)
    check_layouts(files, schema, options, folders)
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
                    f"{column.holds} as {first.path} has it; give a schema, or ingest them "
                    "separately"
                )
    return columns


def _check_units(file: AvroFile, names: Sequence[str]) -> None:
    for name in names:
        arrow_types = _arrow_types(file.types.get(name, "null"))
        units = sorted({unit for one in arrow_types if (unit := number_unit(one))})
        if len(units) > 1:
            raise DataError(
                f"{file.path}: column {name!r} is a union of {' and '.join(units)}, which count "
                "different units; write one column per unit"
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
    """Returns (kind, is_list) of the feature that holds an Avro type; None if no feature can.

    The kind is None for Avro's null. A union has a feature if its types other than null are all
    of one kind, or all numbers.
    """
    kinds, shapes = set[FeatureKind](), set[bool]()
    for arrow_type in _arrow_types(avro_type):
        feature = feature_type(arrow_type)
        if feature is None:
            return None
        kind, is_list = feature
        if kind or is_list:
            kinds |= {kind} if kind else set()
            shapes.add(is_list)
    if len(shapes) > 1 or (len(kinds) > 1 and kinds != {*NUMBERS}):
        return None
    return FeatureKind.FLOAT if len(kinds) > 1 else next(iter(kinds), None), any(shapes)


def _arrow_types(avro_type: Any) -> list[pa.DataType]:
    """Returns the Arrow type of each type in a union; a struct for a type without a feature."""
    if isinstance(avro_type, list):
        return [one for branch in avro_type for one in _arrow_types(branch)]
    if not isinstance(avro_type, Mapping):
        return [_ARROW_TYPES.get(avro_type, pa.struct([]))]
    kind, logical = avro_type["type"], str(avro_type.get("logicalType"))
    if logical == "decimal":
        return [pa.decimal128(38)]
    if kind in ("int", "long") and (time := _TIME.fullmatch(logical)):
        return [_TIMES[time[1]]]
    if kind == "array":
        return [pa.list_(one) for one in _arrow_types(avro_type["items"])]
    return _arrow_types(kind)
