"""Timestamps of 96 bits (Impala, Hive, older Spark), whose range exceeds nanoseconds in 64 bits.

Such a value is a Julian day and the nanoseconds since its midnight. Arrow reads it as nanoseconds
since 1970, which wrap at 2**64, or as microseconds, which do not. But Arrow's own writer stores
times before 1970 with negative nanoseconds, and its reader takes these for 2**64 more before it
divides them: 584 years too many. For files by Arrow both readings together give the time.
"""

import base64

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

_ARROW = "parquet-cpp"
_WRAPPED_US, _WRAPPED_NS = divmod(2**64, 1000)


def written_by_arrow(metadata: pq.FileMetaData) -> bool:
    """Returns whether times before 1970 may have negative nanoseconds."""
    return str(metadata.created_by).startswith(_ARROW)


def wide_columns(metadata: pq.FileMetaData) -> tuple[str, ...]:
    """Returns the columns with such timestamps that may not fit nanoseconds."""
    leaves = [metadata.schema.column(at) for at in range(metadata.num_columns)]
    stored = (metadata.metadata or {}).get(b"ARROW:schema")
    fits = set()
    if stored:
        schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(stored)))
        fits = {field.name for field in schema if str(field.type).startswith("timestamp[ns")}
    return tuple(
        leaf.path for leaf in leaves if leaf.physical_type == "INT96" and leaf.path not in fits
    )


def with_wide_timestamps(
    batch: pa.RecordBatch, wide: pa.RecordBatch | None = None, *, by_arrow: bool
) -> pa.RecordBatch:
    """Returns a batch with the columns of `wide`, if given, in microseconds."""
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
