"""Parquet files as a `Source`. All code of the project opens Parquet with `open_reader`.

A 96-bit timestamp (Impala, Hive, older Spark) is a Julian day and nanoseconds since its midnight.
Arrow can read it as nanoseconds since 1970, which wrap at 2**64, or as microseconds, which do not.
But Arrow's own writer stores times before 1970 with negative nanoseconds, and its reader adds 2**64
to these before it divides them: 584 years too many. For files that Arrow wrote, both readings
together give the time.
"""

import base64
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.components.errors import DataError
from penstock.components.files.content import Content, file_size, file_state, open_data
from penstock.components.files.remote import is_read_in_parts
from penstock.components.files.retry import retry_local
from penstock.components.files.sniff import PARQUET_MAGIC, not_text
from penstock.components.files.spool import local_path
from penstock.components.sources.columnar import (
    BatchSize,
    ColumnarFile,
    ColumnarSource,
    check_duplicates,
    open_columnar,
    opening,
)
from penstock.components.sources.options import Parquet
from penstock.components.sources.spread import Spread, here

_ARROW = "parquet-cpp"
_WRAPPED_US, _WRAPPED_NS = divmod(2**64, 1000)


@dataclass(frozen=True, eq=False, kw_only=True)
class ParquetFile(ColumnarFile):
    int96: tuple[str, ...]  # Columns whose timestamps may not fit nanoseconds.
    by_arrow: bool  # Whether Arrow wrote the file.


@dataclass(frozen=True, eq=False, kw_only=True)
class ParquetSource(ColumnarSource[ParquetFile]):
    def read_groups(
        self, file: ParquetFile, groups: Sequence[int], names: Sequence[str], size: BatchSize
    ) -> Iterator[pa.RecordBatch]:
        """Yields the rows of some row groups; 96-bit timestamps keep their full range."""
        wide = [name for name in names if name in file.int96]
        wanted = [(names, None), *([(wide, "us")] if wide else [])]
        with ExitStack() as stack:
            readers = [stack.enter_context(open_reader(file.path, unit)) for _, unit in wanted]
            batches = zip(
                *(
                    reader.iter_batches(size.rows, groups, some, use_threads=False)
                    for reader, (some, _) in zip(readers, wanted, strict=True)
                ),
                strict=True,
            )
            for narrow, *others in batches:
                yield _with_wide_timestamps(narrow, *others, by_arrow=file.by_arrow)
                for reader in readers:
                    reader.reader.set_batch_size(size.rows)


def open_reader(path: str, int96_unit: str | None = None) -> pq.ParquetFile:
    """Opens a reader of a file and parses the footer; to be used as a context manager.

    96-bit timestamps are read in `int96_unit`, or by default as nanoseconds, which wrap.
    Arrow opens a local file itself: if its threads released a Python stream while the interpreter
    ends, the process would abort (see `csv/parse.py`).
    """

    def opened() -> pq.ParquetFile:
        file = open_data(path) if is_read_in_parts(path) else local_path(path)
        return pq.ParquetFile(file, coerce_int96_timestamp_unit=int96_unit)

    with opening(path, "Parquet footer"):
        return retry_local(path, opened)


def open_parquet(inputs: Sequence[str], options: Parquet, spread: Spread = here) -> ParquetSource:
    return open_columnar(ParquetSource, "parquet", inspect_parquet, inputs, options, spread)


def inspect_parquet(path: str) -> ParquetFile:
    """Returns a file as its footer describes it; its `content` has no digest yet."""
    with open_data(path) as stream:
        size, state = file_size(stream), file_state(stream)
        _check_ends(stream, size, path)
    with open_reader(path) as reader:
        schema, metadata = reader.schema_arrow, reader.metadata
    check_duplicates(path, schema)
    ends, row_bytes, rows = [], 1, 0
    for at in range(metadata.num_row_groups):
        group = metadata.row_group(at)
        rows += group.num_rows
        ends.append(rows)
        row_bytes = max(row_bytes, group.total_byte_size // max(1, group.num_rows))
    return ParquetFile(
        path=path,
        content=Content(b"", size, state),
        rows=rows,
        schema=_with_intervals(schema, metadata),
        group_ends=tuple(ends),
        row_bytes=row_bytes,
        int96=_wide_columns(metadata),
        by_arrow=_written_by_arrow(metadata),
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


def _written_by_arrow(metadata: pq.FileMetaData) -> bool:
    """Returns whether Arrow wrote the file, so that times before 1970 have negative nanoseconds."""
    return str(metadata.created_by).startswith(_ARROW)


def _wide_columns(metadata: pq.FileMetaData) -> tuple[str, ...]:
    """Returns the columns with 96-bit timestamps that may not fit nanoseconds."""
    leaves = [metadata.schema.column(at) for at in range(metadata.num_columns)]
    stored = (metadata.metadata or {}).get(b"ARROW:schema")
    fits = set()
    if stored:
        schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(stored)))
        fits = {field.name for field in schema if str(field.type).startswith("timestamp[ns")}
    return tuple(
        leaf.path for leaf in leaves if leaf.physical_type == "INT96" and leaf.path not in fits
    )


def _with_intervals(schema: pa.Schema, metadata: pq.FileMetaData) -> pa.Schema:
    """Gives Parquet's intervals their type; Arrow reads their 12 bytes as plain data."""
    for leaf in map(metadata.schema.column, range(metadata.num_columns)):
        at = schema.get_field_index(leaf.path)  # -1 within a list or a struct
        if at >= 0 and leaf.converted_type == "INTERVAL":
            schema = schema.set(at, pa.field(leaf.path, pa.month_day_nano_interval()))
    return schema


def _with_wide_timestamps(
    batch: pa.RecordBatch, wide: pa.RecordBatch | None = None, *, by_arrow: bool
) -> pa.RecordBatch:
    """Replaces columns of a batch by the columns of `wide`, if given, in microseconds."""
    if wide is None:
        return batch
    arrays, names = list(batch.columns), batch.schema.names
    for name, array in zip(wide.schema.names, wide.columns, strict=True):
        at = names.index(name)
        arrays[at] = _unwrapped(array, arrays[at]) if by_arrow else array
    return pa.RecordBatch.from_arrays(arrays, names)


def _unwrapped(wide: pa.Array, narrow: pa.Array) -> pa.Array:
    """Returns timestamp[us] from both readings of a column that Arrow wrote."""
    missing = wide.is_null().to_numpy(zero_copy_only=False)
    us, ns = (
        pc.fill_null(array.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
        for array in (wide, narrow)
    )
    is_wrapped = ns - us * 1000 == _WRAPPED_NS  # Modulo 2**64, as NumPy computes.
    exact = np.where(is_wrapped, us - _WRAPPED_US, us)
    return pa.array(exact, pa.int64(), mask=missing).cast(wide.type)
