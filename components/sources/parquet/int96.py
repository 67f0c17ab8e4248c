"""Timestamps of 96 bits (Impala's, Hive's and older Sparks'), which end far beyond 1677 to 2262.

Such a value is a Julian day and the nanoseconds since its midnight. Arrow gives it as nanoseconds
since 1970, which wrap at 2**64, or as microseconds, which do not. Its own writer, though, stores
times before 1970 with negative nanoseconds, and its reader then takes these for 2**64 more before
it divides them: 584 years too many. Of what Arrow wrote both readings together tell which it was.
"""

import base64

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

_ARROW = "parquet-cpp"
_WRAPPED_US, _WRAPPED_NS = divmod(2**64, 1000)


def written_by_arrow(metadata: pq.FileMetaData) -> bool:
    """Whether times before 1970 may have negative nanoseconds."""
    return str(metadata.created_by).startswith(_ARROW)


def wide_columns(metadata: pq.FileMetaData) -> tuple[str, ...]:
    """Columns with such timestamps, but for those that Arrow made of nanoseconds: these fit."""
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
    batch: pa.RecordBatch, wide: pa.RecordBatch, *, by_arrow: bool
) -> pa.RecordBatch:
    """A batch whose columns of such timestamps are those of `wide`, in microseconds."""
    arrays, names = list(batch.columns), batch.schema.names
    for name, array in zip(wide.schema.names, wide.columns, strict=True):
        at = names.index(name)
        arrays[at] = _unwrapped(array, arrays[at]) if by_arrow else array
    return pa.RecordBatch.from_arrays(arrays, names)


def _unwrapped(wide: pa.Array, narrow: pa.Array) -> pa.Array:
    """timestamp[us] from both readings of a column that Arrow made of whole microseconds."""
    missing = wide.is_null().to_numpy(zero_copy_only=False)
    us, ns = (
        pc.fill_null(array.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
        for array in (wide, narrow)
    )
    is_wrapped = ns - us * 1000 == _WRAPPED_NS  # modulo 2**64, as NumPy counts
    exact = np.where(is_wrapped, us - _WRAPPED_US, us)
    return pa.array(exact, pa.int64(), mask=missing).cast(wide.type)
