"""Arrow IPC files and streams (Feather version 2, Hugging Face data sets) as a `Source`."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import BinaryIO

import pyarrow as pa

from penstock.components.files.content import open_data
from penstock.components.magic import ARROW_MAGIC, ARROW_STREAM_MAGIC
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
class Arrow(ColumnOptions):
    """Arrow IPC files (`.arrow`, `.feather`) and streams."""

    kind: str = "arrow"


def open_arrow(inputs: Sequence[str], options: Arrow, spread: Spread) -> ColumnarSource:
    return open_columnar("arrow", _inspect, _read, inputs, options, spread)


def _read(
    path: str, groups: Sequence[int], names: Sequence[str], size: BatchSize
) -> Iterator[pa.RecordBatch]:
    del size
    with open_data(path) as stream:
        yield from _batches(stream, groups, names)


def _inspect(path: str) -> ColumnarFile:
    content, head = read_content(path, (ARROW_MAGIC, ARROW_STREAM_MAGIC), "Arrow IPC")
    is_stream = head.startswith(ARROW_STREAM_MAGIC)
    with opening(path, "Arrow file"), open_data(path) as stream:
        schema = (pa.ipc.open_stream if is_stream else pa.ipc.open_file)(stream).schema
        stream.seek(0)
        batches = _batches(stream, None, schema.names[:1])
        return described(path, content, schema, (batch.num_rows for batch in batches))


def _batches(
    stream: BinaryIO, groups: Sequence[int] | None, names: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Yields some or all record batches: from a file the columns `names`, from a stream all."""
    is_stream = stream.read(len(ARROW_STREAM_MAGIC)) == ARROW_STREAM_MAGIC
    stream.seek(0)
    if is_stream:
        # A dictionary may be in any earlier batch, so all batches up to the last wanted one are
        # decoded.
        most = None if groups is None else groups[-1] + 1
        for at, batch in enumerate(islice(pa.ipc.open_stream(stream), most)):
            if groups is None or at in groups:
                yield batch
        return
    reader = pa.ipc.open_file(stream)
    fields = sorted(reader.schema.get_field_index(name) for name in names)
    stream.seek(0)
    reader = pa.ipc.open_file(stream, options=pa.ipc.IpcReadOptions(included_fields=fields))
    for at in range(reader.num_record_batches) if groups is None else groups:
        yield reader.get_batch(at)
