"""TFRecord files as a `Source`: their records as they are, in other shards, or features of them."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from penstock.components.errors import DataError
from penstock.components.files.content import EMPTY_ADVICE, fingerprint
from penstock.components.files.listing import list_files
from penstock.components.files.remote import is_remote
from penstock.components.sources.base import (
    MAX_BATCH_BYTES,
    Batch,
    Column,
    Piece,
    RejectedRow,
    Source,
)
from penstock.components.sources.batches import MAX_BATCH_ROWS, take_rows
from penstock.components.sources.cutting import cut_files
from penstock.components.sources.schema import read_schema
from penstock.components.sources.tfrecords.decode import (
    FeatureSample,
    RecordDecoder,
    require_columns,
)
from penstock.components.sources.tfrecords.options import TFRecordOptions
from penstock.components.sources.tfrecords.scan import (
    MAX_SCAN_REJECTED,
    TFRecordFile,
    no_example,
    scan_file,
)
from penstock.components.tfrecord.checked import check_listed
from penstock.components.tfrecord.example_proto import has_sequences, is_example
from penstock.components.tfrecord.records import Record
from penstock.components.tfrecord.shard_sets import missing_members

# At least as many records from the beginning of each of many files.
_MIN_SAMPLED_RECORDS = 64


@dataclass(frozen=True, eq=False, kw_only=True)
class TFRecordSource(Source):
    """TFRecord files, every record checked; see `Source` for its other attributes.

    Attributes:
        columns: The features that all records may have; of SequenceExamples their context's.
        options: How the files are understood.
        scanned: The files that have records.
        has_sequences: Whether the records are SequenceExamples: most of them have a list. Among
            Examples, whose readers drop lists in silence, a SequenceExample is rejected.
    """

    options: TFRecordOptions
    scanned: tuple[TFRecordFile, ...]

    def cut(self, parts: int) -> list[tuple[Piece, ...]]:
        """The whole input as `parts` runs of records; a compressed file stays whole."""
        return cut_files(self.scanned, parts, lambda file, at: file.row_start(at))

    def read(self, pieces: Sequence[Piece]) -> Iterator[Batch]:
        """The records of the pieces, at most `MAX_BATCH_ROWS` in a batch.

        Raises:
            DataError: A file has changed since it was scanned.
        """
        decoder = RecordDecoder(self.columns)
        as_they_are = not self.options.keep_features
        files = {file.path: file for file in self.scanned}
        for piece in pieces:
            for records in _chunks(files[piece.file].read(piece.start, piece.end)):
                rejected = self._rejected(records, piece.file)
                yield _batch(records, rejected, piece.file, decoder, as_they_are=as_they_are)

    def _rejected(self, records: Sequence[Record], path: str) -> list[RejectedRow]:
        """Those of the records that are of no kind, or not of the kind of most."""
        rejected = []
        for record in records:
            if not is_example(record.payload):
                rejected.append(no_example(path, record))
            elif not self.has_sequences and has_sequences(record.payload):
                rejected.append(_misfit(path, record, None, "a SequenceExample among Examples"))
        return rejected


def _chunks(records: Iterator[Record]) -> Iterator[list[Record]]:
    chunk: list[Record] = []
    size = 0
    for record in records:
        chunk.append(record)
        size += len(record.payload)
        if len(chunk) == MAX_BATCH_ROWS or size >= MAX_BATCH_BYTES:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def _batch(
    records: Sequence[Record],
    rejected: list[RejectedRow],
    path: str,
    decoder: RecordDecoder,
    *,
    as_they_are: bool,
) -> Batch:
    if rejected:
        bad = {row.row for row in rejected}
        records = [record for record in records if record.number + 1 not in bad]
    payloads = [record.payload for record in records]
    table, faults = decoder.decode(payloads)
    payload_array = pa.array(payloads, pa.binary())
    if faults:
        good = [at for at in range(len(records)) if at not in faults]
        rejected += [_misfit(path, records[at], *fault) for at, fault in faults.items()]
        table, payload_array = (
            take_rows(table, good),
            payload_array.take(pa.array(good, pa.int64())),
        )
    rejected.sort(key=lambda row: row.row)
    return Batch(table, rejected, records=payload_array if as_they_are else None)


def _misfit(path: str, record: Record, feature: str | None, reason: str) -> RejectedRow:
    where = f"record {record.number} at offset {record.offset}"
    return RejectedRow(path, record.number + 1, 0, feature, f"{where}: {reason}", record.payload)


def open_tfrecords(inputs: Sequence[str], options: TFRecordOptions) -> TFRecordSource:
    """Check every checksum of TFRecord files, count their records and type their features.

    Raises:
        DataError: A file is damaged, cut or no TFRecord; names it, the record and its offset. A
            shard differs from the manifest that speaks for it, or a member of a set is missing.
    """
    listing = list_files(inputs, "tfrecord")
    _check_sets(inputs, listing.files)
    sample = FeatureSample()
    scanned: list[TFRecordFile] = []
    rejected: list[RejectedRow] = []
    for path in listing.files:
        sample.wanted = max(_MIN_SAMPLED_RECORDS, options.sample_rows // len(listing.files))
        file, no_examples = scan_file(path, sample.add)
        if not file.records and not options.allow_empty:
            raise DataError(f"{path}: has no records; {EMPTY_ADVICE}")
        scanned.append(file)
        rejected += no_examples
    has_lists = 2 * sum(file.sequences for file in scanned) > sum(f.records for f in scanned)
    columns = _columns(sample, listing.files[0], options, has_sequences=has_lists)
    return TFRecordSource(
        kind="tfrecord",
        columns=columns,
        fingerprint=fingerprint("tfrecord", [(file.path, file.sha256) for file in scanned]),
        rows=sum(file.records for file in scanned),
        files=listing.files,
        input_bytes=sum(file.size for file in scanned),
        ignored=listing.ignored,
        rejected_by_scan=tuple(rejected[:MAX_SCAN_REJECTED]),
        options=options,
        scanned=tuple(file for file in scanned if file.records),
        has_sequences=has_lists,
    )


def _check_sets(inputs: Sequence[str], files: Sequence[str]) -> None:
    """Hold local files against their manifests; without one, at least no member is missing.

    Raises:
        DataError: Names the first shard or set that differs.
    """
    whole = False
    for path in inputs:
        if not is_remote(path) and not check_listed(path):
            whole = whole or not os.path.isfile(path)  # one that is named may be one of many
    if whole:
        for fault in missing_members(Path(file) for file in files if not is_remote(file)):
            raise DataError(f"{fault}; bring back the whole set, and only that")


def _columns(
    sample: FeatureSample, where: str, options: TFRecordOptions, *, has_sequences: bool
) -> tuple[Column, ...]:
    if options.keep_features and has_sequences:
        raise DataError(
            f"{where}: holds SequenceExamples, whose features cannot be chosen; leave out "
            "keep_features to take them as they are"
        )
    columns = sample.columns()
    if options.schema_file:
        schema = read_schema(options.schema_file)
        columns = tuple(Column(c.name, c.kind, bool(c.is_list)) for c in schema)
    if not columns and not has_sequences:
        raise DataError(f"{where}: no record has a feature; expected tf.train.Examples")
    return (
        require_columns(columns, options.keep_features, where) if options.keep_features else columns
    )
