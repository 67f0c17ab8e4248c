"""Sorts the rows of a shard by their positions.

Rows that fit into memory never touch the disk. Otherwise the positions are cut into ranges
that fit: a first pass appends each row to the file of its range, a second pass reads one file after
the other and sorts its rows.

A column with one value in each row is moved without its lists, four times as fast.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.components.packing.permutation import Numbers

# A chunk takes 1/4 of the memory limit: it exists twice while it is divided.
CHUNK_SHARE = 4


class RowSorter:
    """Takes all rows of a shard, then returns them in order; spills to `folder` if necessary."""

    def __init__(self, folder: Path, rows: int, *, memory_bytes: int) -> None:
        self._folder = folder
        self._expected = rows
        self._memory_bytes = memory_bytes
        self._waiting = PlacedRows()
        self._parts = 0
        self.rows = 0

    def add(self, places: Numbers, batch: pa.RecordBatch) -> None:
        self._waiting.add(places, batch)
        self.rows += batch.num_rows
        share = CHUNK_SHARE if self._parts else 1
        if self._waiting.bytes >= self._memory_bytes // share:
            self._spill()

    def add_encoded(self, rows: bytes) -> None:
        for places, batch in _read_rows(rows):
            self.add(places, batch)

    def in_order(self, sizes: Iterable[int]) -> Iterator[pa.RecordBatch]:
        """Yields all rows once, in order; `sizes` of the batches add up to all rows."""
        parts = self._in_parts()
        order = np.empty(0, np.int64)
        rows: pa.RecordBatch = None
        for size in sizes:
            found = []
            while size:
                if not len(order):
                    rows, order = next(parts)
                found.append(rows.take(pa.array(order[:size])))
                order, size = order[size:], size - found[-1].num_rows
            yield _with_lists(_joined(found))

    def _spill(self) -> None:
        # The first buffer shows how many rows fit.
        self._parts = self._parts or -(-self._expected // self._waiting.rows)
        self._folder.mkdir(exist_ok=True)
        places, rows = self._waiting.take()
        for part, some, cut in cut_rows(places, rows, places * self._parts // self._expected):
            with self._path(part).open("ab") as file:
                file.write(encode_rows(some, cut))

    def _path(self, part: int) -> Path:
        return self._folder / f"{part:05d}"

    def _in_parts(self) -> Iterator[tuple[pa.RecordBatch, Numbers]]:
        if self._parts and self._waiting.rows:
            self._spill()
        for part in range(max(1, self._parts)):
            if self._parts and self._path(part).exists():
                for places, rows in _read_rows(self._path(part)):
                    self._waiting.add(places, rows)
                self._path(part).unlink()
            if self._waiting.rows:
                places, rows = self._waiting.take()
                yield rows, np.argsort(places)


class PlacedRows:
    """Rows with their positions, in memory; `bytes` is their approximate size."""

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self._places: list[Numbers] = []
        self._batches: list[pa.RecordBatch] = []
        self.rows = self.bytes = 0

    def add(self, places: Numbers, batch: pa.RecordBatch) -> None:
        self._places.append(places)
        self._batches.append(batch)
        self.rows += len(places)
        self.bytes += places.nbytes + batch.nbytes

    def take(self) -> tuple[Numbers, pa.RecordBatch]:
        """Returns and removes all rows (at least one), in the order in which they were added."""
        places, batches = self._places, self._batches
        self._clear()
        return np.concatenate(places), _joined(batches)


def cut_rows(
    places: Numbers, rows: pa.RecordBatch, parts: Numbers
) -> Iterator[tuple[int, Numbers, pa.RecordBatch]]:
    """Yields (part, positions, rows) for each part; `places` and `parts` are int64 [rows]."""
    order = np.argsort(parts, kind="stable")
    places, rows, parts = places[order], rows.take(pa.array(order)), parts[order]
    begins = np.flatnonzero(np.diff(parts, prepend=-1))
    for begin, end in zip(begins.tolist(), [*begins[1:].tolist(), len(parts)], strict=True):
        yield int(parts[begin]), places[begin:end], rows.slice(begin, end - begin)


def encode_rows(places: Numbers, rows: pa.RecordBatch) -> bytes:
    """Encodes rows with their positions; encoded rows can be concatenated."""
    batch = pa.RecordBatch.from_arrays([pa.array(places), *rows.columns], ["", *rows.schema.names])
    return encode_batch(batch).to_pybytes()


def encode_batch(batch: pa.RecordBatch) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


def read_encoded(file: Any) -> Iterator[pa.RecordBatch]:
    size = file.size()
    while file.tell() < size:
        yield from pa.ipc.open_stream(file)


def _read_rows(data: bytes | Path) -> Iterator[tuple[Numbers, pa.RecordBatch]]:
    source: Any = pa.BufferReader(data) if isinstance(data, bytes) else pa.memory_map(str(data))
    with source as file:
        for batch in read_encoded(file):
            places, *columns = batch.columns
            names = batch.schema.names[1:]
            yield places.to_numpy(), pa.RecordBatch.from_arrays(columns, names)


def without_lists(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Replaces the lists of a column by their values, if each row has one value."""
    each = np.arange(batch.num_rows + 1)
    columns = [
        column.flatten()
        if pa.types.is_large_list(column.type)
        and not column.null_count
        and np.array_equal(column.offsets.to_numpy() - column.offsets[0].as_py(), each)
        else column
        for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, batch.schema.names)


def _with_lists(batch: pa.RecordBatch) -> pa.RecordBatch:
    columns = [_as_list(column, column.type) for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, batch.schema.names)


def _as_list(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Returns a column of values as lists of one value; of nulls, as typed nulls."""
    if pa.types.is_null(column.type):
        return pa.nulls(len(column), kind)
    if pa.types.is_large_list(column.type):
        return column
    return pa.LargeListArray.from_arrays(pa.array(np.arange(len(column) + 1)), column)


def _joined(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Concatenates batches in which a column may be missing, null, values or lists."""
    names = sorted({name for batch in batches for name in batch.schema.names})
    columns = []
    for name in names:
        parts = [
            batch.column(batch.schema.get_field_index(name))
            if name in batch.schema.names
            else pa.nulls(batch.num_rows)
            for batch in batches
        ]
        kinds = {part.type for part in parts}
        if len(kinds) > 1:
            kind = next(_as_list(pa.array([], k), k).type for k in kinds if not pa.types.is_null(k))
            parts = [_as_list(part, kind) for part in parts]
        columns.append(pa.concat_arrays(parts))
    return pa.RecordBatch.from_arrays(columns, names)
