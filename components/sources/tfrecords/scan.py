"""One pass over a TFRecord file: every checksum, its records' number, where work may be cut."""

from collections.abc import Iterator
from dataclasses import dataclass

from penstock.components.files.content import HashingStream, open_data, open_unchanged
from penstock.components.sources.base import RejectedRow
from penstock.components.sources.cutting import RowStart
from penstock.components.sources.opened_files import OpenedFile
from penstock.components.sources.tfrecords.decode import FeatureSample
from penstock.components.tfrecord.example_proto import has_sequences, is_example
from penstock.components.tfrecord.records import Record, RecordReader

# Records between two places at which reading may begin: 16 bytes kept for each.
_RECORDS_A_CHECKPOINT = 256
# A compressed file can only be read from its beginning. In eighths, read by eight workers, it is
# decompressed four and a half times in all; whole, seven of eight shards would be empty.
_COMPRESSED_PARTS = 8
# Records that are no Examples, kept by a scan: enough to show, and bounded.
MAX_SCAN_REJECTED = 100


@dataclass(frozen=True, eq=False, kw_only=True)
class TFRecordFile(OpenedFile):
    """A file as the scan found it; see `OpenedFile` for its other attributes.

    Attributes:
        compression: `""`, `"GZIP"` or `"ZLIB"`.
        checkpoints: Byte at which every 256th record begins; none of a compressed file.
        sequences: How many of the records are SequenceExamples with a list.
    """

    compression: str
    checkpoints: tuple[int, ...]
    sequences: int = 0

    def row_start(self, at: int, before: RowStart | None) -> RowStart:
        """The record itself, or of a compressed file the nearest eighth."""
        del before
        if self.compression:
            part = round(at * _COMPRESSED_PARTS / self.rows)
            at = part * self.rows // _COMPRESSED_PARTS
        return RowStart(at, at + 1, 0)

    def read(self, start: int, end: int) -> Iterator[Record]:
        """The records from `start` up to `end`, counted from 0."""
        number = offset = 0
        if self.checkpoints:
            at = start // _RECORDS_A_CHECKPOINT
            number, offset = at * _RECORDS_A_CHECKPOINT, self.checkpoints[at]
        with open_unchanged(self.path, self.content) as file:
            file.seek(offset)
            for record in RecordReader(file, self.path, number=number, offset=offset).records():
                if record.number >= end:
                    return
                if record.number >= start:
                    yield record


def scan_file(path: str, wanted: int) -> tuple[TFRecordFile, list[RejectedRow], FeatureSample]:
    """Scan one file; gives it, its first records that are no Examples, and a sample of the others.

    The sample is of the first `wanted` Examples.
    """
    rejected, sample = list[RejectedRow](), FeatureSample(wanted)
    checkpoints: list[int] = []
    count = sequences = 0
    with open_data(path) as file:
        hashing = HashingStream(file)
        reader = RecordReader(hashing, path)
        for record in reader.records():
            if not reader.compression and record.number % _RECORDS_A_CHECKPOINT == 0:
                checkpoints.append(record.offset)
            if is_example(record.payload):
                sample.add(record.payload)
                sequences += has_sequences(record.payload)
            elif len(rejected) < MAX_SCAN_REJECTED:
                rejected.append(no_example(path, record))
            count += 1
    scanned = TFRecordFile(
        path=path,
        content=hashing.content(),
        rows=count,
        compression=reader.compression,
        checkpoints=tuple(checkpoints),
        sequences=sequences,
    )
    return scanned, rejected, sample


def no_example(path: str, record: Record) -> RejectedRow:
    """A record whose payload is no Example."""
    size = f"{len(record.payload):,}"
    return misfit(path, record, f"its {size} bytes are no tf.train.Example or SequenceExample")


def misfit(path: str, record: Record, reason: str, feature: str | None = None) -> RejectedRow:
    """A record, or a feature of it, that does not fit."""
    reason = f"record {record.number} at offset {record.offset}: {reason}"
    return RejectedRow(path, record.number + 1, 0, feature, reason, record.payload)
