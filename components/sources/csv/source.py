"""Delimited text as a `Source`: byte ranges that begin at row starts, parsed by Arrow.

Opening it reads every file once: headers are checked and matched by name, rows are counted, the
content is hashed, types are fixed, and quotes that never close are found.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from penstock.components.errors import DataError
from penstock.components.files.find import find
from penstock.components.sources.base import Batch, Column
from penstock.components.sources.batches import MAX_BATCH_ROWS
from penstock.components.sources.csv.header import find_delimiter, read_header
from penstock.components.sources.csv.parse import RowParser
from penstock.components.sources.files import map_files
from penstock.components.sources.infer import TypeSample
from penstock.components.sources.options import Csv
from penstock.components.sources.partitions import add_partitions, find_folders
from penstock.components.sources.schema import SchemaColumn, check_layouts, read_schema
from penstock.components.sources.spread import Spread, here
from penstock.components.sources.text.blocks import RowBlock, RowPlace, Splitter
from penstock.components.sources.text.source import Header, TextSource, sample_rows, scan_files
from penstock.components.tfrecord.feature_kind import FeatureKind
from penstock.components.tfrecord.sharding import MIB

# Large enough to hide the few hundred microseconds that a block costs, small enough that a worker
# holds a few tens of MiB.
BLOCK_BYTES = 4 * MIB


@dataclass(frozen=True, eq=False, kw_only=True)
class CsvSource(TextSource):
    options: Csv

    def batches(self, block: RowBlock, place: RowPlace) -> Iterator[Batch]:
        parser = RowParser(self.scanned[place.file].header.names, self.columns, self.options)
        batch = parser.parse(block, place)
        yield replace(batch, table=batch.table.slice(0, MAX_BATCH_ROWS))
        for start in range(MAX_BATCH_ROWS, batch.table.num_rows, MAX_BATCH_ROWS):
            yield Batch(batch.table.slice(start, MAX_BATCH_ROWS))


def open_csv(inputs: Sequence[str], options: Csv, spread: Spread = here) -> CsvSource:
    listing = find(inputs, "csv")
    folders = find_folders(listing.files, inputs)
    if options.delimiter is None:
        options = replace(options, delimiter=find_delimiter(listing.files[0], options.comment))
    splitter = Splitter(BLOCK_BYTES, options.max_row_bytes, options.delimiter)
    schema = read_schema(options.schema_file)
    known = {column.name for column in schema}
    headers = map_files(lambda path: read_header(path, splitter, options, known), listing.files)
    filled = [header for header in headers if header.names]
    check_layouts(filled, schema, options, folders)
    scanned, rejected = scan_files(headers, splitter, spread, allow_empty=options.allow_empty)
    if schema:
        columns = _schema_columns(schema, options)
    else:
        columns = _sampled_columns(filled, splitter, options)
    if not columns:
        raise DataError(f"{listing.files[0]}: no file has a header, so there are no columns")
    source = CsvSource.of(
        "csv",
        scanned,
        listing,
        columns=columns,
        options=options,
        splitter=splitter,
        rejected_by_scan=rejected,
    )
    return add_partitions(source, folders)


def _schema_columns(schema: Sequence[SchemaColumn], options: Csv) -> tuple[Column, ...]:
    for column in schema:
        if column.is_list:
            raise DataError(
                f"{options.schema_file}: feature {column.name!r} holds lists, and a CSV "
                "field one value; give it a shape of one value, or bring the data as Parquet"
            )
    return tuple(Column(column.name, column.kind) for column in schema)


def _sampled_columns(
    headers: Sequence[Header], splitter: Splitter, options: Csv
) -> tuple[Column, ...]:
    names = headers[0].names if headers else ()
    texts = [Column(name, FeatureKind.BYTES) for name in names]
    sample = TypeSample((*options.null_tokens, *options.text_null_tokens))
    for header, block in sample_rows(headers, splitter, options.sample_rows):
        parser = RowParser(header.names, tuple(texts), options)
        if block.data.strip(b"\r\n"):
            found, _ = parser.fields(block.data, texts, quoted=block.quoted)
            for name, values in found.items():
                sample.add(name, values)
    return tuple(Column(name, sample.kind(name)) for name in names)
