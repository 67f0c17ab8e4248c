"""Parquet files as a `Source`. `open_reader` is the only door to Parquet in the project."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import BinaryIO

import pyarrow as pa
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
from penstock.components.sources.int96 import wide_columns, with_wide_timestamps, written_by_arrow
from penstock.components.sources.options import Parquet
from penstock.components.sources.spread import Spread, here


@dataclass(frozen=True, eq=False, kw_only=True)
class ParquetFile(ColumnarFile):
    """A Parquet file."""

    int96: tuple[str, ...]  # Columns whose timestamps may not fit nanoseconds.
    by_arrow: bool  # Whether Arrow wrote the file.


@dataclass(frozen=True, eq=False, kw_only=True)
class ParquetSource(ColumnarSource[ParquetFile]):
    """Parquet files, opened, checked and typed."""

    def read_groups(
        self, file: ParquetFile, groups: Sequence[int], names: Sequence[str], size: BatchSize
    ) -> Iterator[pa.RecordBatch]:
        """Yields the rows of some row groups; timestamps of 96 bits are read at full width."""
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
                yield with_wide_timestamps(narrow, *others, by_arrow=file.by_arrow)
                for reader in readers:
                    reader.reader.set_batch_size(size.rows)


def open_reader(path: str, int96_unit: str | None = None) -> pq.ParquetFile:
    """Opens a reader of a file, its footer parsed; to be used as a context manager.

    Timestamps of 96 bits are read as `int96_unit`; without one as nanoseconds, which wrap.
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
        schema=schema,
        group_ends=tuple(ends),
        row_bytes=row_bytes,
        int96=wide_columns(metadata),
        by_arrow=written_by_arrow(metadata),
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
