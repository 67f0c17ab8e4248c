"""ORC files (Hive, Spark, Trino) as a `Source`."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyarrow import orc

from penstock.components.files.content import open_data
from penstock.components.sources.base import Source
from penstock.components.sources.columnar import (
    BatchSize,
    ColumnarFile,
    ColumnarSource,
    described,
    open_columnar,
    opening,
    read_content,
    slices,
)
from penstock.components.sources.options import ColumnOptions
from penstock.components.sources.spread import Spread


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
        with open_data(file.path) as stream:
            reader = orc.ORCFile(stream)
            for group in groups:
                yield from slices(reader.read_stripe(group, columns=list(names)), size)


def open_orc(inputs: Sequence[str], options: Orc, spread: Spread) -> Source:
    return open_columnar(OrcSource, "orc", _inspect, inputs, options, spread)


def _inspect(path: str) -> ColumnarFile:
    content, _ = read_content(path, (b"ORC",), "ORC")
    with opening(path, "ORC file"), open_data(path) as stream:
        reader = orc.ORCFile(stream)
        first = reader.schema.names[:1]
        # pyarrow does not expose the footer's row counts, so one column is decoded.
        stripes = (reader.read_stripe(at, columns=first) for at in range(reader.nstripes))
        return described(path, content, reader.schema, (stripe.num_rows for stripe in stripes))
