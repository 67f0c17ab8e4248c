"""Avro container files as a `Source`: each is read once, from its first block to its last.

A file's rows are staged as Parquet, which workers read in any parts.
"""

import json
import lzma
import re
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import fastavro
import pyarrow as pa

from penstock.components.errors import DataError, short_error
from penstock.components.files.content import (
    HashingStream,
    file_size,
    file_state,
    fingerprint,
    look,
    open_data,
)
from penstock.components.files.find import find
from penstock.components.files.output import Output
from penstock.components.files.sniff import not_text
from penstock.components.magic import AVRO_MAGIC
from penstock.components.sources.arrow_values import feature_type, number_unit
from penstock.components.sources.base import NUMBERS, Column
from penstock.components.sources.batches import FIRST_BATCH_ROWS, MAX_BATCH_ROWS, next_batch_rows
from penstock.components.sources.files import ScannedFile, map_files, require_rows, spread_files
from penstock.components.sources.options import RowFileOptions
from penstock.components.sources.partitions import Folders, add_partitions, find_folders
from penstock.components.sources.python_values import Row, RowConverter, row_json
from penstock.components.sources.schema import check_layouts, read_schema
from penstock.components.sources.spread import Spread
from penstock.components.sources.staging import StagedFile, StagedSource, stage, with_faults
from penstock.components.tfrecord.feature_kind import FeatureKind

try:  # The package for the codec "snappy", if it is installed.
    from cramjam import DecompressionError
except ImportError:
    DecompressionError = ValueError

_SYNC_BYTES = 16
_END_BYTES = 4 + _SYNC_BYTES  # of a block: the checksum of the codec snappy, and the mark
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


@dataclass(frozen=True)
class _Header:
    """An Avro file, described by its header."""

    path: str
    schema: Mapping[str, Any]  # Avro schema (JSON) of its records.

    @property
    def types(self) -> dict[str, Any]:
        return {field["name"]: field["type"] for field in self.schema["fields"]}

    @property
    def names(self) -> list[str]:
        return list(self.types)


def open_avro(inputs: Sequence[str], options: Avro, spread: Spread) -> StagedSource:
    listing = find(inputs, "avro")
    headers = map_files(_read_header, listing.files)
    folders = find_folders(listing.files, inputs)
    columns = _columns(headers, options, folders)
    scanned = spread_files(_Stage(columns, options, spread.workspace()), listing.files, spread)
    require_rows(scanned, allow_empty=options.allow_empty)
    staged = [file for one in scanned for file in one.staged]
    source = add_partitions(
        StagedSource(
            kind="avro",
            columns=columns,
            fingerprint=fingerprint("avro", [(one.path, one.content.digest) for one in scanned]),
            rows=sum(one.rows for one in scanned),
            files=listing.files,
            input_bytes=sum(one.content.size for one in scanned),
            ignored=tuple(listing.ignored),
            options=options,
            scanned={file.path: file for file in staged},
        ),
        folders,
    )
    of_place = source.partitions
    return replace(source, partitions={file.path: of_place.get(file.place, {}) for file in staged})


def _read_header(path: str) -> _Header:
    with open_data(path) as stream:
        head = stream.read(512)
        stream.seek(0)
        if not head.startswith(AVRO_MAGIC):
            problem = (not_text(head) or "is no Avro file") if head else "is empty (0 bytes)"
            raise DataError(f"{path}: {problem}; expected an Avro container file")
        try:
            schema = fastavro.reader(stream).writer_schema
        except _DAMAGE as error:
            raise _damaged(path, 0, error) from error
    if not isinstance(schema, Mapping) or schema.get("type") != "record":
        raise DataError(f"{path}: its rows are {schema!r}; expected records with named fields")
    return _Header(path, schema)


@dataclass(frozen=True, eq=False, kw_only=True)
class _StagedAvro(ScannedFile):
    staged: list[StagedFile]


@dataclass(frozen=True)
class _Stage:
    """A task that reads a file once: it hashes and checks it, and stages its rows."""

    columns: tuple[Column, ...]
    options: Avro
    workspace: Output

    def __call__(self, path: str) -> _StagedAvro:
        with open_data(path) as file:
            before = file_size(file), file_state(file)
            stream = _Stream(file)
            staged = stage(self._batches(stream, path), path, self.workspace)
        if look(path) != before:
            raise DataError(f"{path}: was changed while it was read; start again")
        rows = sum(file.rows for file in staged)
        return _StagedAvro(path=path, content=stream.content(), rows=rows, staged=staged)

    def _batches(self, stream: "_Stream", path: str) -> Iterator[pa.RecordBatch]:
        converter = RowConverter(self.columns, self.options)
        rows, wanted = _rows(stream, path), FIRST_BATCH_ROWS
        while some := list(islice(rows, wanted)):
            batch = _batch(some, converter)
            yield batch
            wanted = next_batch_rows(wanted, batch.nbytes // len(some), MAX_BATCH_ROWS)


def _batch(rows: Sequence[Row], converter: RowConverter) -> pa.RecordBatch:
    return with_faults(*converter.convert(rows), lambda at: row_json(rows[at]))


class _Stream(HashingStream):
    """Hashes what fastavro reads, and keeps its end: fastavro skips a block's checksum."""

    end = b""

    def read(self, size: int, /) -> bytes:
        data = super().read(size)
        self.end = (self.end + data[-_END_BYTES:])[-_END_BYTES:]
        return data

    def tell(self) -> int:
        return self._size


def _rows(stream: _Stream, path: str) -> Iterator[Row]:
    rows = 0
    try:
        for block in fastavro.block_reader(stream):  # type: ignore[arg-type]  # reads and tells
            _check_crc(stream, block)
            for row in block:
                yield row  # type: ignore[misc]  # a file's rows are records
                rows += 1
    except _DAMAGE as error:
        raise _damaged(path, rows, error) from error


def _damaged(path: str, rows: int, error: Exception) -> DataError:
    return DataError(
        f"{path}: damaged or cut after row {rows} ({short_error(error)}); copy or write it again"
    )


def _check_crc(stream: _Stream, block: Any) -> None:
    """Compares a block with the CRC-32 that the codec snappy adds; fastavro does not."""
    if block.codec != "snappy":
        return
    stored = int.from_bytes(stream.end[: _END_BYTES - _SYNC_BYTES], "big")
    if zlib.crc32(block.bytes_.getbuffer()) != stored:
        raise ValueError(f"the block at byte {block.offset} differs from its checksum")


def _columns(files: Sequence[_Header], options: Avro, folders: Folders) -> tuple[Column, ...]:
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


def _check_units(file: _Header, names: Sequence[str]) -> None:
    for name in names:
        arrow_types = _arrow_types(file.types.get(name, "null"))
        units = sorted({unit for one in arrow_types if (unit := number_unit(one))})
        if len(units) > 1:
            raise DataError(
                f"{file.path}: column {name!r} is a union of {' and '.join(units)}, which count "
                "different units; write one column per unit"
            )


def _column(file: _Header, name: str, options: Avro) -> Column:
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
