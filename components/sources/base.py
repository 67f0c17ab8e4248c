"""The contract between outside data and ExampleGen: units of work in, Arrow record batches out.

The planning process opens a source, which checks every file, fixes the type of each column and
finds what makes the whole input unreadable. Workers then read pieces of it as record batches.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from penstock.components.tfrecord.feature_kind import FeatureKind
from penstock.components.tfrecord.sharding import MIB

# Approximate limit of a batch; large rows (images) make batches of fewer rows. Bounds memory, and
# Arrow's binary arrays end at 2 GiB.
MAX_BATCH_BYTES = 64 * MIB
# Arrow type of the values of each kind in a batch.
ARROW_TYPES = {
    FeatureKind.INT: pa.int64(),
    FeatureKind.FLOAT: pa.float32(),
    FeatureKind.BYTES: pa.binary(),
}
NUMBERS = (FeatureKind.INT, FeatureKind.FLOAT)


@dataclass(frozen=True)
class Column:
    """One feature of every row.

    Attributes:
        name: Name of the feature.
        kind: Kind of its values; decides their Arrow type.
        is_list: Whether a row holds a list of values (Arrow `list<kind>`) instead of one.
        is_text: Whether bytes are certainly UTF-8 text; ignored when columns are compared.
    """

    name: str
    kind: FeatureKind
    is_list: bool = False
    is_text: bool = field(default=False, compare=False)

    @property
    def arrow_type(self) -> pa.DataType:
        """Arrow type of this column in a `Batch`."""
        value = ARROW_TYPES[self.kind]
        return pa.list_(value) if self.is_list else value

    @property
    def holds(self) -> str:
        """Content of a row's value, for messages: `INT`, `lists of FLOAT`."""
        return f"{'lists of ' if self.is_list else ''}{self.kind.value}"


@dataclass(frozen=True)
class Piece:
    """A contiguous part of one file, the unit that a worker reads.

    Attributes:
        file: Path of the file.
        start: First byte (text) or first row, from 0 (all other kinds).
        end: One past the last byte or row.
        first_row: Number of the first data row within the file, from 1, without the header.
        first_line: Number of the first physical line within the file, from 1; 0 if the file has no
            lines.
    """

    file: str
    start: int
    end: int
    first_row: int
    first_line: int = 0


@dataclass(frozen=True)
class RejectedRow:
    """A row that does not fit its columns.

    Attributes:
        file: Path of the file.
        row: Number of the data row within the file, from 1, without the header.
        line: Number of the physical line within the file, from 1; 0 if the file has no lines.
        column: Name of the column at fault, or None if the whole row is.
        reason: The fault and what was expected.
        raw: The row's bytes in the file; a JSON rendering for binary formats.
    """

    file: str
    row: int
    line: int
    column: str | None
    reason: str
    raw: bytes

    def __str__(self) -> str:
        """Returns `file:row:column: reason`, the message of strict mode."""
        place = f"row {self.row}" if not self.line else f"line {self.line} (row {self.row})"
        column = f", column {self.column!r}" if self.column is not None else ""
        return f"{self.file}: {place}{column}: {self.reason}"


@dataclass(frozen=True)
class Batch:
    """Some rows of one piece, in file order.

    Attributes:
        table: The good rows: one array for each `Column`, in the source's order and of its
            `arrow_type`; null if a row has no value.
        rejected: The rows that do not fit.
        blank: Number of blank lines skipped.
        records: Serialized good rows (binary, one for each row of `table`) if the source has them;
            None if they are encoded from `table`.
        digests: sha256 that decides the split of each row (binary, one for each row of `table`) if
            that is the digest of a file; None if it is the digest of the serialized row.
    """

    table: pa.RecordBatch
    rejected: Sequence[RejectedRow] = field(default_factory=tuple)
    blank: int = 0
    records: pa.BinaryArray | None = None
    digests: pa.BinaryArray | None = None

    @property
    def rows_read(self) -> int:
        """Number of good, rejected and blank rows."""
        return self.table.num_rows + len(self.rejected) + self.blank


@dataclass(frozen=True, eq=False, kw_only=True)
class Source(ABC):
    """Outside data of one kind, opened, checked and typed.

    The protocol between the planning process and the workers:

    1. `cut` returns runs of `Piece`s, which are names and integers.
    2. `part` returns a copy of the source for one run. It is pickled into that run's task, so it
       holds no open file or connection, and its size must not grow with the whole input.
    3. A worker unpickles it and calls `read` with the pieces, again after a retry. The same pieces
       give the same batches each time, or a `DataError` if the data have changed.

    Attributes:
        kind: `csv`, `parquet`, ...
        columns: Name and kind of each feature, fixed before work starts.
        fingerprint: sha256 (hex) over content and names of all files, in order; independent of
            time stamps.
        rows: Exact number of rows in all files, blank ones included.
        files: Paths of the files, in reading order.
        input_bytes: Total size of the files.
        ignored: Stray files beside the data that were left out.
        rejected_by_scan: Bad rows found before work starts, at least the first; `read` returns
            them again.
        notes: Choices that a user should know of, one line each.
        has_sequences: Whether the records are SequenceExamples.
    """

    kind: str
    columns: tuple[Column, ...]
    fingerprint: str
    rows: int
    files: tuple[str, ...]
    input_bytes: int
    ignored: tuple[str, ...] = ()
    rejected_by_scan: tuple[RejectedRow, ...] = ()
    notes: tuple[str, ...] = ()
    has_sequences: bool = False

    @abstractmethod
    def cut(self, parts: int) -> list[tuple[Piece, ...]]:
        """Returns `parts` contiguous runs of pieces of about equal size, in order.

        Runs may be empty if there are fewer rows than parts.
        """

    def part(self, pieces: tuple[Piece, ...]) -> tuple["Source", tuple[Piece, ...]]:
        """Returns the source and the pieces to pickle for the worker of one run."""
        return replace(self, files=(), ignored=(), rejected_by_scan=(), notes=()), pieces

    @abstractmethod
    def read(self, pieces: Sequence[Piece]) -> Iterator[Batch]:
        """Yields the rows of the pieces as batches of bounded size.

        Over all pieces, `Batch.rows_read` adds up to `rows`.

        Raises:
            DataError: The data cannot be read, or have changed since they were opened; names the
                place.
        """
