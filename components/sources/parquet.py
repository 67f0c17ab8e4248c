"""Parquet files as a `Source`.

A 96-bit timestamp (Impala, Hive, older Spark) is a Julian day and nanoseconds since its midnight.
It is read as a whole number of microseconds, because nanoseconds would overflow before 1677 and
after 2262. Arrow's own writer stores times before 1970 with negative nanoseconds, which Arrow's
reader reads as other times. So columns of 96-bit timestamps are refused in files that Arrow wrote.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.components.errors import DataError
from penstock.components.files.content import open_data
from penstock.components.magic import PARQUET_MAGIC
from penstock.components.sources.columnar import (
    BatchSize,
    ColumnarFile,
    ColumnarSource,
    described,
    open_columnar,
    opening,
    read_content,
)
from penstock.components.sources.options import Parquet
from penstock.components.sources.spark import require_finished
from penstock.components.sources.spread import Spread

_ARROW = "parquet-cpp"
_ENCRYPTED_MAGIC = b"PARE"


@contextmanager
def open_reader(path: str) -> Iterator[pq.ParquetFile]:
    """Yields a reader of a file, with its footer parsed."""
    with open_data(path) as stream:
        with opening(path, "Parquet footer"):
            reader = pq.ParquetFile(stream, coerce_int96_timestamp_unit="us")
        yield reader


def read_parquet(
    path: str, groups: Sequence[int], names: Sequence[str], size: BatchSize
) -> Iterator[pa.RecordBatch]:
    with open_reader(path) as reader:
        for batch in reader.iter_batches(size.rows, groups, names, use_threads=False):
            yield batch
            reader.reader.set_batch_size(size.rows)


def open_parquet(inputs: Sequence[str], options: Parquet, spread: Spread) -> ColumnarSource:
    source = open_columnar("parquet", inspect_parquet, read_parquet, inputs, options, spread)
    require_finished(inputs, source.files)
    return source


def inspect_parquet(path: str) -> ColumnarFile:
    """Returns a file as described by its footer; its `content` has no digest yet."""
    content, _ = read_content(path, (PARQUET_MAGIC, _ENCRYPTED_MAGIC), "Parquet")
    with open_reader(path) as reader:
        schema, metadata = reader.schema_arrow, reader.metadata
    groups = [metadata.row_group(at) for at in range(metadata.num_row_groups)]
    row_bytes = [group.total_byte_size // max(1, group.num_rows) for group in groups]
    return described(
        path,
        content,
        _checked(path, schema, metadata),
        (group.num_rows for group in groups),
        max([1, *row_bytes]),
    )


def _checked(path: str, schema: pa.Schema, metadata: pq.FileMetaData) -> pa.Schema:
    """Returns the schema, with an interval type for INTERVAL columns, which Arrow reads as bytes.

    Raises DataError for 96-bit timestamps that Arrow wrote.
    """
    for leaf in map(metadata.schema.column, range(metadata.num_columns)):
        if leaf.physical_type == "INT96" and str(metadata.created_by).startswith(_ARROW):
            raise DataError(
                f"{path}: column {leaf.path!r} has 96-bit timestamps that Arrow wrote, which "
                "cannot be told apart before 1970; write it again with timestamps of 64 bits"
            )
        at = schema.get_field_index(leaf.path)  # -1 inside a list or a struct
        if at >= 0 and leaf.converted_type == "INTERVAL":
            schema = schema.set(at, pa.field(leaf.path, pa.month_day_nano_interval()))
    return schema
