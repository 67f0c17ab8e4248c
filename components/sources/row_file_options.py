"""Options of JSON Lines and Avro files."""

from dataclasses import dataclass

from penstock.components.sources.option_checks import check_flag, check_one_of, check_whole
from penstock.components.sources.options import EXTRA_COLUMNS, MAX_ROW_BYTES, NON_FINITE
from penstock.components.tfrecord.sharding import MIB

NESTED = ("reject", "json")


@dataclass(frozen=True)
class RowFileOptions:
    """What JSON Lines and Avro share.

    Attributes:
        schema_file: Path of a TFMD `schema.pbtxt` that decides names and types of the columns;
            without one the rows do (JSON Lines: a sample; Avro: the files' own schema).
        extra_columns: What becomes of a column that the schema, or without one the sample, does
            not have: `reject` stops and names it, `drop` leaves it out.
        nested: Objects, maps and lists of lists: `reject` stops and names the column, `json` makes
            them JSON text, keys sorted.
        non_finite: NaN and infinity: `reject` the row, read as `null`, or `keep`.
        allow_empty: Whether a file without rows is passed over instead of being an error.

    Raises:
        UsageError: A value is not one of the choices.
    """

    schema_file: str | None = None
    extra_columns: str = "reject"
    nested: str = "reject"
    non_finite: str = "reject"
    allow_empty: bool = False

    def __post_init__(self) -> None:
        check_one_of(self, "extra_columns", EXTRA_COLUMNS)
        check_one_of(self, "nested", NESTED)
        check_one_of(self, "non_finite", NON_FINITE)
        check_flag(self, "allow_empty")


@dataclass(frozen=True)
class JsonLinesOptions(RowFileOptions):
    """One JSON object a line.

    Attributes:
        kind: `jsonl`.
        sample_rows: Rows from the beginnings of the files that columns are inferred from.
        max_row_bytes: Longest line; bounds the memory that a row takes.
    """

    kind: str = "jsonl"
    sample_rows: int = 10_000
    max_row_bytes: int = 64 * MIB

    def __post_init__(self) -> None:
        super().__post_init__()
        check_one_of(self, "kind", ("jsonl",))
        check_whole(self, "sample_rows")
        check_whole(self, "max_row_bytes", most=MAX_ROW_BYTES)


@dataclass(frozen=True)
class AvroOptions(RowFileOptions):
    """Avro object container files.

    Attributes:
        kind: `avro`.
    """

    kind: str = "avro"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_one_of(self, "kind", ("avro",))
