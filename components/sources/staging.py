"""Rows that can be read only once and in order, staged as Parquet that workers read in any parts.

A database's result and an Avro file are converted while they are read. The last column of a staged
file is JSON of (column, reason, raw row) for a row that is rejected, and null for a good one.
"""

import json
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.components.files.content import Content, hash_file, look
from penstock.components.files.output import Output
from penstock.components.sources.base import Batch, RejectedRow
from penstock.components.sources.batches import (
    FIRST_BATCH_ROWS,
    batch_of,
    next_batch_rows,
    rows_without,
)
from penstock.components.sources.columnar import ColumnarFile, ColumnarSource, ReadGroups
from penstock.components.sources.files import RowStart
from penstock.components.sources.parquet import inspect_parquet, read_parquet
from penstock.components.sources.python_values import Row, RowConverter, row_json
from penstock.components.tfrecord.sharding import MIB

# A name that no column has: neither kind allows a blank one.
_FAULT = " "
# Bounds the memory of a reader: it decodes a group of rows at once.
_GROUP_BYTES = 16 * MIB
# A thousand rows of Python values still fit the processor's cache when Arrow converts them: with 40
# columns, 6.0 us per row, against 7.5 us with 256 or 8192 rows.
ROWS_AT_ONCE = 1024


@dataclass(frozen=True, eq=False, kw_only=True)
class StagedFile(ColumnarFile):
    read_from: str
    read_content: Content  # Of the file that the rows were read from; of a database, of `path`.

    @property
    def place(self) -> str:
        return self.read_from

    @property
    def original(self) -> Content:
        return self.read_content


@dataclass(frozen=True, eq=False, kw_only=True)
class StagedSource(ColumnarSource):
    """Rows of staged files; a part begins at a multiple of `step` rows."""

    step: int = 1
    read_groups: ReadGroups = read_parquet
    also_read = (_FAULT,)

    def row_start(
        self, file: ColumnarFile, at: int, before: RowStart | None, parts: int
    ) -> RowStart:
        row = min(file.rows, -(-at // self.step) * self.step)
        return RowStart(row, row + 1)

    def _convert(self, rows: pa.RecordBatch, file: ColumnarFile, first: int) -> Batch:
        assert isinstance(file, StagedFile)
        found = dict(zip(rows.schema.names, rows.columns, strict=True))
        faults = {at: text for at, text in enumerate(found[_FAULT].to_pylist()) if text}
        rejected = [_rejected(file.place, first + 1 + at, text) for at, text in faults.items()]
        arrays = [
            found[column.name] if column.name in found else pa.nulls(len(rows), column.arrow_type)
            for column in self.columns
        ]
        return Batch(rows_without(faults, batch_of(self.columns, arrays)), rejected)


def _rejected(place: str, row: int, text: str) -> RejectedRow:
    column, reason, raw = json.loads(text)
    return RejectedRow(place, row, 0, column, reason, raw.encode("utf-8", "surrogateescape"))


def stage(
    rows: Iterator[Row], converter: RowConverter, place: str, workspace: Output
) -> StagedFile:
    """Converts rows and writes them to a new file."""
    none = _staged([], converter)
    name = f"rows-{uuid.uuid4().hex}.parquet"
    with workspace.new_try() as folder:
        path = str(folder / name)
        # Python's file: its error of a full disk names the cause.
        with open(path, "wb") as file, pq.ParquetWriter(file, none.schema) as writer:
            for group in _groups(rows, converter):
                writer.write_table(group, group.num_rows)
        described, digest = inspect_parquet(path), hash_file(path).digest
        workspace.take(folder)
    path = workspace.place(name)
    content = Content(digest, *look(path))
    fields = {**vars(described), "path": path, "content": content}
    return StagedFile(**fields, read_from=place, read_content=content)


def _groups(rows: Iterator[Row], converter: RowConverter) -> Iterator[pa.Table]:
    waiting, size, wanted = list[pa.RecordBatch](), 0, FIRST_BATCH_ROWS
    while some := list(islice(rows, wanted)):
        batch = _staged(some, converter)
        wanted = next_batch_rows(wanted, batch.nbytes // len(some), ROWS_AT_ONCE)
        waiting.append(batch)
        size += batch.nbytes
        if size >= _GROUP_BYTES:
            yield pa.Table.from_batches(waiting)
            waiting, size = [], 0
    if waiting:
        yield pa.Table.from_batches(waiting)


def _staged(rows: Sequence[Row], converter: RowConverter) -> pa.RecordBatch:
    """Returns rows as they are stored, with a column of faults."""
    table, faults = converter.convert(rows)
    texts: list[str | None] = [None] * len(rows)
    for at, (column, reason) in faults.items():
        raw = row_json(rows[at]).decode("utf-8", "surrogateescape")
        texts[at] = json.dumps([column, reason, raw])
    return pa.RecordBatch.from_arrays(
        [*table.columns, pa.array(texts, pa.string())], [*table.schema.names, _FAULT]
    )
