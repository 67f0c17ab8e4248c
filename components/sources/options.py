"""Options that several kinds of source share, and their checks.

An options class is a frozen dataclass with a field `kind`. All other fields are strings, numbers,
booleans or tuples of strings, so that they can be stored as JSON and set by flags of the command
`penstock ingest`.
"""

import math
from collections.abc import Collection
from dataclasses import dataclass, fields
from typing import Any

from penstock.components.errors import UsageError
from penstock.components.limits import check_choices, check_numbers
from penstock.components.tfrecord.sharding import MIB

TABLE_KINDS = ("csv", "parquet", "arrow", "orc", "jsonl", "avro")
NON_FINITE = ("reject", "null", "keep")
# Allowed values of text options that several kinds have.
_CHOICES = {
    "extra_columns": ("reject", "drop"),
    "nested": ("reject", "json"),
    "non_finite": NON_FINITE,
}
# Upper limits of numeric options. A row must fit into a block of text, where Arrow's offsets are
# int32.
_MOST = {"max_row_bytes": 2**30}
_TAB = {"tab": "\t", "\\t": "\t"}  # A tab is hard to type in a shell.


@dataclass(frozen=True)
class KindOptions:
    """Options of one kind of source.

    Attributes:
        kind: A key of `KINDS`; None to recognise it from the files.

    Raises:
        UsageError: A value is not one of the choices, or two values do not go together.
    """

    kind: str | None = None

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True)
class ColumnOptions(KindOptions):
    """Options of kinds whose columns may have any names and types.

    Attributes:
        schema_file: Path of a TFMD `schema.pbtxt` that determines names and types of the columns.
            Without a schema, the data's own types are used; if the data has no types, they are
            inferred from a sample.
        extra_columns: Treatment of columns that are not in the schema. Without a schema, it applies
            to columns that are not in the sample or whose type no feature can hold. `reject` stops
            and names such a column (in JSON Lines and Avro, it rejects the row); `drop` leaves
            these columns out.
        non_finite: NaN and infinity in columns of floats: `reject` the row, read as `null`, or
            `keep`. A finite number beyond float32 is always rejected.
        allow_empty: Whether a file without rows is accepted.
    """

    schema_file: str | None = None
    extra_columns: str = "reject"
    non_finite: str = "reject"
    allow_empty: bool = False


@dataclass(frozen=True)
class Parquet(ColumnOptions):
    """Parquet files."""

    kind: str | None = "parquet"


@dataclass(frozen=True)
class Csv(ColumnOptions):
    """Delimited text; the defaults suit a comma-separated file with a header.

    Attributes:
        delimiter: One ASCII character between the fields of a CSV row; `tab` means a tab. None
            chooses the one of comma, `;`, tab and `|` that divides the first rows into equal
            numbers of fields.
        column_names: Names of a CSV's columns if its files have no header; None takes the first
            row as the header.
        comment: Lines above the header that begin with this text, such as `#`, are skipped.
        null_tokens: Texts that mean "no value" in CSV columns of numbers, compared without the
            spaces around them.
        text_null_tokens: Texts that mean "no value" in CSV columns of text, compared exactly ("NA"
            is not one by default, because it may mean Namibia).
        sample_rows: Number of CSV rows at the start of the files from which types are inferred.
        max_row_bytes: Maximum length of a CSV row, which bounds the memory of a row. A quote that
            is not closed within this length counts as unbalanced.
    """

    kind: str | None = "csv"
    delimiter: str | None = None
    column_names: tuple[str, ...] | None = None
    comment: str | None = None
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
        delimiter = "," if self.delimiter is None else _TAB.get(self.delimiter, self.delimiter)
        if len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n\0':
            raise UsageError(
                f"`delimiter` must be one ASCII character other than a quote, a line end or NUL, "
                f"got {delimiter!r}"
            )
        object.__setattr__(self, "delimiter", self.delimiter and delimiter)
        names = self.column_names
        if names is not None and (
            not names or len(set(names)) < len(names) or not all(name.strip() for name in names)
        ):
            raise UsageError(f"`column_names` must be different and not blank, got {names!r}")


@dataclass(frozen=True)
class Table(Csv):
    """Files whose kind is recognised by name or content; the default options.

    If the kind is not CSV, only the options that this kind has are used.

    Attributes:
        kind: A kind of table files, such as `csv`; None to recognise it.
        nested: Objects, maps and lists of lists in JSON Lines and Avro: `reject` stops and names
            the column, `json` makes them JSON text with sorted keys.
    """

    kind: str | None = None
    nested: str = "reject"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.kind is not None:
            check_choices(self, kind=TABLE_KINDS)


@dataclass(frozen=True)
class RowFileOptions(ColumnOptions):
    """Options shared by JSON Lines, Avro and logs of served models.

    Attributes:
        nested: Objects, maps and lists of lists: `reject` stops and names the column, `json` makes
            them JSON text with sorted keys.
    """

    nested: str = "reject"


def check_fields(options: Any, **choices: Collection[str]) -> None:
    """Raises UsageError if a field's type differs from that of its default (int, bool, strings).

    A number may be 0 only if its default is 0. `kind` must equal its default, unless that is None.
    Text fields with `choices` must have one of these; other texts and fields whose default is None
    are not checked.
    """
    known: dict[str, Collection[str]] = {**_CHOICES, **choices}
    for field in fields(options):
        name, default = field.name, field.default
        if name == "kind" and default is not None:
            known[name] = (str(default),)
        if name in known:
            check_choices(options, **{name: known[name]})
        elif isinstance(default, bool):
            if not isinstance(value := getattr(options, name), bool):
                raise UsageError(f"`{name}` must be true or false, got {value!r}")
        elif isinstance(default, int):
            check_numbers(options, **{name: (min(default, 1), _MOST.get(name, math.inf))})
        elif isinstance(default, tuple):
            check_strings(options, name)


def check_strings(options: Any, name: str) -> None:
    """Converts a field's list of strings, as read from JSON, to a tuple; keeps None."""
    value = getattr(options, name)
    if value is None:
        return
    if isinstance(value, str) or not all(isinstance(item, str) for item in value):
        raise UsageError(f"`{name}` must be a list of strings, got {value!r}")
    object.__setattr__(options, name, tuple(value))
