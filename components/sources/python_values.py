"""Rows as Python mappings: infers their columns from a sample and converts them to batches.

A column is converted by one `pa.array` call. If the call fails or returns a type that does not fit
the column, the values are converted one by one. Each value that does not fit then gets its own
reason.
"""

import datetime
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from uuid import UUID

import pyarrow as pa

from penstock.components.errors import DataError
from penstock.components.sources.arrow_values import fits, to_feature
from penstock.components.sources.base import Column
from penstock.components.sources.batches import Faults, RowFault, convert_columns
from penstock.components.sources.options import ColumnOptions, RowFileOptions
from penstock.components.sources.schema import schema_columns
from penstock.components.sources.tokens import FLOAT32_LIMIT, beyond_int64
from penstock.components.tfrecord.feature_kind import FeatureKind

Row = Mapping[str, object]

_SHOWN_CHARACTERS = 80
_WORDS = {bool: "a truth value", int: "a number", float: "a number", str: "text",
          bytes: "text", list: "a list", dict: "an object"}  # fmt: skip
_MISFITS = (pa.ArrowException, OverflowError, UnicodeError, TypeError, ValueError)


def convert_rows(
    rows: Sequence[Row], columns: Sequence[Column], options: ColumnOptions
) -> tuple[pa.RecordBatch, dict[int, RowFault]]:
    """Returns all rows as a batch, with null for values that do not fit, and faults by row."""
    as_json = isinstance(options, RowFileOptions) and options.nested == "json"

    def convert(column: Column) -> tuple[pa.Array, Faults]:
        values = [row.get(column.name) for row in rows]
        if as_json:
            values = [nested_as_json(value) for value in values]
        return to_column(values, column, options.non_finite)

    table, faults = convert_columns(columns, convert)
    names = {column.name for column in columns}
    for at, row in enumerate(rows) if options.extra_columns == "reject" else ():
        if not row.keys() <= names:
            name = next(name for name in row if name not in names)
            faults[at] = (name, "is not a column of the schema or of the sampled rows; name it "
                          "in a schema, or set `extra_columns='drop'`")  # fmt: skip
    return table, faults


def is_nested(value: object) -> bool:
    """Returns whether a value is a dict, or a list that contains lists or dicts.

    No feature can hold such a value.
    """
    if isinstance(value, list):
        return any(isinstance(item, (list, dict)) for item in value)
    return isinstance(value, dict)


def nested_as_json(value: object) -> object:
    if not is_nested(value):
        return value
    return json.dumps(value, ensure_ascii=False, sort_keys=True, default=_json_text)


def row_json(row: Row) -> bytes:
    """Returns a row as JSON; values that JSON has no type for become text."""
    text = json.dumps(row, default=_json_text, ensure_ascii=False)
    return text.encode("utf-8", "backslashreplace")


def _json_text(value: object) -> str:
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)


def to_column(values: Sequence[object], column: Column, non_finite: str) -> tuple[pa.Array, Faults]:
    try:
        if column.kind is FeatureKind.BYTES and not column.is_list:
            return pa.array(values, pa.binary()), {}  # Type inference would take ten times as long.
        array = pa.array(values)
    except _MISFITS:
        return _one_by_one(values, column, non_finite)
    if not fits(column, array.type):
        return _one_by_one(values, column, non_finite)
    return to_feature(array, column, non_finite)


def _one_by_one(
    values: Sequence[object], column: Column, non_finite: str
) -> tuple[pa.Array, Faults]:
    found = [_one(value, column, non_finite) for value in values]
    faults = {at: reason for at, (_, reason) in enumerate(found) if reason}
    return pa.concat_arrays([part for part, _ in found]), faults


def _one(value: object, column: Column, non_finite: str) -> tuple[pa.Array, str | None]:
    missing = pa.nulls(1, column.arrow_type)
    try:
        array = pa.array([str(value) if isinstance(value, UUID) else value])
    except UnicodeError:
        return missing, f"{_shown(value)} is not Unicode text (a lone surrogate)"
    except OverflowError:
        return missing, beyond_int64(_shown(value))
    except (pa.ArrowException, TypeError, ValueError):
        return missing, _misfit(value, column)
    if not fits(column, array.type):
        return missing, _misfit(value, column)
    converted, faults = to_feature(array, column, non_finite)
    return converted, faults.get(0)


