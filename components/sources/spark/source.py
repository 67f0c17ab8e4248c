"""A folder that Spark wrote, as a `Source`: TFRecords or Parquet, in Spark's types."""

import hashlib
import os
import re
import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from penstock.components.errors import DataError, UsageError, counted
from penstock.components.files.content import open_data
from penstock.components.files.remote import RemoteFile, is_remote, list_folder
from penstock.components.files.sniff import PARQUET_MAGIC
from penstock.components.sources.base import Column, Source
from penstock.components.sources.options import KindOptions, Parquet
from penstock.components.sources.schema import shown
from penstock.components.sources.spark.types import parse_columns
from penstock.components.sources.spread import Spread, here

SUCCESS = "_SUCCESS"
# Hadoop's checksum file (org.apache.hadoop.fs.ChecksumFileSystem) of `part-00000` is
# `.part-00000.crc`: "crc", NUL, bytes per checksum (big-endian int), then big-endian CRC-32s.
_CRC_MAGIC = b"crc\0"
_CRC_HEADER_BYTES = len(_CRC_MAGIC) + 4
_CRC_NAME = re.compile(r"\.(part-.*)\.crc")
# Names that Hadoop and other tools give a file while they copy it.
_UNFINISHED = re.compile(r"(\._COPYING_|\.tmp)$", re.IGNORECASE)


@dataclass(frozen=True)
class Spark(KindOptions):
    """A folder of part files that Spark wrote.

    Attributes:
        columns: Name and Spark type, such as `fare double`, of each column of TFRecords; by default
            as in `schema_from`; without that, inferred from a sample of the records.
        schema_from: Folder of Parquet that Spark wrote from the same table: it gives the names and
            types of the columns of TFRecords.
        need_success: Whether to reject a folder without `_SUCCESS`, as its job did not finish.
        check_sums: Whether to compare every part file with Hadoop's `.crc` beside it, and to reject
            a `.crc` without part file.
        non_finite: NaN and infinity in columns of Parquet: `reject` the row, read as `null`, or
            `keep`.
    """

    kind: str = "spark"
    columns: tuple[str, ...] = ()
    schema_from: str | None = None
    need_success: bool = True
    check_sums: bool = True
    non_finite: str = "reject"

    def __post_init__(self) -> None:
        super().__post_init__()
        parse_columns(self.columns)
        if self.columns and self.schema_from:
            raise UsageError("`columns` and `schema_from` both name the columns; give one of them")


def open_spark(inputs: Sequence[str], options: Spark, spread: Spread = here) -> Source:
    parts = [part for folder in inputs for part in part_files(folder, options)]
    paths = [path for path in parts if _size(path)]
    empty = [path for path in parts if not _size(path)]
    is_parquet = {_is_parquet(path) for path in paths}
    if len(is_parquet) > 1:
        raise DataError(f"{inputs[0]}: holds Parquet and other part files; ingest them separately")
    if True not in is_parquet:
        # A task without rows writes an empty file, but so may a task that failed.
        note = f"{counted(len(empty), 'part file')} of 0 bytes, without rows: {shown(empty)}"
        return replace(_open_tfrecords(paths, options, spread), notes=(note,) if empty else ())
    if empty:
        raise DataError(f"{empty[0]}: is empty (0 bytes), expected Parquet; copy it again")
    return _open_parquet(paths, options, spread)


def part_files(folder: str, options: Spark) -> list[str]:
    """Returns the checked part files of one folder, a path or an address."""
    files, folders = _list(folder)
    partitions = sorted(name for name in folders if "=" in name)
    if partitions:
        raise DataError(
            f"{folder}: is partitioned by folder ({partitions[0]}), so a column is in no file; "
            "read it with `kind='parquet'`, or write it without partitionBy"
        )
    if options.need_success and SUCCESS not in files:
        raise DataError(
            f"{folder}: has no {SUCCESS}, so Spark's job did not finish or failed; run it "
            "again, or set `need_success=False` if your committer writes none"
        )
    if options.check_sums:
        _check_none_lost(folder, files)
    parts = {name: path for name, path in sorted(files.items()) if name.startswith("part-")}
    unfinished = {name for name in parts if _UNFINISHED.search(name)}
    for name in sorted(unfinished):
        if _UNFINISHED.sub("", name) not in parts:
            raise DataError(
                f"{folder}: {name} is a copy that was not finished; wait for it, or copy the file "
                "again"
            )
    found = [path for name, path in parts.items() if name not in unfinished]
    if not any(map(_size, found)):
        raise DataError(f"{folder}: has no part file with data; expected part-00000 and so on")
    if options.check_sums:
        for name, path in files.items():
            sums = files.get(f".{name}.crc")
            if path in found and sums is not None:
                check_crc(path, sums)
    return found


