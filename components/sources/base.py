"""The contract between outside data and the ExampleGen: units of work in, record batches out.

A `Source` is made once, in the process that plans: making it looks at every file, fixes
the type of each column and finds what would make the whole input unreadable. What `part` gives
is then pickled to Beam workers, which call `read` with pieces that `cut` gave.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from penstock.components.tfrecord.feature_kind import FeatureKind
from penstock.components.tfrecord.sharding import MIB

# About as many bytes are in a batch at most, fewer rows where these are large (images): bounds
# memory, and Arrow's binary arrays end at 2 GiB.
MAX_BATCH_BYTES = 64 * MIB
# The Arrow type that batches carry for each kind.
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
        name: The feature's name.
        kind: Its kind; decides the Arrow type of its values.
        is_list: Whether a row holds a list of values (Arrow `list<kind>`) instead of one.
        is_text: Whether bytes are surely UTF-8 text; of no account when columns are compared.
    """

    name: str
    kind: FeatureKind
    is_list: bool = False
    is_text: bool = field(default=False, compare=False)

    @property
    def arrow_type(self) -> pa.DataType:
        """The type of this column in a `Batch`."""
        value = ARROW_TYPES[self.kind]
        return pa.list_(value) if self.is_list else value

    @property
    def holds(self) -> str:
        """What a row holds, for messages."""
        return f"{'lists of ' if self.is_list else ''}{self.kind.value}"


@dataclass(frozen=True)
class Piece:
    """A contiguous part of one file, the unit that a worker reads.

    Attributes:
        file: The file's path.
        start: First byte (delimited text) or first row (Parquet) of the part.
        end: One past its last byte or row.
        first_row: Number of its first data row within the file, counted from 1, header
            not counted; for messages.
        first_line: Number of its first physical line within the file, counted from 1;
            0 where a file has no lines.
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
        file: The file's path.
        row: Its data row number within the file, counted from 1, header not counted.
        line: Its physical line within the file, counted from 1; 0 where there are none.
        column: Name of the column at fault, or None where the row as a whole is.
        reason: What is wrong and what was expected.
        raw: The row's bytes as they stand in the file (Parquet: a JSON rendering).
    """

    file: str
    row: int
    line: int
    column: str | None
    reason: str
    raw: bytes

    def __str__(self) -> str:
        """`file:row:column: reason`, the form that strict mode stops with."""
        place = f"row {self.row}" if not self.line else f"line {self.line} (row {self.row})"
        column = f", column {self.column!r}" if self.column is not None else ""
        return f"{self.file}: {place}{column}: {self.reason}"


@dataclass(frozen=True)
class Batch:
    """Some rows of one piece, in file order.

    Attributes:
        table: The good rows; one column a `Column`, in the source's order and of its
            `arrow_type`; null where a row has no value.
        rejected: The rows that did not fit.
        blank: Number of blank lines that were passed over.
        records: The good rows as they are to be written (binary, one a row of `table`), where
            the source has them; None where they are encoded from `table`.
        digests: The sha256 that decides of each row's split (binary, one a row of `table`), where
            that is of a file's content; None where it is the serialized row's.
    """

    table: pa.RecordBatch
    rejected: Sequence[RejectedRow] = field(default_factory=tuple)
    blank: int = 0
    records: pa.BinaryArray | None = None
    digests: pa.BinaryArray | None = None

    @property
    def rows_read(self) -> int:
        """All rows that this batch accounts for: good, rejected and blank."""
        return self.table.num_rows + len(self.rejected) + self.blank


@dataclass(frozen=True, eq=False, kw_only=True)
class Source(ABC):
    """Outside data of one kind, opened, checked and typed.

    Attributes:
        kind: `csv`, `parquet`, ...
        columns: Name and kind of each feature, fixed before work starts.
        fingerprint: sha256 (hex) over the content of all files, in order, and their names. Equal
            content gives an equal fingerprint, whatever the time stamps.
        rows: Rows in all files, blank ones included; exact.
        files: The files' paths, in the order in which they are read.
        input_bytes: Their sizes, added up.
        ignored: Stray files beside the data, left out.
        rejected_by_scan: Bad rows found before work starts, the first at least; `read` gives them
            too.
        notes: What a person should know of what was taken as what.
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
        """The whole input as `parts` contiguous runs of pieces of about equal size, in order.

        Runs may be empty where there are fewer rows than parts.
        """

    def part(self, pieces: tuple[Piece, ...]) -> tuple["Source", tuple[Piece, ...]]:
        """What a worker reads some pieces of `cut` with, and the pieces as it knows them."""
        return replace(self, files=(), ignored=(), rejected_by_scan=(), notes=()), pieces

    @abstractmethod
    def read(self, pieces: Sequence[Piece]) -> Iterator[Batch]:
        """The rows of the pieces as batches of bounded size, memory bounded with them.

        The rows of all batches of all pieces that `cut` gives add up to `rows`.

        Raises:
            DataError: The data cannot be read, or have changed since they were opened; says where.
        """
