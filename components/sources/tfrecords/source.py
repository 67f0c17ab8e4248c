"""TFRecord files as a `Source`: copies records unchanged, or only some of their features.

Shards may have another size or compression than the files.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from penstock.components.errors import DataError, UsageError
from penstock.components.files.content import HashingStream, open_data, open_unchanged
from penstock.components.files.find import find
from penstock.components.sources.base import MAX_BATCH_BYTES, Batch, Column, Piece, RejectedRow
from penstock.components.sources.batches import MAX_BATCH_ROWS, rows_without
from penstock.components.sources.files import (
    FileSource,
    RowStart,
    ScannedFile,
    require_rows,
    spread_files,
)
from penstock.components.sources.options import KindOptions
from penstock.components.sources.schema import schema_columns
from penstock.components.sources.spark import require_finished
from penstock.components.sources.spread import Spread
from penstock.components.sources.tfrecords.decode import (
    FeatureSample,
    RowDecoder,
    misfit_step,
    require_columns,
)
from penstock.components.sources.tfrecords.listed import listed_shards, require_listed
from penstock.components.tfrecord.example_proto import has_sequences, is_example
from penstock.components.tfrecord.feature_kind import FeatureKind
from penstock.components.tfrecord.records import Record, RecordReader, in_batches

# Number of records between two places at which reading may begin.
_RECORDS_A_CHECKPOINT = 256
# A compressed file can only be read from its beginning. If eight workers read an eighth each, the
# file is decompressed 4.5 times in all; if one worker read the whole file, seven of eight shards
# would be empty.
_COMPRESSED_PARTS = 8
# Maximum number of rejected records that a scan keeps to show them.
MAX_SCAN_REJECTED = 100
# Minimum number of records sampled from the beginning of each file.
_MIN_SAMPLED_RECORDS = 64


@dataclass(frozen=True)
class TFRecord(KindOptions):
    """TFRecord files of Examples or SequenceExamples, uncompressed, GZIP or ZLIB.

    Records are copied unchanged unless `keep_features` selects features.

    Attributes:
        schema_file: Path of a TFMD `schema.pbtxt` that determines names and types of the features;
            None infers them from a sample of the records.
        keep_features: Features to keep; empty keeps all.
        sample_rows: Number of records at the start of the files from which features are inferred.
        allow_empty: Whether a file without records is skipped instead of stopping the ingest.
    """

    kind: str = "tfrecord"
    schema_file: str | None = None
    keep_features: tuple[str, ...] = ()
    sample_rows: int = 1000
    allow_empty: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(set(self.keep_features)) < len(self.keep_features):
            raise UsageError(f"`keep_features` must be different, got {self.keep_features!r}")


@dataclass(frozen=True, eq=False, kw_only=True)
class TFRecordFile(ScannedFile):
    compression: str  # `""`, `"GZIP"` or `"ZLIB"`.
    checkpoints: tuple[int, ...]  # Offset of every 256th record; empty for a compressed file
    sequences: int = 0  # Number of records that are SequenceExamples with a feature list

    def read(self, start: int, end: int) -> Iterator[Record]:
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


@dataclass(frozen=True, eq=False, kw_only=True)
class TFRecordSource(FileSource[TFRecordFile]):
    """TFRecord files; the checksums of all records were checked.

    Columns are the features of the records; for SequenceExamples, those of the context. If most
    records have a feature list, all are read as SequenceExamples. Otherwise a SequenceExample is
    rejected, since readers of Examples would silently drop its lists.
    """

    options: TFRecord
    step_kinds: Mapping[str, FeatureKind]  # Kind of the steps in each feature list.

    def row_start(
        self, file: TFRecordFile, at: int, before: RowStart | None, parts: int
    ) -> RowStart:
        if file.compression:
            part = round(at * _COMPRESSED_PARTS / file.rows)
            at = part * file.rows // _COMPRESSED_PARTS
        return RowStart(at, at + 1)

    def read_piece(self, file: TFRecordFile, piece: Piece) -> Iterator[Batch]:
        kinds = {column.name: column.kind.value for column in self.columns}
        decoder = RowDecoder(kinds, self.columns)
        wanted = file.read(piece.start, piece.end)
        for records in in_batches(wanted, MAX_BATCH_ROWS, MAX_BATCH_BYTES):
            yield self._batch(records, piece.file, decoder)

    def _batch(self, records: Sequence[Record], path: str, decoder: RowDecoder) -> Batch:
        good, rejected = [], []
        for record in records:
            fault = self._fault(record, path)
            good += [] if fault else [record]
            rejected += [fault] if fault else []
        payloads = [record.payload for record in good]
        table, faults = decoder.decode_typed(payloads, path)
        rejected += [_misfit(path, good[at], why, name) for at, (name, why) in faults.items()]
        rejected.sort(key=lambda row: row.row)
        kept = [payload for at, payload in enumerate(payloads) if at not in faults]
        records_kept = None if self.options.keep_features else pa.array(kept, pa.binary())
        return Batch(rows_without(faults, table), rejected, records=records_kept)

    def _fault(self, record: Record, path: str) -> RejectedRow | None:
        if not is_example(record.payload):
            return _no_example(path, record)
        if not self.has_sequences and has_sequences(record.payload):
            return _misfit(path, record, "a SequenceExample among Examples")
        if self.has_sequences and (fault := misfit_step(record.payload, self.step_kinds)):
            return _misfit(path, record, fault[1], fault[0])
        return None


def open_tfrecords(inputs: Sequence[str], options: TFRecord, spread: Spread) -> TFRecordSource:
    """Checks the checksums of all records, counts the records, and infers their features."""
    listing = find(inputs, "tfrecord")
    require_finished(inputs, listing.files)
    shards = listed_shards(inputs, listing.files)
    wanted = max(_MIN_SAMPLED_RECORDS, options.sample_rows // len(listing.files))
    found = spread_files(partial(_scan_file, wanted=wanted), listing.files, spread)
    sample = FeatureSample()
    scanned = [file for file, _, _ in found]
    require_rows(scanned, allow_empty=options.allow_empty, what="records")
    rejected = [row for _, rows, _ in found for row in rows]
    for _, _, seen in found:
        sample.merge(seen)
    require_listed(scanned, shards)
    has_lists = 2 * sum(file.sequences for file in scanned) > sum(file.rows for file in scanned)
    return TFRecordSource.of(
        "tfrecord",
        scanned,
        listing,
        columns=_columns(sample, listing.files[0], options, has_sequences=has_lists),
        rejected_by_scan=tuple(rejected[:MAX_SCAN_REJECTED]),
        options=options,
        has_sequences=has_lists,
        step_kinds=sample.step_kinds(),
    )


def _scan_file(path: str, wanted: int) -> tuple[TFRecordFile, list[RejectedRow], FeatureSample]:
    """Scans one file; returns it, its first bad records, and the features of `wanted` records."""
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
                rejected.append(_no_example(path, record))
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


def _no_example(path: str, record: Record) -> RejectedRow:
    size = f"{len(record.payload):,}"
    return _misfit(path, record, f"its {size} bytes are no tf.train.Example or SequenceExample")


def _misfit(path: str, record: Record, reason: str, feature: str | None = None) -> RejectedRow:
    reason = f"record {record.number} at offset {record.offset}: {reason}"
    return RejectedRow(path, record.number + 1, 0, feature, reason, record.payload)


def _columns(
    sample: FeatureSample, where: str, options: TFRecord, *, has_sequences: bool
) -> tuple[Column, ...]:
    if options.keep_features and has_sequences:
        raise DataError(
            f"{where}: holds SequenceExamples, whose features cannot be chosen; leave out "
            "`keep_features` to take them as they are"
        )
    columns = schema_columns(options.schema_file) if options.schema_file else sample.columns()
    if not columns and not has_sequences:
        raise DataError(f"{where}: no record has a feature; expected tf.train.Examples")
    return (
        require_columns(columns, options.keep_features, where) if options.keep_features else columns
    )
