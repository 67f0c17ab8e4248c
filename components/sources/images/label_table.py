"""A label file of any kind as typed columns, one of which names the image."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from penstock.components.errors import DataError
from penstock.components.sources.base import Column
from penstock.components.sources.lines.json.options import JsonLinesOptions
from penstock.components.sources.lines.json.types import JsonSample
from penstock.components.sources.python_values import RowConverter


@dataclass(frozen=True)
class LabelTable:
    """The rows of a label file.

    Attributes:
        path: The file.
        origin: What of it was taken, for a report.
        columns: Names and kinds of the columns.
        rows: Their values, in the same order and of their `arrow_type`.
        class_names: Names of all classes that the file has besides its rows; or None.
        first_class: Number of the first of `class_names`: 1 as MATLAB counts, or 0.
    """

    path: str
    origin: str
    columns: tuple[Column, ...]
    rows: pa.RecordBatch
    class_names: tuple[str, ...] | None = None
    first_class: int = 0

    def values(self, name: str) -> list:
        """The values of a column as Python objects."""
        return self.rows.column(self.rows.schema.get_field_index(name)).to_pylist()


def type_rows(
    rows: Sequence[Mapping[str, object]], path: str
) -> tuple[tuple[Column, ...], pa.RecordBatch]:
    """Rows of Python values as typed columns.

    Raises:
        DataError: There are none, or a value does not fit its column; names the row and the column.
    """
    if not rows:
        raise DataError(f"{path}: has no rows")
    sample = JsonSample()
    for row in rows:
        sample.add(row, path)
    columns = sample.columns("reject")
    table, faults = RowConverter(columns, JsonLinesOptions()).convert(rows)
    if faults:
        row_at = min(faults)
        column, reason = faults[row_at]
        raise DataError(f"{path}: row {row_at + 1}, column {column!r}: {reason}")
    return columns, table
