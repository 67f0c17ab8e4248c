"""One pass over a TFRecord file: every checksum, its records' number, where work may be cut."""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

from penstock.components.errors import DataError
from penstock.components.files.content import open_data
from penstock.components.sources.base import RejectedRow
from penstock.components.sources.cutting import RowStart
from penstock.components.tfrecord.example_proto import has_sequences, is_example
from penstock.components.tfrecord.records import Record, RecordReader

# Records between two places at which reading may begin: 16 bytes kept for each.
_RECORDS_A_CHECKPOINT = 256
# A compressed file can only be read from its beginning. In eighths, read by eight workers, it is
# decompressed four and a half times in all; whole, seven of eight shards would be empty.
_COMPRESSED_PARTS = 8
# Records that are no Examples, kept by a scan: enough to show, and bounded.
MAX_SCAN_REJECTED = 100


@dataclass(frozen=True)
class TFRecordFile:
    """A file as the scan found it.

    Attributes:
        path: The file.
        size: Its size in bytes.
        sha256: Digest of the whole content.
        records: Number of its records.
        compression: `""`, `"GZIP"` or `"ZLIB"`.
        checkpoints: Byte at which every 256th record begins; none of a compressed file.
        sequences: How many of the records are SequenceExamples with a list.
    """

    path: str
    size: int
    sha256: bytes
    records: int
    compression: str
    checkpoints: tuple[int, ...]
    sequences: int = 0

    @property
    def units(self) -> int:
        """Number of records."""
        return self.records

    def row_start(self, record: int) -> RowStart:
        """The record itself, or of a compressed file the nearest eighth."""
        if self.compression:
            part = round(record * _COMPRESSED_PARTS / self.records)
            record = part * self.records // _COMPRESSED_PARTS
        return RowStart(record, record + 1, 0)

    def read(self, start: int, end: int) -> Iterator[Record]:
        """The records from `start` up to `end`, counted from 0.

        Raises:
            DataError: The file has changed or is damaged; names record and offset.
        """
        number = offset = 0
        if self.checkpoints:
            at = start // _RECORDS_A_CHECKPOINT
            number, offset = at * _RECORDS_A_CHECKPOINT, self.checkpoints[at]
        with open_data(self.path) as file:
            file.seek(offset)
            for record in RecordReader(file, self.path, number=number, offset=offset).records():
                if record.number >= end:
                    return
                if record.number >= start:
                    yield record
                number = record.number + 1
        if number < end:
            raise DataError(
                f"{self.path}: has {number} records and had {self.records} when it was opened "
                "first; it was changed in between, start again"
            )


class _HashingFile:
    """Hashes and counts what is read from a file."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.digest = hashlib.sha256()
        self.size = 0

    def read(self, size: int, /) -> bytes:
        data = self._file.read(size)
        self.digest.update(data)
        self.size += len(data)
        return data


def scan_file(path: str, show: Callable[[bytes], None]) -> tuple[TFRecordFile, list[RejectedRow]]:
    """Scan one file.

    Args:
        path: The file.
        show: Is given the payload of every record that is an Example.

    Returns:
        The file, and its first records that are no Examples.

    Raises:
        DataError: A frame or a checksum is wrong, or the file is cut; names record and offset.
    """
    rejected: list[RejectedRow] = []
    checkpoints: list[int] = []
    count = sequences = 0
    with open_data(path) as file:
        hashing = _HashingFile(file)
        reader = RecordReader(hashing, path)
        for record in reader.records():
            if not reader.compression and record.number % _RECORDS_A_CHECKPOINT == 0:
                checkpoints.append(record.offset)
            if is_example(record.payload):
                show(record.payload)
                sequences += has_sequences(record.payload)
            elif len(rejected) < MAX_SCAN_REJECTED:
                rejected.append(no_example(path, record))
            count += 1
    digest, compression = hashing.digest.digest(), reader.compression
    scanned = TFRecordFile(
        path, hashing.size, digest, count, compression, tuple(checkpoints), sequences
    )
    return scanned, rejected


def no_example(path: str, record: Record) -> RejectedRow:
    """A record whose payload is no Example."""
    reason = (
        f"record {record.number} at offset {record.offset}: its {len(record.payload):,} bytes are "
        "no tf.train.Example or SequenceExample"
    )
    return RejectedRow(path, record.number + 1, 0, None, reason, record.payload)
