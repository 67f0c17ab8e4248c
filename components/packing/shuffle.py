"""Shuffles rows into packed shards: computes their places, and joins, divides and encodes rows.

The places of the rows are a seeded permutation. Each place is computed from the row's index alone,
so a task that reads only some rows needs no table of places in memory. The permutation is a Feistel
network: each index is a cell (x, y) of a grid with at least as many cells as there are rows. In
turn, y is shifted by a hash of x, and x by a hash of y. A result outside the range is permuted
again until it lies inside. The permutation costs about 0.1 us per row.

A column is a `large_list`, or plain values if each row of the batch has one value. Plain values
take a third to half of the bytes of such a list. A column without values in a batch has the null
type, or is missing there.
"""

import hashlib
import math
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Numbers = npt.NDArray[np.int64]

_ROUNDS = 6


class Permutation:
    """A permutation of `0..rows-1`, determined by the seed and the name of the split."""

    def __init__(self, rows: int, *, seed: int, name: str) -> None:
        self._rows = rows
        self._height = math.isqrt(max(rows, 1) - 1) + 1
        self._width = -(-rows // self._height)
        digest = hashlib.sha512(f"{seed}\0{name}".encode()).digest()
        self._keys = np.frombuffer(digest, "<u8")[:_ROUNDS]

    def places(self, begin: int, end: int) -> Numbers:
        """Returns the positions of the rows from `begin` to `end - 1`, int64 [end - begin]."""
        places = self._moved(np.arange(begin, end, dtype=np.uint64))
        while (outside := np.flatnonzero(places >= self._rows)).size:
            places[outside] = self._moved(places[outside])
        return places.astype(np.int64)

    def _moved(self, cells: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        height, width = np.uint64(self._height), np.uint64(self._width)
        row, column = cells // width, cells % width
        for number, key in enumerate(self._keys):
            if number % 2:
                column = (column + _hash(row, key)) % width
            else:
                row = (row + _hash(column, key)) % height
        return row * width + column


def _hash(values: npt.NDArray[np.uint64], key: np.uint64) -> npt.NDArray[np.uint64]:
    """Hashes each item to 32 bits by SplitMix64's finalizer."""
    mixed = values + key
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed ^= mixed >> np.uint64(shift)
        mixed *= np.uint64(factor)
    return mixed >> np.uint64(32)


def cut_rows(
    places: Numbers, rows: pa.RecordBatch, parts: Numbers
) -> Iterator[tuple[int, Numbers, pa.RecordBatch]]:
    """Yields (part, places, rows) for each part; `places` and `parts` are int64 [rows]."""
    order = np.argsort(parts, kind="stable")
    places, rows, parts = places[order], rows.take(pa.array(order)), parts[order]
    begins = np.flatnonzero(np.diff(parts, prepend=-1))
    for begin, end in zip(begins.tolist(), [*begins[1:].tolist(), len(parts)], strict=True):
        yield int(parts[begin]), places[begin:end], rows.slice(begin, end - begin)


def encode_rows(places: Numbers, rows: pa.RecordBatch) -> bytes:
    """Encodes rows and their places as one Arrow stream; streams can be concatenated."""
    batch = pa.RecordBatch.from_arrays([pa.array(places), *rows.columns], ["", *rows.schema.names])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def decode_rows(data: bytes) -> Iterator[tuple[Numbers, pa.RecordBatch]]:
    file = pa.BufferReader(data)
    while file.tell() < len(data):
        for batch in pa.ipc.open_stream(file):
            places, *columns = batch.columns
            yield places.to_numpy(), pa.RecordBatch.from_arrays(columns, batch.schema.names[1:])


def without_lists(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Replaces the lists of a column by their values, if each row has exactly one value."""
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


def joined(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Concatenates one or more batches.

    In each batch, a column may have lists or plain values, have the null type, or be missing.
    """
    names = sorted({name for batch in batches for name in batch.schema.names})
    columns = []
    for name in names:
        parts = [
            batch.column(name) if name in batch.schema.names else pa.nulls(batch.num_rows)
            for batch in batches
        ]
        if len({part.type for part in parts}) > 1:
            kind = next(_as_list(part).type for part in parts if part.type != pa.null())
            parts = [
                pa.nulls(len(part), kind) if part.type == pa.null() else _as_list(part)
                for part in parts
            ]
        columns.append(pa.concat_arrays(parts))
    return pa.RecordBatch.from_arrays(columns, names)


def _as_list(column: pa.Array) -> pa.Array:
    if pa.types.is_large_list(column.type):
        return column
    return pa.LargeListArray.from_arrays(pa.array(np.arange(len(column) + 1)), column)
