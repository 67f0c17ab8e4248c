"""Files with groups of rows stored by column, as a `Source`: Parquet, Arrow IPC and ORC.

A piece is a range of rows; only the row groups that overlap it are read, except that an Arrow
stream is decoded from its start. The types of the columns come from the files themselves. By
default, a nested column is rejected with an error that names it, unless it is a list of plain
values.
"""

import logging
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow_hotfix  # noqa: F401 - CVE-2023-47248: Arrow 10 runs pickled code of a file's schema

from penstock.components.errors import DataError, short_error
from penstock.components.files.content import (
    Content,
    file_size,
    file_state,
    open_data,
    open_unchanged,
)
from penstock.components.files.find import find
from penstock.components.files.sniff import not_text
from penstock.components.sources.arrow_values import (
    feature_type,
    fits,
    number_unit,
    to_feature,
)
from penstock.components.sources.base import MAX_BATCH_BYTES, Batch, Column, Piece
from penstock.components.sources.batches import (
    FIRST_BATCH_ROWS,
    MAX_BATCH_ROWS,
    Faults,
    batch_without,
    convert_columns,
    next_batch_rows,
)
from penstock.components.sources.files import (
    SNAP_SHARE,
    FileSource,
    RowStart,
    ScannedFile,
    inspected,
    require_rows,
    spread_files,
)
from penstock.components.sources.options import ColumnOptions
from penstock.components.sources.partitions import Folders, add_partitions, find_folders
from penstock.components.sources.python_values import row_json
from penstock.components.sources.schema import check_layouts, read_schema, shown
from penstock.components.sources.spread import Spread
from penstock.components.tfrecord.feature_kind import FeatureKind

_LOG = logging.getLogger(__name__)
_SNIFFED_BYTES = 512
# Messages of Arrow's readers for valid files that use something the readers do not support.
_READER_LACKS = re.compile(
    r"not (yet )?implemented|only supports|unsupported|unrecognized type|unknown encoding"
    r"|expected all lists to be of size|extension",
    re.IGNORECASE,
)


@dataclass(frozen=True, eq=False, kw_only=True)
class ColumnarFile(ScannedFile):
    """A file as described by its header or footer."""

    schema: pa.Schema
    group_ends: tuple[int, ...]  # One past the last row of each group of rows, ascending.
    row_bytes: int = 1  # Mean encoded size of a row, in the group where it is largest.
    # Columns that are not stored in the file: by name, the one value that all rows have.
    constants: Mapping[str, Any] = field(default_factory=dict)
    stored: Mapping[str, str] = field(default_factory=dict)  # column -> its other name in the file
    # If the rows of `path` were copied to another file: path and content of that file.
    copy: tuple[str, Content] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.schema.names)

    def type_of(self, name: str) -> pa.DataType:
        return self.schema.field(name).type

    def feature(self, name: str) -> tuple[FeatureKind | None, bool]:
        """Returns (kind, is_list) of a column; kind None if it holds only nulls."""
        feature = feature_type(self.type_of(name))
        if feature is None:
            raise DataError(
                f"{self.path}: column {name!r} has type {self.type_of(name)}, which no feature can "
                "hold; flatten it into columns of numbers, text or lists of those, or set "
                "`extra_columns='drop'`, which leaves it out if no schema names it"
            )
        return feature

    def check_fits(self, column: Column, expected_by: str) -> None:
        self.feature(column.name)
        arrow_type = self.type_of(column.name)
        if not fits(column, arrow_type):
            raise DataError(
                f"{self.path}: column {column.name!r} has type {arrow_type}, expected "
                f"{column.holds} as {expected_by} has it; convert the column, or change the schema"
            )


@dataclass
class BatchSize:
    """Number of rows to read in the next batch; the consumer sets it."""

    rows: int


ReadGroups = Callable[[str, Sequence[int], Sequence[str], BatchSize], Iterator[pa.RecordBatch]]
"""Yields at least the named columns of some groups, if possible in batches of the given size."""