def _misfit(value: object, column: Column) -> str:
    expected = {"INT": "a whole number", "FLOAT": "a number", "BYTES": "text"}[column.kind.value]
    if column.is_list:
        expected = f"a list, each value {expected}"
    word, hint = _WORDS.get(type(value), type(value).__name__), ""
    if is_nested(value):
        word, hint = "nested", "; `nested='json'` keeps it as JSON text"
    return f"{_shown(value)} is {word}, expected {expected}{hint}"


def _shown(value: object) -> str:
    if isinstance(value, bytes):  # SQLite's driver fetches text as bytes.
        value = value.decode("utf-8", "backslashreplace")
    try:
        text = repr(value)
    except ValueError:  # An integer of thousands of digits
        return "a number of thousands of digits"
    return text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "..."


_WHOLE = (int, datetime.date, datetime.time, datetime.timedelta)


def _class(value: object) -> str:
    if isinstance(value, (str, bytes, bytearray, memoryview, UUID)):
        return "texts"
    if isinstance(value, (float, Decimal)):
        # A value beyond float32 fits no FLOAT column, so it does not count as FLOAT.
        return "floats" if -FLOAT32_LIMIT < value < FLOAT32_LIMIT else "rejected"
    return "integers" if isinstance(value, _WHOLE) else "others"


def row_columns(rows: Iterable[tuple[Row, str]], options: RowFileOptions) -> tuple[Column, ...]:
    """Returns the schema's columns or, without a schema, those of sampled `rows` (row, file)."""
    if options.schema_file:
        return schema_columns(options.schema_file)
    sample = ValueSample()
    for row, path in rows:
        sample.add(row, path)
    return sample.columns(options.nested)


class ValueSample:
    """Counts the shapes and types of the values in each column, to infer the column's type."""

    def __init__(self) -> None:
        self._shapes = defaultdict[str, Counter[str]](Counter)
        self._values = defaultdict[str, Counter[str]](Counter)
        self._nested_in: dict[str, str] = {}

    def add(self, row: Mapping[str, object], path: str) -> None:
        for name, value in row.items():
            shapes, values = self._shapes[name], self._values[name]
            if value is None:
                continue
            shape = "nested" if is_nested(value) else "list" if isinstance(value, list) else "one"
            shapes[shape] += 1
            if shape == "nested":
                self._nested_in.setdefault(name, path)
            else:
                items = value if isinstance(value, list) else [value]
                values.update(_class(item) for item in items if item is not None)

    def columns(self, nested: str) -> tuple[Column, ...]:
        """Returns the columns in order of appearance; raises DataError for forbidden nesting."""
        return tuple(self._column(name, nested) for name in self._shapes)

    def _column(self, name: str, nested: str) -> Column:
        kind, is_list = self.feature(name)
        if self._shape(name) == "nested" and nested != "json":
            raise DataError(
                f"{self._nested_in[name]}: column {name!r} holds objects or lists of lists, which "
                "no feature can hold; set `nested='json'` to keep them as JSON text, or leave the "
                "column out of a schema and set `extra_columns='drop'`"
            )
        return Column(name, kind or FeatureKind.BYTES, is_list)

    def feature(self, name: str) -> tuple[FeatureKind | None, bool]:
        """Returns (kind, is_list).

        `kind` is None if the sample has no value, and BYTES if most values are nested.
        """
        shape, values = self._shape(name), self._values[name]
        if shape == "nested":
            return FeatureKind.BYTES, False
        numbers = values["integers"] + values["floats"] + values["rejected"]
        if not numbers and not values["texts"]:
            return None, shape == "list"
        if values["texts"] >= numbers:
            return FeatureKind.BYTES, shape == "list"
        whole = values["integers"] and not values["floats"]
        return FeatureKind.INT if whole else FeatureKind.FLOAT, shape == "list"

    def _shape(self, name: str) -> str:
        return next((shape for shape, _ in self._shapes[name].most_common(1)), "one")
