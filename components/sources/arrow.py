"""Arrow IPC files and streams (Feather version 2, Hugging Face data sets) as a `Source`."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice

import pyarrow as pa

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

_FILE_MAGIC, _STREAM_MAGIC = b"ARROW1", b"\xff\xff\xff\xff"


@dataclass(frozen=True)
class Arrow(ColumnOptions):
    """Arrow IPC files (`.arrow`, `.feather`) and streams."""

    kind: str = "arrow"


@dataclass(frozen=True, eq=False, kw_only=True)
class ArrowFile(ColumnarFile):
    """An Arrow file; `is_stream` if its record batches can only be read in sequence."""

    is_stream: bool


@dataclass(frozen=True, eq=False, kw_only=True)
class ArrowSource(ColumnarSource[ArrowFile]):
    """Arrow files, opened, checked and typed; a group of rows is a record batch."""

    def read_groups(
        self, file: ArrowFile, groups: Sequence[int], names: Sequence[str], size: BatchSize
    ) -> Iterator[pa.RecordBatch]:
        with closing(_open(file.path)) as stream:
            for batch in _batches(stream, groups, names, is_stream=file.is_stream):
                yield from slices(batch, size)


def open_arrow(inputs: Sequence[str], options: Arrow, spread: Spread = here) -> Source:
    return open_columnar(ArrowSource, "arrow", _inspect, inputs, options, spread)


def _inspect(path: str) -> ArrowFile:
    content, head = read_content(path, (_FILE_MAGIC, _STREAM_MAGIC), "Arrow IPC")
    is_stream = head.startswith(_STREAM_MAGIC)
    with opening(path, "Arrow file"), closing(_open(path)) as stream:
        schema = (pa.ipc.open_stream if is_stream else pa.ipc.open_file)(stream).schema
        check_duplicates(path, schema)
        stream.seek(0)
        ends, rows = [], 0
        for batch in _batches(stream, None, schema.names[:1], is_stream=is_stream):
            rows += batch.num_rows
            ends.append(rows)
    return ArrowFile(
        path=path,
        content=content,
        rows=rows,
        schema=schema,
        group_ends=tuple(ends),
        is_stream=is_stream,
    )


def _open(path: str) -> pa.NativeFile:
    if is_read_in_parts(path):
        return pa.PythonFile(open_data(path))
    return retry_local(path, lambda: pa.OSFile(local_path(path)))


def _batches(
    stream: pa.NativeFile, groups: Sequence[int] | None, names: Sequence[str], *, is_stream: bool
) -> Iterator[pa.RecordBatch]:
    """Yields the columns `names` of some or all record batches; a stream yields all columns."""
    if is_stream:
        # A dictionary may stand in any earlier batch, so all up to the last wanted are decoded.
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