def _check_none_lost(folder: str, files: Mapping[str, str]) -> None:
    for name in sorted(files):
        of = _CRC_NAME.fullmatch(name)
        if of and of[1] not in files:
            raise DataError(
                f"{folder}: has the checksums {name}, but not the file {of[1]}; copy it from where "
                "Spark wrote it, or remove both"
            )


def check_crc(path: str, beside: str) -> None:
    """Compares a file with its checksums in the file `beside`; DataError names the offset."""
    name = os.path.basename(beside)
    with open_data(beside) as file:
        sums = file.read()
    if (
        sums[:4] != _CRC_MAGIC
        or len(sums) < _CRC_HEADER_BYTES
        or (len(sums) - _CRC_HEADER_BYTES) % 4
    ):
        raise DataError(f"{beside}: not a Hadoop checksum file; remove it, or copy it again")
    size = struct.unpack(">i", sums[4:_CRC_HEADER_BYTES])[0]
    if size < 1:
        raise DataError(f"{beside}: says a checksum is of {size} bytes; copy it again")
    offset = 0
    with open_data(path) as file:
        for (stored,) in struct.iter_unpack(">I", sums[_CRC_HEADER_BYTES:]):
            part = file.read(size)
            if not part or zlib.crc32(part) != stored:
                raise DataError(
                    f"{path}: differs from its checksum in {name} at offset {offset} to "
                    f"{offset + size}; copy both from where Spark wrote them"
                )
            offset += len(part)
        if file.read(1):
            raise DataError(
                f"{path}: has more than the {offset} bytes that {name} has checksums of; "
                "copy both from where Spark wrote them"
            )


def _list(folder: str) -> tuple[dict[str, str], list[str]]:
    if is_remote(folder):
        listed, folders = list_folder(folder)
        return {os.path.basename(file): file for file in listed}, folders
    try:
        with os.scandir(folder) as entries:
            files, folders = {}, []
            for entry in entries:
                if entry.is_dir():
                    folders.append(entry.name)
                else:
                    files[entry.name] = entry.path
    except OSError as error:
        raise DataError(f"{folder}: no such folder; name the folder that Spark wrote") from error
    return files, folders


def _size(path: str) -> int | None:
    return path.size if isinstance(path, RemoteFile) else os.path.getsize(path)


def _is_parquet(path: str) -> bool:
    with open_data(path) as file:
        return file.read(len(PARQUET_MAGIC)) == PARQUET_MAGIC


def _open_parquet(paths: Sequence[str], options: Spark, spread: Spread) -> Source:
    from penstock.components.sources.parquet import open_parquet

    if options.columns or options.schema_from:
        raise UsageError(f"{paths[0]}: is Parquet, which has its own types; leave out the columns")
    # A task without rows writes a Parquet file without rows.
    given = Parquet(non_finite=options.non_finite, allow_empty=True)
    source = open_parquet(paths, given, spread)
    if not source.rows:
        raise DataError(f"{os.path.dirname(paths[0])}: its Parquet files have no rows")
    return replace(source, kind="spark")


def _open_tfrecords(paths: Sequence[str], options: Spark, spread: Spread) -> Source:
    from penstock.components.sources.tfrecords.source import TFRecord, open_tfrecords

    source = open_tfrecords(paths, TFRecord(allow_empty=True), spread)
    # Spark's `string` is UTF-8, but another program may have written the records.
    columns = tuple(replace(column, is_text=False) for column in _columns(options))
    if not columns:
        return replace(source, kind="spark")
    names = [column.name for column in columns]
    if more := [column.name for column in source.columns if column.name not in names]:
        raise DataError(
            f"{os.path.dirname(paths[0])}: its records have {shown(more)}, which is none of the "
            f"columns that were named, {shown(names)}; name all columns of the records"
        )
    # The fingerprint covers the columns: the same records under other columns are other rows.
    content = f"{source.fingerprint} {columns!r}".encode()
    fingerprint = hashlib.sha256(content).hexdigest()
    return replace(source, kind="spark", columns=columns, fingerprint=fingerprint)


def _columns(options: Spark) -> tuple[Column, ...]:
    if options.schema_from is None:
        return parse_columns(options.columns)
    copy = open_spark(
        [options.schema_from],
        Spark(need_success=options.need_success, check_sums=options.check_sums),
    )
    return copy.columns
