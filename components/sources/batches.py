"""Record batches from the columns of a source."""

from collections.abc import Callable, Collection, Mapping, Sequence

import pyarrow as pa

from penstock.components.sources.base import MAX_BATCH_BYTES, Batch, Column, RejectedRow

# Maximum number of good rows in a batch. Above a few thousand, the encoder's cost per row no longer
# falls; with this maximum, a batch of 40 numbers per row stays near 2 MiB.
MAX_BATCH_ROWS = 8192
# Number of rows of the first batch, when the size of a row is still unknown. Each later batch has
# at most `_MAX_GROWTH` times as many rows as the one before, since later rows may be larger.
FIRST_BATCH_ROWS = 16
_MAX_GROWTH = 4

Faults = dict[int, str]
"""The reason for each value that does not fit its column, by row index."""
RowFault = tuple[str | None, str]
"""(column at fault or None for the whole row, reason)"""


def batch_of(columns: Sequence[Column], arrays: Sequence[pa.Array]) -> pa.RecordBatch:
    schema = pa.schema([(column.name, column.arrow_type) for column in columns])
    return pa.RecordBatch.from_arrays(list(arrays), schema=schema)


def empty_batch(columns: Sequence[Column]) -> pa.RecordBatch:
    return batch_of(columns, [pa.array([], column.arrow_type) for column in columns])


def next_batch_rows(rows: int, row_bytes: int, most: int) -> int:
    """Returns the number of rows of the next batch, at most `most`, after one of `rows` rows."""
    return min(most, _MAX_GROWTH * rows, max(1, MAX_BATCH_BYTES // max(1, row_bytes)))


def convert_columns(
    columns: Sequence[Column], convert: Callable[[Column], tuple[pa.Array, Faults]]
) -> tuple[pa.RecordBatch, dict[int, RowFault]]:
    """Converts some rows, column by column; returns them and the first fault of each row.

    `convert` returns an array of the column's type with null for each misfit, and the faults.
    """
    arrays, faults = [], dict[int, RowFault]()
    for column in columns:
        array, reasons = convert(column)
        arrays.append(array)
        for at, reason in reasons.items():
            faults.setdefault(at, (column.name, reason))
    return batch_of(columns, arrays), faults


def batch_without(
    faults: Mapping[int, RowFault],
    table: pa.RecordBatch,
    place: str,
    first_row: int,
    raw: Callable[[int], bytes],
) -> Batch:
    """Returns a batch of file `place`; rejects the rows in `faults`, with bytes from `raw`."""
    rejected = [
        RejectedRow(place, first_row + at, 0, *faults[at], raw(at)) for at in sorted(faults)
    ]
    return Batch(rows_without(faults, table), rejected)


def rows_without(faults: Collection[int], table: pa.RecordBatch) -> pa.RecordBatch:
    if not faults:
        return table
    kept = [at for at in range(table.num_rows) if at not in faults]
    return table.take(pa.array(kept, pa.int64()))
