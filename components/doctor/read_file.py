"""Reads a file: checks size, digest and checksums, and passes each TFRecord record to a `Look`."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from penstock.components.errors import DataError, short_error
from penstock.components.files.content import Content, HashingStream
from penstock.components.magic import ARROW_MAGIC
from penstock.components.packing.layout import PackedLayout
from penstock.components.tfrecord.checked import altered
from penstock.components.tfrecord.compression import CHUNK_BYTES
from penstock.components.tfrecord.manifest import Shard
from penstock.components.tfrecord.records import Record, RecordReader, open_file

# Maximum number of damaged payloads to list; one more line counts the rest.
MAX_NAMED_RECORDS = 100


class Look:
    """Examination of the good records of one file."""

    def add(self, record: Record) -> bool:
        """Looks at a record; returns False if the rest of the file need not be read."""
        raise NotImplementedError

    def findings(self, name: str) -> tuple[list[str], list[str]]:
        """Returns faults and notes on the records, each with the file's name."""
        del name
        return [], []


@dataclass(frozen=True)
class FileReport:
    """Size on disk and number of records of one file, with its faults and notes.

    If a fault hides the rest of the file, `records` counts only the records before the fault (0 in
    an Arrow file). If the `Look` needed only a part of the file, `records` is an estimate for the
    whole file. In both cases, `rows` is None and `is_exact` is False. `packed` files hold Arrow
    batches, each of which counts as a record.
    """

    file: str
    bytes: int
    compression: str
    records: int
    rows: int | None
    faults: tuple[str, ...]
    notes: tuple[str, ...] = ()
    is_exact: bool = True
    packed: bool = False


@dataclass(frozen=True)
class Target:
    """A file to read; `shard` and `compression` come from a manifest, and are None without one.

    `layout` is the layout of packed records, or None if each record is one row.
    """

    path: Path
    shard: Shard | None = None
    compression: str | None = None
    layout: PackedLayout | None = None


def read_file(target: Target, look: Look, on_bytes: Callable[[int], None]) -> FileReport:
    path, shard = str(target.path), target.shard
    try:
        with open_file(path) as raw:
            size = os.fstat(raw.fileno()).st_size
            is_packed = raw.read(len(ARROW_MAGIC)) == ARROW_MAGIC
            raw.seek(0)
            stream = HashingStream(raw, on_bytes)
            if is_packed:
                read = _read_packed(path, target.layout)
            elif target.layout is None:
                read = _read_records(RecordReader(stream, path), path, look)
            else:
                raise DataError(f"{path}: is no Arrow file; pack again")
            while read.is_whole and stream.read(CHUNK_BYTES):  # reads the rest, for the digest
                pass
    except DataError as error:
        return FileReport(path, 0, "", 0, None, (str(error),), is_exact=False)
    records, content = read.records, stream.content()
    found_faults, notes = look.findings(path)
    faults = [*read.faults, *found_faults]
    if not read.is_whole:
        records = round(records * size / (content.size if read.compression else read.end))
    elif shard is not None:
        faults += _differences(path, content, read, shard)
    elif not size:
        faults.append(f"{path}: zero bytes; an empty shard cannot be told from a lost one")
    if shard is not None and size and read.compression != target.compression:
        faults.append(
            f"{path}: compression {read.compression or 'none'}, the manifest says "
            f"{target.compression or 'none'}"
        )
    return FileReport(
        path,
        size,
        read.compression,
        records,
        read.rows,
        tuple(faults),
        tuple(notes),
        is_exact=read.rows is not None,
        packed=is_packed,
    )


class _Read(NamedTuple):
    """One pass over the records of a file, damaged ones included, or over its Arrow batches."""

    records: int
    rows: int | None  # None if a fault or an unread part hides some rows
    faults: list[str]
    end: int = 0  # Offset after the last good record.
    is_whole: bool = True  # False if the `Look` needed no more records
    compression: str = ""


def _read_records(reader: RecordReader, name: str, look: Look) -> _Read:
    damaged, hidden = list[str](), list[str]()
    good = end = 0
    is_whole = True
    try:
        for record in reader.records(on_bad_payload=lambda error: damaged.append(str(error))):
            good, end = good + 1, record.end
            if not look.add(record):
                is_whole = False
                break
    except DataError as error:
        hidden = [str(error)]
    records, named = good + len(damaged), damaged[:MAX_NAMED_RECORDS]
    if more := len(damaged) - len(named):
        named.append(f"{name}: {more:,} more records have damaged payloads")
    rows = records if is_whole and not hidden else None
    return _Read(records, rows, [*named, *hidden], end, is_whole, reader.compression)


def _read_packed(path: str, layout: PackedLayout | None) -> _Read:
    """Validates every batch of an Arrow file and, with a `layout`, its columns and row count."""
    rows = number = 0

    def failed(fault: str) -> _Read:
        return _Read(0, None, [f"{path}: {fault}"])

    try:
        with pa.OSFile(path) as source:
            file = pa.ipc.open_file(source)
            if layout is not None and file.schema != layout.schema:
                return failed("other columns than the manifest has; pack again")
            for number in range(file.num_record_batches):
                batch = file.get_batch(number)
                batch.validate(full=True)
                if layout is not None and batch.num_rows > layout.block_rows:
                    return failed(
                        f"batch {number} has {batch.num_rows:,} rows, at most "
                        f"{layout.block_rows:,} as the manifest says"
                    )
                rows += batch.num_rows
            return _Read(file.num_record_batches, rows, [])
    except (pa.ArrowException, OSError) as error:
        return failed(f"batch {number}: {short_error(error)}")


def _differences(path: str, content: Content, read: _Read, shard: Shard) -> Iterator[str]:
    digest = content.digest.hex()
    if read.rows is not None and read.rows != shard.rows:
        fewer = "; it was cut at the end of a record" if read.rows < shard.rows else ""
        yield f"{path}: {read.rows:,} rows, the manifest says {shard.rows:,}{fewer}"
    if content.size != shard.bytes:
        yield f"{path}: {content.size:,} bytes, the manifest says {shard.bytes:,}"
    elif digest != shard.sha256:
        yield altered(path, digest, shard)