@dataclass(frozen=True, eq=False, kw_only=True)
class ColumnarSource(FileSource[ColumnarFile]):
    options: ColumnOptions
    read_groups: ReadGroups
    also_read: ClassVar[tuple[str, ...]] = ()  # Stored columns to read besides `columns`.

    def row_start(
        self, file: ColumnarFile, at: int, before: RowStart | None, parts: int
    ) -> RowStart:
        begins = (0, *file.group_ends)
        place = bisect_left(begins, at)
        nearest = min(begins[max(0, place - 1) : place + 1], key=lambda begin: abs(begin - at))
        row = nearest if abs(nearest - at) <= SNAP_SHARE * self.rows / parts else at
        return RowStart(row, row + 1)

    def read_piece(self, file: ColumnarFile, piece: Piece) -> Iterator[Batch]:
        ends = file.group_ends
        groups = list(range(bisect_right(ends, piece.start), bisect_left(ends, piece.end) + 1))
        row = ends[groups[0] - 1] if groups[0] else 0
        most = min(MAX_BATCH_ROWS, max(1, MAX_BATCH_BYTES // file.row_bytes))
        # The first batch is small because the footer's sizes are encoded sizes: repeated text is
        # far larger when decoded.
        first = min(FIRST_BATCH_ROWS, most)
        size = BatchSize(first)
        stored = [name for name in file.names if name not in file.constants]
        # At least one stored column is read, because a batch without columns has no number of rows.
        names = [c.name for c in self.columns if c.name in stored] or stored[:1]
        names += self.also_read
        in_file = [file.stored.get(name, name) for name in names]
        damaged = f"within rows {piece.start + 1} to {piece.end}"
        path, content = file.copy or (file.path, file.content)
        with open_unchanged(path, content), opening(path, damaged):
            for batch in self.read_groups(path, groups, in_file, size):
                end = row + batch.num_rows
                if end <= piece.start:
                    size.rows = max(first, _rows_to_skip(batch, size.rows, most))
                else:
                    if row <= piece.start:  # converted rows may be far larger than skipped ones
                        size.rows = first
                    columns = [batch.column(batch.schema.names.index(name)) for name in in_file]
                    begin = max(row, piece.start)
                    rows = pa.RecordBatch.from_arrays(columns, names)
                    rows = rows.slice(begin - row, piece.end - begin)
                    yield from self._convert_in_parts(rows, file, begin, size, most)
                row = end
                if row >= piece.end:
                    break
        if row < piece.end:
            raise DataError(
                f"{piece.file}: rows end at {row}, the footer says {piece.end}; copy it again"
            )

    def _convert_in_parts(
        self, rows: pa.RecordBatch, file: ColumnarFile, first: int, size: BatchSize, most: int
    ) -> Iterator[Batch]:
        """Converts rows in parts of `size`, which follows from the size of converted rows."""
        at = 0
        while at < rows.num_rows:
            part = rows.slice(at, size.rows)
            converted = self._convert(part, file, first + at)
            yield converted
            at += part.num_rows
            row_bytes = converted.table.nbytes // part.num_rows
            size.rows = next_batch_rows(size.rows, row_bytes, most)

    def _convert(self, rows: pa.RecordBatch, file: ColumnarFile, first: int) -> Batch:
        """Converts rows of the file; `first` is the index of the first one."""
        scalars = [pa.scalar(value, file.type_of(name)) for name, value in file.constants.items()]
        columns = [*rows.columns, *(pa.repeat(scalar, rows.num_rows) for scalar in scalars)]
        rows = pa.RecordBatch.from_arrays(columns, [*rows.schema.names, *file.constants])
        return as_features(rows, self.columns, self.options.non_finite, file.path, first)


def as_features(
    batch: pa.RecordBatch, columns: Sequence[Column], non_finite: str, place: str, first_row: int
) -> Batch:
    """Converts rows to features; `first_row` is the index of the first one in file `place`."""

    def convert(column: Column) -> tuple[pa.Array, Faults]:
        at = batch.schema.get_field_index(column.name)
        if at < 0:
            return pa.nulls(batch.num_rows, column.arrow_type), {}
        return to_feature(batch.column(at), column, non_finite)

    table, faults = convert_columns(columns, convert)
    return batch_without(faults, table, place, first_row + 1, partial(_row_json, batch))


def _reader_lacks(error: Exception) -> str | None:
    """Returns why Arrow's reader cannot read a file that may be valid; None if it is damaged."""
    if "decrypt" in str(error):
        return "is encrypted, and no keys are read; decrypt it and write it again"
    if _READER_LACKS.search(str(error)):
        return (
            f"cannot be read by pyarrow {pa.__version__}, which may lack what a newer writer used "
            f"({short_error(error)}); use Python 3.11 or newer, whose pyarrow is newer, or write "
            "it with plainer types and encodings again"
        )
    return None


def _row_json(batch: pa.RecordBatch, row: int) -> bytes:
    return row_json(
        {
            name: _python_value(array.slice(row, 1))
            for name, array in zip(batch.schema.names, batch.columns, strict=True)
        }
    )


def _python_value(one: pa.Array) -> object:
    """Returns the only value of an array; as text if Python has no such value (the year 36812)."""
    try:
        return one[0].as_py()
    except (OverflowError, ValueError):
        return " ".join(str(one).split())


@contextmanager
def opening(path: str, what: str) -> Iterator[None]:
    """Turns Arrow's errors in the `with` block into a `DataError` that names the file."""
    try:
        yield
    except (pa.ArrowException, OSError, RuntimeError) as error:
        fault = (
            _reader_lacks(error) or f"damaged {what} ({short_error(error)}); copy or write it again"
        )
        raise DataError(f"{path}: {fault}") from error


def read_content(path: str, magics: tuple[bytes, ...], what: str) -> tuple[Content, bytes]:
    """Returns size, state and first bytes of a file, which must begin with one of `magics`."""
    with open_data(path) as stream:
        size, state = file_size(stream), file_state(stream)
        head = stream.read(_SNIFFED_BYTES)
    if not head.startswith(magics):
        problem = (not_text(head) or f"is not {what}") if head else "is empty (0 bytes)"
        raise DataError(f"{path}: {problem}; expected {what}")
    return Content(b"", size, state), head


def described(
    path: str, content: Content, schema: pa.Schema, group_rows: Iterable[int], row_bytes: int = 1
) -> ColumnarFile:
    """Describes a file with these row counts per group; raises DataError if column names repeat."""
    twice = [name for name, count in Counter(schema.names).items() if count > 1]
    if twice:
        raise DataError(f"{path}: duplicate column {shown(twice)}; names must differ, rename one")
    ends = tuple(accumulate(group_rows))
    return ColumnarFile(
        path=path,
        content=content,
        rows=ends[-1] if ends else 0,
        schema=schema,
        group_ends=ends,
        row_bytes=row_bytes,
    )


def _rows_to_skip(batch: pa.RecordBatch, rows: int, most: int) -> int:
    """Returns the number of rows to decode next, after `batch`, if they too are before the piece.

    The size of the buffers is an upper limit for the size of the rows: it includes dictionaries and
    the rows that a slice leaves out. Unlike `nbytes`, it looks at no offsets, which a damaged file
    may have wrong, and is defined for all types.
    """
    row_bytes = batch.get_total_buffer_size() // max(1, batch.num_rows)
    return next_batch_rows(rows, row_bytes, most)


def open_columnar(
    kind: str,
    inspect: Callable[[str], ColumnarFile],
    read_groups: ReadGroups,
    inputs: Sequence[str],
    options: ColumnOptions,
    spread: Spread,
) -> ColumnarSource:
    listing = find(inputs, kind)
    folders = find_folders(listing.files, inputs)
    files = spread_files(partial(inspected, inspect=inspect), listing.files, spread)
    columns = type_columns(files, options, folders)
    require_rows(files, allow_empty=options.allow_empty)
    source = ColumnarSource.of(
        kind, files, listing, columns=columns, options=options, read_groups=read_groups
    )
    return add_partitions(source, folders)


def type_columns(
    files: Sequence[ColumnarFile], options: ColumnOptions, folders: Folders | None = None
) -> tuple[Column, ...]:
    """Returns the columns of the schema or, without a schema, those of the first file.

    All files must have the columns that the schema requires or, without a schema, those of the
    first file. If the first file has only nulls in a column, the kind of the column comes from the
    first file that has values in it.
    """
    schema = read_schema(options.schema_file)
    check_layouts(files, schema, options, folders)
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
        column = Column(name, kind or FeatureKind.BYTES, is_list)
        for file in having:
            file.check_fits(column, expected_by)
        _check_units(name, having)
        columns.append(column)
    return tuple(columns)


def _kept(files: Sequence[ColumnarFile], options: ColumnOptions) -> list[str]:
    names = list(files[0].names)
    if options.extra_columns == "reject":
        return names
    held = [name for name in names if all(feature_type(file.type_of(name)) for file in files)]
    if not held:
        raise DataError(
            f"{files[0].path}: no feature can hold any of its columns ({shown(names)}); flatten "
            "them into columns of numbers, text or lists of those"
        )
    if len(held) < len(names):
        left_out = shown([name for name in names if name not in held])
        _LOG.warning("%s: left out %s, which no feature can hold", files[0].path, left_out)
    return held


def _check_units(name: str, files: Sequence[ColumnarFile]) -> None:
    first: dict[str, ColumnarFile] = {}
    for file in files:
        unit = number_unit(file.type_of(name))
        if unit is not None:
            first.setdefault(unit, file)
    if len(first) > 1:
        (unit, file), (other, other_file), *_ = first.items()
        raise DataError(
            f"{other_file.path}: column {name!r} holds {other}s, in {file.path} {unit}s, which "
            "are counted in different units; write them alike, or ingest the files separately"
        )
