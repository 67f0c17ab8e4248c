"""The contract between outside data and ExampleGen: units of work in, Arrow record batches out.

The planning process opens a source: it checks every file, fixes the type of each column and
rejects input that is unreadable as a whole. Workers then read pieces of it as record batches.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from penstock.components.tfrecord.feature_kind import ARROW_TYPES, FeatureKind
from penstock.components.tfrecord.sharding import MIB

# Approximate maximum size of a batch. It bounds memory, and stays far below 2 GiB, the limit of
# Arrow's binary arrays. Batches of large rows (images) therefore have fewer rows.
MAX_BATCH_BYTES = 64 * MIB
NUMBERS = (FeatureKind.INT, FeatureKind.FLOAT)


@dataclass(frozen=True)
class Column:
    """One feature of every row."""

    name: str
    kind: FeatureKind
    is_list: bool = False  # A row holds a list of values (Arrow `list<kind>`).

    @property
    def arrow_type(self) -> pa.DataType:
        value = ARROW_TYPES[self.kind]
        return pa.list_(value) if self.is_list else value

    @property
    def holds(self) -> str:
        """Kind of a row's value, for messages: `INT`, `lists of FLOAT`."""
        return f"{'lists of ' if self.is_list else ''}{self.kind.value}"


@dataclass(frozen=True)
class Piece:
    """A contiguous part of one file: the unit that a worker reads."""

    file: str
    start: int  # First byte (text) or index of the first row (all other kinds)
    end: int  # One past the last byte or row
    first_row: int  # Number of this piece's first data row in the file, from 1, without the header.
    first_line: int = 0  # Physical line of `first_row`, from 1; 0 if the file has no lines.


@dataclass(frozen=True)
class RejectedRow:
    """A row that does not fit its columns."""

    file: str
    row: int  # Number of the data row in the file, from 1, without the header.
    line: int  # Physical line of the row, from 1; 0 if the file has no lines.
    column: str | None  # Column at fault; None if the whole row is at fault.
    reason: str  # The fault, and what was expected instead.
    raw: bytes  # The row's bytes in the file; the row as JSON for columnar files, Avro and SQL.

    def __str__(self) -> str:
        """Returns file, line, row, column and reason as one text, for error messages."""
        place = f"row {self.row}" if not self.line else f"line {self.line} (row {self.row})"
        column = f", column {self.column!r}" if self.column is not None else ""
        return f"{self.file}: {place}{column}: {self.reason}"


@dataclass(frozen=True)
class Batch:
    """Some rows of one piece, in file order."""

    table: pa.RecordBatch  # Good rows: an array of `arrow_type` per `Column`; null: no value.
    rejected: Sequence[RejectedRow] = field(default_factory=tuple)
    blank: int = 0  # Number of blank rows left out.
    records: pa.BinaryArray | None = None  # Serialized rows of `table`, if the source has them.
    digests: pa.BinaryArray | None = None  # sha256 of each row's file; it decides the row's split.

    @property
    def rows_read(self) -> int:
        """Number of good, rejected and blank rows."""
        return self.table.num_rows + len(self.rejected) + self.blank


@dataclass(frozen=True, eq=False, kw_only=True)
class Source(ABC):
    """Outside data of one kind, opened, checked and typed.

    The protocol between the planning process and the workers:

    1. `cut` returns runs of `Piece`s, which hold only names and integers.
    2. `part` returns a copy of the source for one run. It is pickled into that run's task, so it
       holds no open file or connection, and its size must not grow with the whole input.
    3. A worker unpickles it and calls `read` with the pieces; a retry does so again. The same
       pieces give the same batches each time, or a `DataError` if the data has changed.
    """

    kind: str
    columns: tuple[Column, ...]  # The columns of all rows, fixed before the work starts.
    fingerprint: str  # sha256 (hex) of the data; for most kinds, of all files' names and contents.
    rows: int  # Number of rows in all files, blank ones included.
    files: tuple[str, ...]  # Paths or addresses, in reading order.
    input_bytes: int
    ignored: tuple[str, ...] = ()  # Stray files beside the data that were left out.
    # Rows that the scan rejected: at least the first, if any; `read` rejects them again.
    rejected_by_scan: tuple[RejectedRow, ...] = ()
    notes: tuple[str, ...] = ()  # Choices that the user should know, one per line.
    snapshot: str | None = None  # Number or id of a table's version, as in the table's log.
    has_sequences: bool = False  # Whether the records are SequenceExamples.

    @property
    def most_parts(self) -> int:
        """Largest number of non-empty parts into which `cut` can divide the rows."""
        return self.rows

    @abstractmethod
    def cut(self, parts: int) -> list[tuple[Piece, ...]]:
        """Divides the rows into `parts` runs of about equal size, in order; some may be empty."""

    def part(self, pieces: tuple[Piece, ...]) -> tuple["Source", tuple[Piece, ...]]:
        return replace(self, files=(), ignored=(), rejected_by_scan=(), notes=()), pieces

    @abstractmethod
    def read(self, pieces: Sequence[Piece]) -> Iterator[Batch]:
        """Yields the rows of the pieces in batches of bounded size.

        Raises DataError, with the place, for data that cannot be read or has changed since opening.
        """
