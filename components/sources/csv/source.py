"""Delimited text as a `Source`: byte ranges that begin at row starts, read by Arrow's CSV parser.

Opening it reads every file once: headers are checked and mapped by name, rows are counted
exactly, the content is hashed, types are fixed and quotes that never close are found.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from penstock.components.errors import DataError
from penstock.components.files.content import EMPTY_ADVICE, open_unchanged
from penstock.components.files.listing import list_files
from penstock.components.sources.base import Batch, Column, Piece
from penstock.components.sources.batches import MAX_BATCH_ROWS, empty_batch
from penstock.components.sources.csv.blocks import RowBlock
from penstock.components.sources.csv.file import CsvFile
from penstock.components.sources.csv.header import found_delimiter, read_header
from penstock.components.sources.csv.isolate import RowPlace, broken_row, isolate
from penstock.components.sources.csv.parse import Misfit, RowParser
from penstock.components.sources.csv.rows import RowSplitter
from penstock.components.sources.csv.sampler import CsvSampler
from penstock.components.sources.csv.scan import scan_files
from penstock.components.sources.cutting import SNAP_SHARE, cut_files
from penstock.components.sources.layout import check_layouts
from penstock.components.sources.opened_files import OpenedFiles
from penstock.components.sources.options import SourceOptions
from penstock.components.sources.schema import SchemaColumn, read_schema
from penstock.components.sources.spread import Spread, here
from penstock.components.sources.whole_files.scan import for_each_file
from penstock.components.tfrecord.sharding import MIB

# Large enough that the few hundred microseconds that a block costs do not show, small
# enough that a worker holds a few tens of MiB.
SCAN_BLOCK_BYTES = 8 * MIB
READ_BLOCK_BYTES = 4 * MIB


@dataclass(frozen=True, eq=False, kw_only=True)
class CsvSource(OpenedFiles[CsvFile]):
    """Files of delimited text, opened, checked and typed."""

    options: SourceOptions

    def cut(self, parts: int) -> list[tuple[Piece, ...]]:
        """The whole input as `parts` runs of byte ranges of about equal size, in order."""
        splitter = _splitter(self.options, READ_BLOCK_BYTES)
        files, snap_bytes = list(self.scanned.values()), SNAP_SHARE * self.input_bytes / parts
        return cut_files(files, parts, lambda file, *at: file.find_row(*at, splitter, snap_bytes))

    def read(self, pieces: Sequence[Piece]) -> Iterator[Batch]:
        """The rows of the pieces, at most `MAX_BATCH_ROWS` good ones in a batch."""
        splitter = _splitter(self.options, READ_BLOCK_BYTES)
        for piece in pieces:
            file = self.scanned[piece.file]
            parser = RowParser(file.names, self.columns, self.options)
            row, line = piece.first_row, piece.first_line
            with open_unchanged(piece.file, file.content) as stream:
                stream.seek(piece.start)
                for block in splitter.split(stream, piece.start, piece.end, piece.file):
                    yield from _batches(block, RowPlace(piece.file, row, line), parser, splitter)
                    row, line = row + block.rows, line + block.lines


def _batches(
    block: RowBlock, place: RowPlace, parser: RowParser, splitter: RowSplitter
) -> Iterator[Batch]:
    """The rows of one block."""
    if block.broken_at is not None:
        yield Batch(empty_batch(parser.columns), (broken_row(block, place),))
        return
    try:
        table = parser.parse(block.data, block.rows, quoted=block.quoted)
    except Misfit:
        if block.rows <= MAX_BATCH_ROWS:
            yield isolate(block, place, parser, splitter)
            return
    else:
        for start in range(0, table.num_rows, MAX_BATCH_ROWS):
            yield Batch(table.slice(start, MAX_BATCH_ROWS))
        return
    # Only the parts in which something does not fit are looked at closely.
    for start in range(0, block.rows, MAX_BATCH_ROWS):
        part = block.slice_rows(start, min(start + MAX_BATCH_ROWS, block.rows))
        yield from _batches(part, place, parser, splitter)
        place = RowPlace(place.file, place.row + part.rows, place.line + part.lines)


def open_csv(inputs: Sequence[str], options: SourceOptions, spread: Spread = here) -> CsvSource:
    """Check, scan and type files of delimited text."""
    listing = list_files(inputs, "csv")
    if options.delimiter is None:
        options = replace(options, delimiter=found_delimiter(listing.files[0]))
    splitter = _splitter(options, SCAN_BLOCK_BYTES)
    schema = read_schema(options.schema_file)
    known = {column.name for column in schema}
    headers = for_each_file(lambda path: read_header(path, splitter, options, known), listing.files)
    filled = [header for header in headers if header.names]
    columns = _schema_columns(schema, options) if schema else ()
    check_layouts(filled, schema, options)
    sampler = None
    if not schema and filled:
        sampler = CsvSampler(filled[0].names, len(filled), options, splitter)
    scanned, rejected, sample = scan_files(headers, splitter, sampler, spread)
    _check_rows(scanned, options)
    if sampler and sample:
        columns = tuple(Column(n, sample.kind(n), is_text=True) for n in sampler.names)
    if not columns:
        raise DataError(f"{listing.files[0]}: no file has a header, so there are no columns")
    return CsvSource.of(
        "csv",
        scanned,
        listing,
        columns=columns,
        options=options,
        rejected_by_scan=tuple(rejected),
    )


def _splitter(options: SourceOptions, block_bytes: int) -> RowSplitter:
    assert options.delimiter is not None, "open_csv has found one"
    return RowSplitter(
        options.delimiter, block_bytes=block_bytes, max_row_bytes=options.max_row_bytes
    )


def _schema_columns(schema: Sequence[SchemaColumn], options: SourceOptions) -> tuple[Column, ...]:
    for column in schema:
        if column.is_list:
            raise DataError(
                f"{options.schema_file}: feature {column.name!r} holds lists, and a CSV "
                "field one value; give it a shape of one value, or bring the data as Parquet"
            )
    return tuple(Column(column.name, column.kind, is_text=True) for column in schema)


def _check_rows(files: Sequence[CsvFile], options: SourceOptions) -> None:
    """Refuse files without rows, unless they are allowed."""
    if options.allow_empty:
        return
    for file in files:
        if not file.has_data:
            what = "has a header and no rows" if file.names else "holds only blank lines"
            what = what if file.content.size else "is empty (0 bytes)"
            raise DataError(f"{file.path}: {what}; {EMPTY_ADVICE}")
