"""Options that several kinds of source share; each value travels in a node's properties."""

from dataclasses import dataclass

from penstock.components.errors import UsageError
from penstock.components.sources.option_checks import check_fields, check_one_of, check_strings
from penstock.components.tfrecord.sharding import MIB

TABLE_KINDS = ("csv", "parquet")
_TAB = {"tab": "\t", "\\t": "\t"}  # a shell passes neither


@dataclass(frozen=True)
class KindOptions:
    """The options of one kind of source.

    Attributes:
        kind: A key of `KINDS`; None where the files tell.

    Raises:
        UsageError: A value is not one of the choices, or two do not go together.
    """

    kind: str | None = None

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True)
class ColumnOptions(KindOptions):
    """What kinds share whose rows have columns of any name and type.

    Attributes:
        schema_file: Path of a TFMD `schema.pbtxt` that decides names and types of the columns;
            without one the types that the data state do, or a sample where they state none.
        extra_columns: What becomes of a column that the schema, or without one the sample, does
            not have, or in Parquet without a schema that no feature can hold: `reject` stops and
            names it, `drop` leaves it out.
        non_finite: NaN and infinity in columns of floats: `reject` the row, read as `null`, or
            `keep`. A finite number beyond float32 is always rejected.
        allow_empty: Whether no rows, as of an empty file, are fine instead of an error.
    """

    schema_file: str | None = None
    extra_columns: str = "reject"
    non_finite: str = "reject"
    allow_empty: bool = False


@dataclass(frozen=True)
class Table(ColumnOptions):
    """How tables in files are understood; the defaults suit a comma-separated file with a header.

    Attributes:
        kind: `csv` or `parquet`; None goes by extension, then by content.
        delimiter: One ASCII character between the fields of a CSV row; `tab` for a tab.
            None takes a comma, or what else stands in a first row without one: `;`, tab or `|`.
        column_names: Names of a CSV's columns where its files have no header; None takes
            the first row as the header.
        null_tokens: Texts that mean "no value" in CSV columns of numbers, compared without
            the spaces around them.
        text_null_tokens: Texts that mean "no value" in CSV columns of text, compared as
            they stand ("NA" is Namibia there).
        sample_rows: CSV rows from the beginnings of the files that types are inferred from.
        max_row_bytes: Longest CSV row. A quote that is not closed within it counts as
            unbalanced; bounds the memory of a row.
    """

    delimiter: str | None = None
    column_names: tuple[str, ...] | None = None
    null_tokens: tuple[str, ...] = ("", "NA", "N/A", "n/a", "NULL", "null", "None", "?")
    text_null_tokens: tuple[str, ...] = ("",)
    sample_rows: int = 10_000
    max_row_bytes: int = 64 * MIB

    def __post_init__(self) -> None:
        super().__post_init__()
        check_strings(self, "column_names")
        for name in ("null_tokens", "text_null_tokens"):
            if getattr(self, name) is None:
                raise UsageError(f"`{name}` must be a list of strings, got None")
        if self.kind is not None:
            check_one_of(self, "kind", TABLE_KINDS)
        delimiter = "," if self.delimiter is None else _TAB.get(self.delimiter, self.delimiter)
        if len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n\0':
            raise UsageError(
                f"delimiter must be one ASCII character other than a quote, a line end or NUL, "
                f"got {delimiter!r}"
            )
        object.__setattr__(self, "delimiter", self.delimiter and delimiter)
        names = self.column_names
        if names is not None and (
            not names or len(set(names)) < len(names) or not all(name.strip() for name in names)
        ):
            raise UsageError(f"`column_names` must be different and not blank, got {names!r}")


@dataclass(frozen=True)
class RowFileOptions(ColumnOptions):
    """What JSON Lines and Avro share.

    Attributes:
        nested: Objects, maps and lists of lists: `reject` stops and names the column, `json` makes
            them JSON text, keys sorted.
    """

    nested: str = "reject"
