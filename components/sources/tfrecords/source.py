"""TFRecord files as a `Source`: their records as they are, in other shards, or features of them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from penstock.components.errors import DataError
from penstock.components.files.content import EMPTY_ADVICE, look
from penstock.components.files.listing import list_files
from penstock.components.sources.base import MAX_BATCH_BYTES, Batch, Column, Piece, RejectedRow
from penstock.components.sources.batches import MAX_BATCH_ROWS, rows_without
from penstock.components.sources.opened_files import OpenedFiles
from penstock.components.sources.schema import read_schema
from penstock.components.sources.spread import Spread, here
from penstock.components.sources.tfrecords.decode import (
    FeatureSample,
    RecordDecoder,
    require_columns,
)
from penstock.components.sources.tfrecords.listed import listed_shards, require_listed
from penstock.components.sources.tfrecords.options import TFRecord
from penstock.components.sources.tfrecords.scan import (
    MAX_SCAN_REJECTED,
    TFRecordFile,
    misfit,
    no_example,
    scan_file,
)
from penstock.components.tfrecord.example_proto import has_sequences, is_example
from penstock.components.tfrecord.records import Record

# At least as many records from the beginning of each of many files.
_MIN_SAMPLED_RECORDS = 64


@dataclass(frozen=True, eq=False, kw_only=True)
class TFRecordSource(OpenedFiles[TFRecordFile]):
    """TFRecord files, every record checked; see `OpenedFiles` for its other attributes.

    Attributes:
        columns: The features that all records may have; of SequenceExamples their context's.
        has_sequences: Whether the records are SequenceExamples: most of them have a list. Among
            Examples, whose readers drop lists in silence, a SequenceExample is rejected.
    """

    options: TFRecord

    def read(self, pieces: Sequence[Piece]) -> Iterator[Batch]:
        """The records of the pieces, at most `MAX_BATCH_ROWS` in a batch."""
        decoder = RecordDecoder(self.columns)
        as_they_are = not self.options.keep_features
        for piece in pieces:
            for records in _chunks(self.scanned[piece.file].read(piece.start, piece.end)):
                rejected = self._rejected(records, piece.file)
                yield _batch(records, rejected, piece.file, decoder, as_they_are=as_they_are)

    def _rejected(self, records: Sequence[Record], path: str) -> list[RejectedRow]:
        """Those of the records that are of no kind, or not of the kind of most."""
        rejected = []
        for record in records:
            if not is_example(record.payload):
                rejected.append(no_example(path, record))
            elif not self.has_sequences and has_sequences(record.payload):
                rejected.append(misfit(path, record, "a SequenceExample among Examples"))
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
    rejected += [misfit(path, records[at], why, name) for at, (name, why) in faults.items()]
    rejected.sort(key=lambda row: row.row)
    kept = [payload for at, payload in enumerate(payloads) if at not in faults]
    return Batch(
        rows_without(faults, table),
        rejected,
        records=pa.array(kept, pa.binary()) if as_they_are else None,
    )


def open_tfrecords(
    inputs: Sequence[str], options: TFRecord, spread: Spread = here
) -> TFRecordSource:
    """Check every checksum of TFRecord files, count their records and type their features."""
    listing = list_files(inputs, "tfrecord")
    shards = listed_shards(inputs, listing.files)
    scan = partial(
        scan_file, wanted=max(_MIN_SAMPLED_RECORDS, options.sample_rows // len(listing.files))
    )
    found = spread(scan, listing.files, sum(look(path)[0] for path in listing.files))
    sample = FeatureSample()
    scanned = [file for file, _, _ in found]
    rejected = [row for _, rows, _ in found for row in rows]
    for file, _, seen in found:
        if not file.rows and not options.allow_empty:
            raise DataError(f"{file.path}: has no records; {EMPTY_ADVICE}")
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
    )


def _columns(
    sample: FeatureSample, where: str, options: TFRecord, *, has_sequences: bool
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
