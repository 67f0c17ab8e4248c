"""Samples rows from all parts of a table, and computes properties of its columns."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.components.errors import DataError
from penstock.components.sources.base import Column, RejectedRow, Source
from penstock.components.sources.options import Table
from penstock.components.tfrecord.feature_kind import FeatureKind

# Maximum number of rows in the sample, and number of places in the data from which they are taken.
MAX_ROWS = 100_000
_PLACES = 20
# Number of values of a text column that are tested for dates, and share of them that must be dates.
_DATE_VALUES = 1000
_MIN_DATE_SHARE = 0.95
_CLOCK = r"(?:[T ]+\d{1,2}:\d{2}.*)?"
_YEAR_FIRST = re.compile(rf"^\s*\d{{4}}[-/.](\d{{1,2}})[-/.](\d{{1,2}}){_CLOCK}\s*$")
_YEAR_LAST = re.compile(rf"^\s*(\d{{1,2}})[-/.](\d{{1,2}})[-/.]\d{{4}}{_CLOCK}\s*$")
# Matches the reason why a row was rejected; the group is a cell without digits in a column of
# numbers.
_NO_NUMBER = re.compile(r"^'([^\d']{1,20})' is not an? (?:integer|number)")
_BOOLEAN_PAIRS = ({"true", "false"}, {"yes", "no"}, {"t", "f"}, {"y", "n"}, {"on", "off"})


@dataclass(frozen=True)
class ColumnLook:
    """Properties of a column in the sample."""

    name: str
    kind: FeatureKind
    is_list: bool
    rows: int
    nulls: int = 0
    # Values, with bytes as texts, and their frequencies, the most frequent first
    counts: tuple[tuple[str | int | float, int], ...] = ()
    # One of `DATE_FORMATS` in `blocks/preprocessing.py`; None if the column has no dates
    date_format: str | None = None

    @property
    def present(self) -> int:
        return self.rows - self.nulls

    @property
    def distinct(self) -> int:
        return len(self.counts)

    @property
    def texts(self) -> list[str]:
        """Distinct values as texts, the most frequent first."""
        return [str(value) for value, _ in self.counts]

    @property
    def class_names(self) -> list[str]:
        """Values as texts, with whole numbers written without a fraction."""
        return [str(int(float(text))) for text in self.texts] if self.is_whole else self.texts

    @property
    def is_text(self) -> bool:
        return self.kind is FeatureKind.BYTES

    @property
    def is_boolean(self) -> bool:
        values = {text.strip().lower() for text in self.texts}
        if self.is_text:
            return values in _BOOLEAN_PAIRS
        return self.kind is FeatureKind.INT and values == {"0", "1"}

    @property
    def is_whole(self) -> bool:
        return not self.is_text and all(float(value).is_integer() for value, _ in self.counts)


def look_at_columns(source: Source, table: pa.Table) -> list[ColumnLook]:
    dates = _parquet_dates(source)
    return [_look(column, table[column.name], dates.get(column.name)) for column in source.columns]


def _look(column: Column, values: pa.ChunkedArray, date_format: str | None) -> ColumnLook:
    name, kind, rows = column.name, column.kind, len(values)
    if column.is_list:
        return ColumnLook(name, kind, True, rows)
    found = pc.value_counts(values.drop_null())
    known = found.field("values").to_pylist()
    if kind is FeatureKind.BYTES:
        known = [value.decode(errors="replace") for value in known]
    counts = zip(known, found.field("counts").to_pylist(), strict=True)
    ordered = tuple(sorted(counts, key=lambda one: (-one[1], str(one[0]))))
    if kind is FeatureKind.BYTES:
        date_format = _date_format([value for value, _ in ordered[:_DATE_VALUES]])
    return ColumnLook(name, kind, False, rows, values.null_count, ordered, date_format)


def sample_rows(source: Source, null_tokens: Sequence[str]) -> pa.Table:
    """Reads up to `MAX_ROWS` rows from all parts of the data.

    Raises:
        DataError: A row is rejected; if texts in a column of numbers may mean missing values, the
            message proposes `null_tokens` for them.
    """
    tables: list[pa.RecordBatch] = []
    rejected: list[RejectedRow] = []
    for pieces in source.cut(_PLACES):
        rows = 0
        for batch in source.read(pieces):
            rejected += batch.rejected
            tables.append(batch.table.slice(0, MAX_ROWS // _PLACES - rows))
            rows += batch.table.num_rows
            if rows >= MAX_ROWS // _PLACES:
                break
    if rejected:
        found = (_NO_NUMBER.search(row.reason) for row in rejected)
        tokens = sorted({match[1] for match in found if match})
        remedy = f"; {null_tokens_remedy(tokens, null_tokens)}" if tokens else ""
        raise DataError(f"{rejected[0]}; a run would stop here, too{remedy}")
    table = pa.Table.from_batches(
        tables, pa.schema([(column.name, column.arrow_type) for column in source.columns])
    )
    if not table.num_rows:
        first = next(iter(source.rejected_by_scan), None)
        raise DataError(f"{source.files[0]}: no row can be read{f'; {first}' if first else ''}")
    return table


def null_tokens_remedy(
    tokens: Sequence[str], null_tokens: Sequence[str] = Table.null_tokens
) -> str:
    """Returns advice on the option that reads texts in a column of numbers as missing values."""
    every = json.dumps([*null_tokens, *tokens], ensure_ascii=False)
    those = " or ".join(map(repr, tokens))
    return f"if {those} means that there is no value: --source 'null_tokens={every}'"


def _parquet_dates(source: Source) -> dict[str, str]:
    if source.kind != "parquet":
        return {}
    formats = {}
    for field in pq.read_schema(source.files[0]):
        if pa.types.is_date(field.type):
            formats[field.name] = "days"
        elif pa.types.is_timestamp(field.type):
            formats[field.name] = "microseconds"
    return formats


def _date_format(texts: Sequence[str]) -> str | None:
    if not texts:
        return None
    if _share(_YEAR_FIRST, texts) >= _MIN_DATE_SHARE:
        return "ymd"
    if _share(_YEAR_LAST, texts) < _MIN_DATE_SHARE:
        return None
    first = [int(match[1]) for match in map(_YEAR_LAST.match, texts) if match]
    # A date such as 13.02. proves that the day comes first; this is also the default if no day is
    # above 12.
    second = [int(match[2]) for match in map(_YEAR_LAST.match, texts) if match]
    return "mdy" if max(second) > 12 and max(first) <= 12 else "dmy"


def _share(pattern: re.Pattern[str], texts: Sequence[str]) -> float:
    return sum(bool(pattern.match(text)) for text in texts) / len(texts)
