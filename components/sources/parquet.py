"""Parquet files as a `Source`. All code of the project opens Parquet with `open_reader`.

A 96-bit timestamp (Impala, Hive, older Spark) is a Julian day and nanoseconds since its midnight.
It is read in microseconds, which have its range; nanoseconds wrap in 1677 and 2262. Arrow's own
writer stores times before 1970 with negative nanoseconds, which its reader takes for others, so
such columns of files that Arrow wrote are refused.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.components.errors import DataError
from penstock.components.files.content import Content, file_size, file_state, open_data
from penstock.components.files.remote import is_read_in_parts
from penstock.components.files.retry import retry_local
from penstock.components.files.sniff import not_text
from penstock.components.files.spool import local_path
from penstock.components.magic import PARQUET_MAGIC
from penstock.components.sources.columnar import (
    BatchSize,
    ColumnarFile,
    ColumnarSource,
    check_duplicates,
    open_columnar,
    opening,
)
from penstock.components.sources.options import Parquet
from penstock.components.sources.spark import require_finished
from penstock.components.sources.spread import Spread, here

_ARROW = "parquet-cpp"


@dataclass(frozen=True, eq=False, kw_only=True)
class ParquetSource(ColumnarSource[ColumnarFile]):
    def read_groups(
        self, file: ColumnarFile, groups: Sequence[int], names: Sequence[str], size: BatchSize
    ) -> Iterator[pa.RecordBatch]:
        with open_reader(file.path) as reader:
            for batch in reader.iter_batches(size.rows, groups, names, use_threads=False):
                yield batch
                reader.reader.set_batch_size(size.rows)


def open_reader(path: str) -> pq.ParquetFile:
    """Opens a reader of a file and parses the footer; to be used as a context manager.

    Arrow opens a local file itself: if its threads released a Python stream while the interpreter
    ends, the process would abort (see `csv/parse.py`).
    """

    def opened() -> pq.ParquetFile:
        file = open_data(path) if is_read_in_parts(path) else local_path(path)
        return pq.ParquetFile(file, coerce_int96_timestamp_unit="us")

    with opening(path, "Parquet footer"):
        return retry_local(path, opened)


def open_parquet(inputs: Sequence[str], options: Parquet, spread: Spread = here) -> ParquetSource:
    source = open_columnar(ParquetSource, "parquet", inspect_parquet, inputs, options, spread)
    require_finished(inputs, source.files)
    return source


def inspect_parquet(path: str) -> ColumnarFile:
    """Returns a file as its footer describes it; its `content` has no digest yet."""
    with open_data(path) as stream:
        size, state = file_size(stream), file_state(stream)
        _check_ends(stream, size, path)
    with open_reader(path) as reader:
        schema, metadata = reader.schema_arrow, reader.metadata
    check_duplicates(path, schema)
    _check_int96(path, metadata)
    ends, row_bytes, rows = [], 1, 0
    for at in range(metadata.num_row_groups):
        group = metadata.row_group(at)
        rows += group.num_rows
        ends.append(rows)
        row_bytes = max(row_bytes, group.total_byte_size // max(1, group.num_rows))
    return ColumnarFile(
        path=path,
        content=Content(b"", size, state),
        rows=rows,
        schema=_with_intervals(schema, metadata),
        group_ends=tuple(ends),
        row_bytes=row_bytes,
    )


def _check_ends(stream: BinaryIO, size: int, path: str) -> None:
    if not size:
        raise DataError(f"{path}: is empty (0 bytes), expected Parquet; remove it")
    head = stream.read(512)
    if head.startswith(b"PARE"):
        raise DataError(
            f"{path}: is encrypted, and no keys are read; decrypt it and write it again"
        )
    if not head.startswith(PARQUET_MAGIC):
        looks_like = not_text(head) or "it does not begin with PAR1"
        raise DataError(f"{path}: not Parquet: {looks_like}")
    stream.seek(max(0, size - len(PARQUET_MAGIC)))
    if size < 12 or stream.read() != PARQUET_MAGIC:
        raise DataError(
            f"{path}: truncated: {size} bytes that do not end as Parquet does; copy it again"
        )


def _check_int96(path: str, metadata: pq.FileMetaData) -> None:
    leaves = map(metadata.schema.column, range(metadata.num_columns))
    wide = [leaf.path for leaf in leaves if leaf.physical_type == "INT96"]
    if wide and str(metadata.created_by).startswith(_ARROW):
        raise DataError(
            f"{path}: column {wide[0]!r} has 96-bit timestamps that Arrow wrote, which cannot be "
            "told apart before 1970; write it again with timestamps of 64 bits"
        )


def _with_intervals(schema: pa.Schema, metadata: pq.FileMetaData) -> pa.Schema:
    """Gives Parquet's intervals their type; Arrow reads their 12 bytes as plain data."""
    for leaf in map(metadata.schema.column, range(metadata.num_columns)):
        at = schema.get_field_index(leaf.path)  # -1 within a list or a struct
        if at >= 0 and leaf.converted_type == "INTERVAL":
            schema = schema.set(at, pa.field(leaf.path, pa.month_day_nano_interval()))
    return schema
