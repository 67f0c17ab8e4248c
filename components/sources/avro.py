"""Avro container files as a `Source`: each is read once, from its first block to its last.

A file's rows are staged as Parquet, of which workers can read any part.
"""

import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import fastavro
import pyarrow as pa

from penstock.components.errors import DataError, PenstockError, short_error
from penstock.components.files.content import HashingStream, open_data, scanned_content
from penstock.components.files.find import find
from penstock.components.files.output import Output
from penstock.components.magic import AVRO_MAGIC
from penstock.components.sources.arrow_values import feature_type, number_unit
from penstock.components.sources.base import Column
from penstock.components.sources.columnar import ColumnarFile, described, read_content, type_columns
from penstock.components.sources.files import map_files, require_rows, spread_files
from penstock.components.sources.options import RowFileOptions
from penstock.components.sources.partitions import add_partitions, find_folders
from penstock.components.sources.python_values import Row
from penstock.components.sources.spread import Spread
from penstock.components.sources.staging import StagedSource, stage

_SYNC_BYTES = 16
_END_BYTES = 4 + _SYNC_BYTES  # a block's end: checksum of the codec snappy, and sync marker
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
# Avro's logical types that fastavro reads as dates and times; millis and micros both become
# microseconds.
_TIME = re.compile(r"(?:local-)?(date|time|timestamp)(?:-millis|-micros)?")


@dataclass(frozen=True)
class Avro(RowFileOptions):
    """Avro object container files."""

    kind: str = "avro"


def open_avro(inputs: Sequence[str], options: Avro, spread: Spread) -> StagedSource:
    listing = find(inputs, "avro")
    headers = map_files(lambda path: _read_header(path, options.nested), listing.files)
    folders = find_folders(listing.files, inputs)
    columns = type_columns(headers, options, folders)
    read = partial(_stage, columns=columns, options=options, workspace=spread.workspace())
    staged = spread_files(read, listing.files, spread)
    require_rows(staged, allow_empty=options.allow_empty)
    source = StagedSource.of("avro", staged, listing, columns=columns, options=options)
    return add_partitions(source, folders)


def _read_header(path: str, nested: str) -> ColumnarFile:
    content, _ = read_content(path, (AVRO_MAGIC,), "Avro")
    with open_data(path) as stream:
        try:
            schema = fastavro.reader(stream).writer_schema
        except PenstockError:
            raise
        except Exception as error:  # fastavro has a dozen error types for a damaged file
            raise _damaged(path, 0, error) from error
    if not isinstance(schema, Mapping) or schema.get("type") != "record":
        raise DataError(f"{path}: its rows are {schema!r}; expected records with named fields")
    types = []
    for one in schema["fields"]:
        try:
            arrow_type = _arrow_type(one["type"])
        except ValueError as error:
            raise DataError(f"{path}: column {one['name']!r} is a union of {error}") from error
        is_json = nested == "json" and feature_type(arrow_type) is None
        types.append((one["name"], pa.string() if is_json else arrow_type))
    return described(path, content, pa.schema(types), ())


def _stage(
    path: str, columns: tuple[Column, ...], options: Avro, workspace: Output
) -> ColumnarFile:
    with open_data(path) as file:
        stream = _Stream(file)
        staged = stage(_rows(stream, path), columns, options, path, workspace)
    digest, size, state = stream.content()
    return replace(staged, content=scanned_content(path, (size, state), digest))


class _Stream(HashingStream):
    """Hashes the bytes that fastavro reads, and keeps the last `_END_BYTES` of them.

    At the end of a block, these contain the block's checksum, which fastavro skips.
    """

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
        for block in fastavro.block_reader(stream):  # type: ignore[arg-type]  # read, tell suffice
            _check_crc(stream, block)
            for row in block:
                yield row  # type: ignore[misc]  # a file's rows are records
                rows += 1
    except PenstockError:
        raise
    except Exception as error:  # fastavro and its codecs have a dozen error types
        raise _damaged(path, rows, error) from error


def _damaged(path: str, rows: int, error: Exception) -> DataError:
    return DataError(
        f"{path}: damaged or cut after row {rows} ({short_error(error)}); copy or write it again"
    )


def _check_crc(stream: _Stream, block: Any) -> None:
    """Compares a block with the CRC-32 that the codec snappy adds; fastavro does not compare it."""
    if block.codec != "snappy":
        return
    stored = int.from_bytes(stream.end[: _END_BYTES - _SYNC_BYTES], "big")
    if zlib.crc32(block.bytes_.getbuffer()) != stored:
        raise ValueError(f"the block at byte {block.offset} differs from its checksum")


def _arrow_type(avro_type: Any) -> pa.DataType:
    """Returns the Arrow type of an Avro type; ValueError if a union mixes units (dates, times)."""
    if isinstance(avro_type, list):
        return _union({_arrow_type(branch) for branch in avro_type} - {pa.null()})
    if not isinstance(avro_type, Mapping):
        return _ARROW_TYPES.get(avro_type, pa.struct([]))
    kind, logical = avro_type["type"], str(avro_type.get("logicalType"))
    if logical == "decimal":
        return pa.decimal128(38)
    if kind in ("int", "long") and (time := _TIME.fullmatch(logical)):
        return _TIMES[time[1]]
    if kind == "array":
        return pa.list_(_arrow_type(avro_type["items"]))
    if kind == "map":
        return pa.map_(pa.string(), _arrow_type(avro_type["values"]))
    if kind == "record":
        return pa.struct([(one["name"], _arrow_type(one["type"])) for one in avro_type["fields"]])
    return _arrow_type(kind)


def _union(types: set[pa.DataType]) -> pa.DataType:
    """Returns the type that can hold the values of all `types`; a union type if no feature can."""
    if len(types) < 2:
        return next(iter(types), pa.null())
    if all(map(pa.types.is_list, types)):
        return pa.list_(_union({one.value_type for one in types} - {pa.null()}))
    units = {number_unit(one) for one in types}
    if units == {None} and all(map(feature_type, types)):
        return pa.binary()
    if None in units or any(map(pa.types.is_list, types)):
        return pa.dense_union([pa.field(str(one), one) for one in sorted(types, key=str)])
    if len(units) > 1:
        names = " and ".join(sorted(filter(None, units)))
        raise ValueError(f"{names}, which count different units; write one column per unit")
    return pa.int64() if all(map(pa.types.is_integer, types - {pa.bool_()})) else pa.float64()
