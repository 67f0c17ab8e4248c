"""One Parquet file: its footer, checked, and the digests of its cells.

`open_reader` is the only door to Parquet in the project; what a footer may do to a reader
is dealt with here.
"""

from collections import Counter
from dataclasses import dataclass
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow_hotfix  # noqa: F401 - CVE-2023-47248: Arrow 10 runs pickled code of a file's schema

from penstock.components.errors import DataError, short_error
from penstock.components.files.cells import ByteRange, CellStream
from penstock.components.files.content import Content, file_size, file_state, open_data
from penstock.components.files.remote import is_read_in_parts
from penstock.components.files.retry import retry_local
from penstock.components.files.sniff import PARQUET_MAGIC, not_text
from penstock.components.files.spool import local_path
from penstock.components.sources.arrow_values import feature_type, fits, holds_text
from penstock.components.sources.base import Column
from penstock.components.sources.layout import shown
from penstock.components.sources.opened_files import OpenedFile
from penstock.components.sources.parquet.int96 import wide_columns, written_by_arrow
from penstock.components.tfrecord.feature_kind import FeatureKind


@dataclass(frozen=True, eq=False, kw_only=True)
class ParquetFile(OpenedFile):
    """A file as its footer describes it.

    Attributes:
        schema: Names and Arrow types of its columns.
        group_ends: One past the last row of each row group, ascending.
        int96: Columns whose timestamps may not fit nanoseconds.
        by_arrow: Whether Arrow wrote the file.
        row_bytes: Largest mean size of a row among the groups, uncompressed
            but as encoded: its values may be far larger.
    """

    schema: pa.Schema
    group_ends: tuple[int, ...]
    int96: tuple[str, ...]
    by_arrow: bool
    row_bytes: int

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(self.schema.names)

    def feature(self, name: str) -> tuple[FeatureKind | None, bool]:
        """(kind, whether a list) of a column; kind None where it holds only nulls.

        Raises:
            DataError: No feature can hold its type.
        """
        arrow_type = self.schema.field(name).type
        feature = feature_type(arrow_type)
        if feature is None:
            raise DataError(
                f"{self.path}: column {name!r} has type {arrow_type}, which no feature can hold; "
                "flatten it into columns of numbers, text or lists of those, or set "
                "`extra_columns='drop'`, which leaves it out if no schema names it"
            )
        return feature

    def can_hold(self, name: str) -> bool:
        """Whether a feature can hold a column."""
        return feature_type(self.schema.field(name).type) is not None

    def is_text(self, name: str) -> bool:
        """Whether a column's values are UTF-8 text, or there are none."""
        arrow_type = self.schema.field(name).type
        return holds_text(arrow_type) or pa.types.is_null(arrow_type)

    def check_fits(self, column: Column, expected_by: str) -> None:
        """Refuse, by DataError, a column of another type than `column` has."""
        self.feature(column.name)
        arrow_type = self.schema.field(column.name).type
        if not fits(column, arrow_type):
            raise DataError(
                f"{self.path}: column {column.name!r} has type {arrow_type}, expected "
                f"{column.holds} as {expected_by} has it; convert the column, or change the schema"
            )


def open_reader(path: str, int96_unit: str | None = None) -> pq.ParquetFile:
    """A reader of a file, its footer parsed; to be used as a context manager.

    Timestamps of 96 bits are read as `int96_unit`; without one as nanoseconds, which wrap.

    Arrow opens a local file itself: a Python stream that its threads let go of while the
    interpreter ends would abort the process (see `csv/parse.py`).

    Raises:
        DataError: It is not Parquet, is damaged, or wants pickled code to be run.
    """

    def opened() -> pq.ParquetFile:
        file = open_data(path) if is_read_in_parts(path) else local_path(path)
        return pq.ParquetFile(file, coerce_int96_timestamp_unit=int96_unit)

    try:
        return retry_local(path, opened)
    except RuntimeError as error:
        if "extension" not in str(error):
            raise
        raise DataError(
            f"{path}: a column has a pickled Python extension type, which could run any code and "
            "is not read (CVE-2023-47248); write the column with a plain type"
        ) from error
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path}: damaged Parquet footer ({short_error(error)})") from error


def scan_part(part: ByteRange) -> tuple[ParquetFile | None, tuple[bytes, ...]]:
    """Hash a part of a file; with the first goes the footer.

    Returns:
        The file, without its digest, of the first part; the digests of the part's cells.
    """
    file = None if part.start else _inspect(part.path)
    with open_data(part.path) as stream:
        stream.seek(part.start)
        return file, CellStream(stream, part.start, part.end).digests()


def _inspect(path: str) -> ParquetFile:
    with open_data(path) as stream:
        size, state = file_size(stream), file_state(stream)
        _check_ends(stream, size, path)
    with open_reader(path) as reader:
        schema, metadata = reader.schema_arrow, reader.metadata
    twice = [name for name, count in Counter(schema.names).items() if count > 1]
    if twice:
        raise DataError(f"{path}: duplicate column {shown(twice)}; names must differ, rename one")
    ends, row_bytes, rows = [], 1, 0
    for at in range(metadata.num_row_groups):
        group = metadata.row_group(at)
        rows += group.num_rows
        ends.append(rows)
        row_bytes = max(row_bytes, group.total_byte_size // max(1, group.num_rows))
    return ParquetFile(
        path=path,
        content=Content(b"", size, state),
        rows=rows,
        schema=schema,
        group_ends=tuple(ends),
        int96=wide_columns(metadata),
        by_arrow=written_by_arrow(metadata),
        row_bytes=row_bytes,
    )


def _check_ends(stream: BinaryIO, size: int, path: str) -> None:
    """Refuse what does not begin and end as Parquet does."""
    if not size:
        raise DataError(f"{path}: is empty (0 bytes), expected Parquet; remove it")
    head = stream.read(512)
    if not head.startswith(PARQUET_MAGIC):
        looks_like = not_text(head) or "it does not begin with PAR1"
        raise DataError(f"{path}: not Parquet: {looks_like}")
    stream.seek(max(0, size - len(PARQUET_MAGIC)))
    if size < 12 or stream.read() != PARQUET_MAGIC:
        raise DataError(
            f"{path}: truncated: {size} bytes that do not end as Parquet does; copy it again"
        )
