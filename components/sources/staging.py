"""Rows that can be read only once and in order, staged as Parquet to be read in parts.

The rows are converted to the types of their columns before they are staged. The last column of a
staged file is null for a good row; for a rejected row it is JSON of (column, reason, raw row).
"""

import json
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.components.errors import DataError
from penstock.components.files.content import Content, hash_file, look
from penstock.components.files.output import Output
from penstock.components.sources.base import Batch, Column, RejectedRow
from penstock.components.sources.batches import (
    FIRST_BATCH_ROWS,
    next_batch_rows,
    rows_without,
)
from penstock.components.sources.columnar import ColumnarFile, ColumnarSource, ReadGroups
from penstock.components.sources.files import RowStart
from penstock.components.sources.options import ColumnOptions
from penstock.components.sources.parquet import inspect_parquet, read_parquet
from penstock.components.sources.python_values import Row, convert_rows, row_json
from penstock.components.tfrecord.sharding import MIB

# Name of the column of faults; `stage` refuses columns with blank names.
_FAULT = " "
# This size bounds the memory of a reader, which decodes a group of rows at once.
_GROUP_BYTES = 16 * MIB
# The Python values of a thousand rows still fit into the CPU cache when Arrow converts them. With
# 40 columns, the conversion takes 6.0 us per row, compared with 7.5 us in batches of 256 or 8192
# rows.
ROWS_AT_ONCE = 1024


@dataclass(frozen=True, eq=False, kw_only=True)
class StagedSource(ColumnarSource):
    """Rows in staged files; a part begins at a multiple of `step` rows."""

    step: int = 1
    read_groups: ReadGroups = read_parquet
    also_read = (_FAULT,)

    def row_start(
        self, file: ColumnarFile, at: int, before: RowStart | None, parts: int
    ) -> RowStart:
        row = min(file.rows, -(-at // self.step) * self.step)
        return RowStart(row, row + 1)

    def _convert(self, rows: pa.RecordBatch, file: ColumnarFile, first: int) -> Batch:
        texts = rows.column(rows.schema.get_field_index(_FAULT)).to_pylist()
        faults = {at: text for at, text in enumerate(texts) if text}
        rejected = [_rejected(file.path, first + 1 + at, text) for at, text in faults.items()]
        good = rows_without(faults, rows)
        return Batch(super()._convert(good, file, first).table, rejected)


def _rejected(place: str, row: int, text: str) -> RejectedRow:
    column, reason, raw = json.loads(text)
    return RejectedRow(place, row, 0, column, reason, raw.encode("utf-8", "surrogateescape"))


def stage(
    rows: Iterator[Row],
    columns: Sequence[Column],
    options: ColumnOptions,
    place: str,
    workspace: Output,
) -> ColumnarFile:
    """Converts rows of `place` and writes them to a new file, with a column of faults.

    The result's `path` is `place`, which is where the rows come from; its `content` is that of the
    new file. Raises DataError if a column has a blank name.
    """
    if any(not column.name.strip() for column in columns):
        raise DataError(f"{place}: a column has a blank name; give it a name")

    def staged(some: Sequence[Row]) -> pa.RecordBatch:
        table, faults = convert_rows(some, columns, options)
        texts: list[str | None] = [None] * len(some)
        for at, (column, reason) in faults.items():
            raw = row_json(some[at]).decode("utf-8", "surrogateescape")
            texts[at] = json.dumps([column, reason, raw])
        arrays = [*table.columns, pa.array(texts, pa.string())]
        return pa.RecordBatch.from_arrays(arrays, [*table.schema.names, _FAULT])

    name = f"rows-{uuid.uuid4().hex}.parquet"
    with workspace.new_try() as folder:
        path = str(folder / name)
        # Python opens the file instead of Arrow, because Python's error for a full disk names the
        # cause.
        with open(path, "wb") as file, pq.ParquetWriter(file, staged([]).schema) as writer:
            for group in _groups(rows, staged):
                writer.write_table(group, group.num_rows)
        described, digest = inspect_parquet(path), hash_file(path).digest
        workspace.take(folder)
    path = workspace.place(name)
    content = Content(digest, *look(path))
    return replace(described, path=place, content=content, copy=(path, content))


def _groups(
    rows: Iterator[Row], convert: Callable[[list[Row]], pa.RecordBatch]
) -> Iterator[pa.Table]:
    waiting, size, wanted = list[pa.RecordBatch](), 0, FIRST_BATCH_ROWS
    while some := list(islice(rows, wanted)):
        batch = convert(some)
        wanted = next_batch_rows(wanted, batch.nbytes // len(some), ROWS_AT_ONCE)
        waiting.append(batch)
        size += batch.nbytes
        if size >= _GROUP_BYTES:
            yield pa.Table.from_batches(waiting)
            waiting, size = [], 0
    if waiting:
        yield pa.Table.from_batches(waiting)
