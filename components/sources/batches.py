"""Record batches of a source's columns."""

from collections.abc import Sequence

import pyarrow as pa

from penstock.components.sources.base import Column

# Good rows of a batch at most: the encoder's cost a row no longer falls beyond a few
# thousand, and a batch of 40 numbers a row stays near 2 MiB.
MAX_BATCH_ROWS = 8192


def batch_of(columns: Sequence[Column], arrays: Sequence[pa.Array]) -> pa.RecordBatch:
    """Arrays of the columns' types as one batch."""
    schema = pa.schema([(column.name, column.arrow_type) for column in columns])
    return pa.RecordBatch.from_arrays(list(arrays), schema=schema)


def empty_batch(columns: Sequence[Column]) -> pa.RecordBatch:
    """No rows."""
    return batch_of(columns, [pa.array([], column.arrow_type) for column in columns])


def take_rows(batch: pa.RecordBatch, rows: Sequence[int]) -> pa.RecordBatch:
    """Only the rows at the given places, in their order; Arrow 10's batches have no `take`."""
    indices = pa.array(rows, pa.int64())
    return pa.RecordBatch.from_arrays(
        [array.take(indices) for array in batch.columns], schema=batch.schema
    )
