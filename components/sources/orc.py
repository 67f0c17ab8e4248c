"""ORC files (Hive, Spark, Trino) as a `Source`."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyarrow import orc

from penstock.components.files.content import open_data
from penstock.components.sources.columnar import (
    BatchSize,
    ColumnarFile,
    ColumnarSource,
    described,
    open_columnar,
    opening,
    read_content,
)
from penstock.components.sources.options import ColumnOptions
from penstock.components.sources.spread import Spread


@dataclass(frozen=True)
class Orc(ColumnOptions):
    """ORC files."""

    kind: str = "orc"


def open_orc(inputs: Sequence[str], options: Orc, spread: Spread) -> ColumnarSource:
    return open_columnar("orc", _inspect, _read, inputs, options, spread)


def _read(
    path: str, groups: Sequence[int], names: Sequence[str], size: BatchSize
) -> Iterator[pa.RecordBatch]:
    """Yields the columns `names` of some stripes, decoding each stripe as a whole."""
    del size
    with open_data(path) as stream:
        reader = orc.ORCFile(stream)
        for group in groups:
            yield reader.read_stripe(group, columns=list(names))


def _inspect(path: str) -> ColumnarFile:
    content, _ = read_content(path, (b"ORC",), "ORC")
    with opening(path, "ORC file"), open_data(path) as stream:
        reader = orc.ORCFile(stream)
        first = reader.schema.names[:1]
        # pyarrow does not expose the row counts in the footer, so one column is decoded.
        stripes = (reader.read_stripe(at, columns=first) for at in range(reader.nstripes))
        return described(path, content, reader.schema, (stripe.num_rows for stripe in stripes))
