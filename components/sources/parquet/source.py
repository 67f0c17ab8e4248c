"""Parquet files as a `Source`: ranges of rows, of which only the row groups they touch are read.

Opening it reads every footer and hashes every file. Nested columns other than lists of plain
values are refused by name, and pickled extension types without running their code.
"""

import logging
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby

import pyarrow as pa
import pyarrow.compute as pc

from penstock.components.errors import DataError, short_error
from penstock.components.files.cells import byte_ranges
from penstock.components.files.content import (
    EMPTY_ADVICE,
    look,
    open_unchanged,
    scanned_content,
)
from penstock.components.files.listing import list_files
from penstock.components.files.retry import is_transient, wait_or_give_up, waits
from penstock.components.sources.arrow_values import number_unit, to_feature
from penstock.components.sources.base import MAX_BATCH_BYTES, Batch, Column, Piece
from penstock.components.sources.batches import (
    FIRST_BATCH_ROWS,
    MAX_BATCH_ROWS,
    Faults,
    batch_without,
    convert_columns,
    next_batch_rows,
)
from penstock.components.sources.cutting import SNAP_SHARE, RowStart, cut_files
from penstock.components.sources.layout import check_layouts, shown
from penstock.components.sources.opened_files import OpenedFiles
from penstock.components.sources.options import Table
from penstock.components.sources.parquet.file import ParquetFile, open_reader, scan_part
from penstock.components.sources.parquet.int96 import with_wide_timestamps
from penstock.components.sources.python_values import row_json
from penstock.components.sources.schema import read_schema
from penstock.components.sources.spread import Spread, here
from penstock.components.tfrecord.feature_kind import FeatureKind

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False, kw_only=True)
class ParquetSource(OpenedFiles[ParquetFile]):
    """Parquet files, opened, checked and typed."""

    options: Table

    def cut(self, parts: int) -> list[tuple[Piece, ...]]:
        """The whole input as `parts` runs of row ranges of about equal length, in order."""
        files, snap_rows = list(self.scanned.values()), SNAP_SHARE * self.rows / parts
        return cut_files(files, parts, lambda file, at, _: _row_start(file, at, snap_rows))

    def read(self, pieces: Sequence[Piece]) -> Iterator[Batch]:
        """The rows of the pieces, at most `MAX_BATCH_ROWS` or `MAX_BATCH_BYTES` in a batch."""
        for piece in pieces:
            left, rest = waits(), piece
            while rest.start < rest.end:
                try:
                    for batch in self._read_piece(self.scanned[piece.file], rest):
                        yield batch
                        rest = replace(rest, start=rest.start + batch.rows_read)
                except OSError as error:
                    wait_or_give_up(piece.file, error, left)

    def _read_piece(self, file: ParquetFile, piece: Piece) -> Iterator[Batch]:
        ends = file.group_ends
        groups = list(range(bisect_right(ends, piece.start), bisect_left(ends, piece.end) + 1))
        row = ends[groups[0] - 1] if groups[0] else 0
        most = min(MAX_BATCH_ROWS, max(1, MAX_BATCH_BYTES // file.row_bytes))
        # A footer tells the size of columns as they are encoded, which for text that repeats is far
        # below that of their values.
        rows = min(FIRST_BATCH_ROWS, most)
        names = [column.name for column in self.columns if column.name in file.names]
        with open_unchanged(piece.file, file.content), _RowReader(file, groups, names) as reader:
            batches = reader.batches(rows)
            for batch in _damage_named(batches, file.path, piece):
                begin = max(0, piece.start - row)
                part = batch.slice(begin, max(0, piece.end - row - begin))
                row_bytes = batch.nbytes // max(1, batch.num_rows)
                step = _rows_at_once(part)
                for at in range(0, part.num_rows, step):
                    some = part.slice(at, step)
                    converted = as_features(
                        some, self.columns, self.options.non_finite, piece.file, row + begin + at
                    )
                    row_bytes = max(row_bytes, converted.table.nbytes // some.num_rows)
                    yield converted
                row += batch.num_rows
                rows = next_batch_rows(rows, row_bytes, most)
                reader.set_batch_rows(rows)
        if row < piece.end:
            raise DataError(
                f"{piece.file}: rows end at {row}, the footer says {piece.end}; copy it again"
            )


def as_features(
    batch: pa.RecordBatch, columns: Sequence[Column], non_finite: str, place: str, first_row: int
) -> Batch:
    """Rows as they are stored, as features; `first_row` is the number of rows of `place` before."""

    def convert(column: Column) -> tuple[pa.Array, Faults]:
        at = batch.schema.get_field_index(column.name)
        if at < 0:
            return pa.nulls(batch.num_rows, column.arrow_type), {}
        return to_feature(batch.column(at), column, non_finite)

    table, faults = convert_columns(columns, convert)
    return batch_without(faults, table, place, first_row + 1, partial(_row_json, batch))


class _RowReader(ExitStack):
    """Reads row groups of a file, timestamps of 96 bits at full width."""

    def __init__(self, file: ParquetFile, groups: Sequence[int], names: Sequence[str]) -> None:
        super().__init__()
        self._groups = groups
        self._names = names
        self._by_arrow = file.by_arrow
        self._int96 = [name for name in names if name in file.int96]
        self._readers = [self.enter_context(open_reader(file.path))]
        if self._int96:
            self._readers.append(self.enter_context(open_reader(file.path, "us")))

    def batches(self, rows: int) -> Iterator[pa.RecordBatch]:
        """The rows, so many at a time at first."""
        columns = (self._names, self._int96)
        narrow, *wide = (
            reader.iter_batches(rows, self._groups, names, use_threads=False)
            for reader, names in zip(self._readers, columns, strict=False)
        )
        if not wide:
            return narrow
        return map(partial(with_wide_timestamps, by_arrow=self._by_arrow), narrow, *wide)

    def set_batch_rows(self, rows: int) -> None:
        """Read so many rows at a time from the next batch on."""
        for reader in self._readers:
            reader.reader.set_batch_size(rows)


def _rows_at_once(batch: pa.RecordBatch) -> int:
    """How many rows of a batch to convert at once, by the longest text of its dictionaries."""
    longest = 1
    for array in batch.columns:
        if pa.types.is_dictionary(array.type):
            longest = max(longest, pc.max(pc.binary_length(array.dictionary)).as_py() or 1)
    return max(1, MAX_BATCH_BYTES // longest)


def _damage_named(
    batches: Iterator[pa.RecordBatch], path: str, piece: Piece
) -> Iterator[pa.RecordBatch]:
    """The batches, and a `DataError` that names file and rows where they cannot be decoded."""
    try:
        yield from batches
    except (pa.ArrowException, OSError) as error:
        if is_transient(error):
            raise
        raise DataError(
            f"{path}: damaged within rows {piece.start + 1} to {piece.end} "
            f"({short_error(error)}); copy or write it again"
        ) from error


def _row_json(batch: pa.RecordBatch, row: int) -> bytes:
    return row_json(
        {
            name: _python_value(array.slice(row, 1))
            for name, array in zip(batch.schema.names, batch.columns, strict=True)
        }
    )


def _python_value(one: pa.Array) -> object:
    """The only value of an array; as Arrow prints it where Python has none (the year 36812)."""
    try:
        return one[0].as_py()
    except (OverflowError, ValueError):
        return " ".join(str(one).split())


def _row_start(file: ParquetFile, row: int, snap_rows: float) -> RowStart:
    """The row itself, or the nearest beginning of a row group that is within `snap_rows`."""
    begins = (0, *file.group_ends)
    at = bisect_left(begins, row)
    nearest = min(begins[max(0, at - 1) : at + 1], key=lambda begin: abs(begin - row))
    if abs(nearest - row) <= snap_rows:
        row = nearest
    return RowStart(row, row + 1)


def open_parquet(inputs: Sequence[str], options: Table, spread: Spread = here) -> ParquetSource:
    """Check, hash and type Parquet files."""
    listing = list_files(inputs, "parquet")
    files = _scan(listing.files, spread)
    columns = _columns(files, options)
    if not options.allow_empty:
        for file in files:
            if not file.rows:
                raise DataError(f"{file.path}: has no rows; {EMPTY_ADVICE}")
    return ParquetSource.of("parquet", files, listing, columns=columns, options=options)


def _scan(paths: Sequence[str], spread: Spread) -> list[ParquetFile]:
    looks = {path: look(path) for path in paths}
    parts = [part for path, (size, _) in looks.items() for part in byte_ranges(path, size)]
    found = zip(parts, spread(scan_part, parts, sum(s for s, _ in looks.values())), strict=True)
    files = []
    for path, of_file in groupby(found, key=lambda one: one[0].path):
        (file, *_), digests = zip(*(one for _, one in of_file), strict=True)
        content = scanned_content(path, looks[path], [one for some in digests for one in some])
        files.append(replace(file, content=content))
    return files


def _columns(files: Sequence[ParquetFile], options: Table) -> tuple[Column, ...]:
    """The columns of the schema, or else of the first file, which all others then have too.

    What neither says, kind or list, is as in the first file that has values; only nulls are text.
    """
    schema = read_schema(options.schema_file)
    check_layouts(files, schema, options)
    columns = []
    wanted = {one.name: one for one in schema}
    for name in wanted or _kept(files, options):
        having = [file for file in files if name in file.names]
        typed = next((f for f in having if f.feature(name)[0] is not None), (having or files)[0])
        kind, is_list = typed.feature(name) if having else (None, False)
        expected_by = typed.path
        if name in wanted:
            kind, expected_by = wanted[name].kind, f"the schema {options.schema_file}"
            is_list = is_list if wanted[name].is_list is None else bool(wanted[name].is_list)
        is_text = all(file.is_text(name) for file in having)
        column = Column(name, kind or FeatureKind.BYTES, is_list, is_text)
        for file in having:
            file.check_fits(column, expected_by)
        _check_units(name, having)
        columns.append(column)
    return tuple(columns)


def _kept(files: Sequence[ParquetFile], options: Table) -> list[str]:
    names = list(files[0].names)
    if options.extra_columns == "reject":
        return names
    held = [name for name in names if all(file.can_hold(name) for file in files)]
    if 0 < len(held) < len(names):
        left_out = shown([name for name in names if name not in held])
        _LOG.warning("%s: left out %s, which no feature can hold", files[0].path, left_out)
    return held or names


def _check_units(name: str, files: Sequence[ParquetFile]) -> None:
    """Refuse files in which the numbers of a column count different things."""
    first: dict[str, ParquetFile] = {}
    for file in files:
        unit = number_unit(file.schema.field(name).type)
        if unit is not None:
            first.setdefault(unit, file)
    if len(first) > 1:
        (unit, file), (other, other_file), *_ = first.items()
        raise DataError(
            f"{other_file.path}: column {name!r} holds {other}s, in {file.path} {unit}s, which "
            "are counted in different units; write them alike, or ingest the files apart"
        )
