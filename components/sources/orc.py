"""ORC files (Hive, Spark, Trino) as a `Source`."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyarrow import orc

from penstock.components.files.content import open_data
from penstock.components.files.remote import is_read_in_parts
from penstock.components.files.retry import retry_local
from penstock.components.files.spool import local_path
from penstock.components.sources.base import Source
from penstock.components.sources.columnar import (
    BatchSize,
    ColumnarFile,
    ColumnarSource,
    check_duplicates,
    open_columnar,
    opening,
    read_content,
    slices,
)
from penstock.components.sources.options import ColumnOptions
from penstock.components.sources.spread import Spread, here


@dataclass(frozen=True)
class Orc(ColumnOptions):
    """ORC files."""

    kind: str = "orc"


@dataclass(frozen=True, eq=False, kw_only=True)
class OrcSource(ColumnarSource[ColumnarFile]):
    """ORC files, opened, checked and typed; a group of rows is a stripe."""

    def read_groups(
        self, file: ColumnarFile, groups: Sequence[int], names: Sequence[str], size: BatchSize
    ) -> Iterator[pa.RecordBatch]:
        """Yields the rows of some stripes; each stripe is decoded whole."""
        reader = _open(file.path)
        for group in groups:
            yield from slices(reader.read_stripe(group, columns=list(names)), size)


def open_orc(inputs: Sequence[str], options: Orc, spread: Spread = here) -> Source:
    return open_columnar(OrcSource, "orc", _inspect, inputs, options, spread)


def _inspect(path: str) -> ColumnarFile:
    content, _ = read_content(path, (b"ORC",), "ORC")
    with opening(path, "ORC file"):
        reader = _open(path)
        check_duplicates(path, reader.schema)
        ends, rows = [], 0
        for stripe in range(reader.nstripes):
            # pyarrow does not expose the footer's row counts, so one column is decoded.
            rows += reader.read_stripe(stripe, columns=reader.schema.names[:1]).num_rows
            ends.append(rows)
    return ColumnarFile(
        path=path,
        content=content,
        rows=rows,
        schema=reader.schema,
        group_ends=tuple(ends),
    )


def _open(path: str) -> orc.ORCFile:
    if is_read_in_parts(path):
        return orc.ORCFile(pa.PythonFile(open_data(path)))
    return retry_local(path, lambda: orc.ORCFile(local_path(path)))
