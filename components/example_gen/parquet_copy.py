"""Copy of an ingest's rows as Parquet, for analysis, with the same splits and shards.

    output/parquet/train/data-00000-of-00008.parquet

Types follow from the features; text becomes Parquet's string if the source says that it is text.
"""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow_hotfix  # noqa: F401 - CVE-2023-47248, wherever pyarrow.parquet is imported

from penstock.components.sources.base import Column
from penstock.components.tfrecord.feature_kind import FeatureKind

PARQUET_DIR = "parquet"


def parquet_name(index: int, count: int) -> str:
    return f"data-{index:05d}-of-{count:05d}.parquet"


class ParquetCopy:
    """Writes one file of the copy; a context manager."""

    def __init__(self, path: Path, columns: Sequence[Column]) -> None:
        path.parent.parent.mkdir(exist_ok=True)
        path.parent.mkdir(exist_ok=True)
        self._schema = pa.schema([(column.name, _parquet_type(column)) for column in columns])
        self._writer = pq.ParquetWriter(path, self._schema)

    def write(self, rows: pa.RecordBatch, mask: pa.BooleanArray) -> None:
        table = pa.Table.from_batches([rows]).filter(mask)
        if table.num_rows:
            self._writer.write_table(table.cast(self._schema))

    def __enter__(self) -> "ParquetCopy":
        return self

    def __exit__(self, *_: object) -> None:
        self._writer.close()


def _parquet_type(column: Column) -> pa.DataType:
    if not (column.kind is FeatureKind.BYTES and column.is_text):
        return column.arrow_type
    return pa.list_(pa.string()) if column.is_list else pa.string()
