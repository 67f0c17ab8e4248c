"""Reads one file of a set once: its size, digest and checksums, and each record for a `Look`."""

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

# Maximum number of damaged payloads to name; one more line counts the others.
MAX_NAMED_RECORDS = 100


class Look:
    """Examination of the good records of one file."""

    def add(self, record: Record) -> bool:
        """Looks at a record; False if the file need not be read on."""
        raise NotImplementedError

    def findings(self, name: str) -> tuple[list[str], list[str]]:
        """Returns faults and notes on the records, each with the file's name."""
        del name
        return [], []


@dataclass(frozen=True)
class FileReport:
    """Size on disk, records, faults and notes of one file, in file order.

    After a fault that hides the rest of the file, `records` counts no further and `rows` is None.
    Without `is_exact`, the file was read in part and `records` is an estimate. `packed` files hold
    Arrow batches, which count as records.
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
    """A file to read; `shard` and `compression` are those of its manifest, None without one.

    `layout` is the layout of packed records, or None if each record is one row.
    """

    path: Path
    shard: Shard | None = None
    compression: str | None = None
    layout: PackedLayout | None = None


def read_file(target: Target, look: Look, on_bytes: Callable[[int], None]) -> FileReport:
    path = str(target.path)
    try:
        if _is_packed(path):
            return _read_packed(target, on_bytes)
        if target.layout is not None:
            raise DataError(f"{path}: is no Arrow file; pack again")
        with open_file(path) as raw:
            size = os.fstat(raw.fileno()).st_size
            file = HashingStream(raw, on_bytes)
            reader = RecordReader(file, path)
            read = _read_records(reader, path, look)
            while read.is_whole and file.read(CHUNK_BYTES):  # after a fault, read on for the digest
                pass
    except DataError as error:
        return FileReport(path, 0, "", 0, None, (str(error),))
    found_faults, notes = look.findings(path)
    faults = [*read.faults, *found_faults]
    records = read.records
    if not read.is_whole:
        done = file.content().size if reader.compression else read.end
        records = round(records * size / done)
    elif target.shard is not None:
        faults += _differences(path, file.content(), read.rows, target.shard, "records")
    elif not size:
        faults.append(f"{path}: zero bytes; an empty shard cannot be told from a lost one")
    if target.shard is not None and size and reader.compression != target.compression:
        faults.append(
            f"{path}: compression {reader.compression or 'none'}, the manifest says "
            f"{target.compression or 'none'}"
        )
    return FileReport(
        path,
        size,
        reader.compression,
        records,
        read.rows,
        tuple(faults),
        tuple(notes),
        is_exact=read.rows is not None,
    )


class _Read(NamedTuple):
    """One pass over the records of a file, damaged ones included."""

    records: int
    rows: int | None  # One per record; None if a fault, or a part not read, hides some.
    end: int  # Offset after the last good record.
    is_whole: bool  # False if the look wanted no more.
    faults: list[str]


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
    return _Read(records, rows, end, is_whole, [*named, *hidden])


def _read_packed(target: Target, on_bytes: Callable[[int], None]) -> FileReport:
    path, faults = str(target.path), []
    with target.path.open("rb") as raw:
        content = HashingStream(raw, on_bytes).read_out()
    batches, rows = 0, None
    try:
        batches, rows = _packed_rows(target.path, target.layout)
    except DataError as error:
        faults.append(str(error))
    if target.shard is not None:
        faults += _differences(path, content, rows, target.shard, "rows")
    size, is_exact = content.size, rows is not None
    return FileReport(path, size, "", batches, rows, tuple(faults), is_exact=is_exact, packed=True)


def _differences(
    path: str, content: Content, rows: int | None, shard: Shard, noun: str
) -> Iterator[str]:
    digest = content.digest.hex()
    if rows is not None and rows != shard.rows:
        fewer = "; it was cut at the end of a record" if rows < shard.rows else ""
        yield f"{path}: {rows:,} {noun}, the manifest says {shard.rows:,}{fewer}"
    if content.size != shard.bytes:
        yield f"{path}: {content.size:,} bytes, the manifest says {shard.bytes:,}"
    elif digest != shard.sha256:
        yield altered(path, digest, shard)


def _is_packed(path: str | os.PathLike[str]) -> bool:
    """Returns whether a file begins as Arrow files do."""
    with open_file(path) as file:
        return file.read(len(ARROW_MAGIC)) == ARROW_MAGIC


def _packed_rows(path: Path, layout: PackedLayout | None = None) -> tuple[int, int]:
    """Returns the numbers of batches and rows of a shard, once every value was looked at.

    Raises:
        DataError: It is no whole Arrow file, or with a `layout`, not one of this layout.
    """
    rows = number = 0
    try:
        with pa.OSFile(str(path)) as source:
            file = pa.ipc.open_file(source)
            if layout is not None and file.schema != layout.schema:
                raise DataError(f"{path}: other columns than the manifest has; pack again")
            for number in range(file.num_record_batches):
                batch = file.get_batch(number)
                batch.validate(full=True)
                if layout is not None and batch.num_rows > layout.block_rows:
                    raise DataError(
                        f"{path}: batch {number} has {batch.num_rows:,} rows, at most "
                        f"{layout.block_rows:,} as the manifest says"
                    )
                rows += batch.num_rows
            return file.num_record_batches, rows
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path}: batch {number}: {short_error(error)}") from error
