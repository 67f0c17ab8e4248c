"""A label file of any kind as typed columns, and what these mean by the names that are usual."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from penstock.components.errors import DataError, UsageError
from penstock.components.sources.base import Column
from penstock.components.sources.images.options import Images
from penstock.components.sources.layout import shown
from penstock.components.sources.lines.json.options import JsonLines
from penstock.components.sources.python_values import RowConverter
from penstock.components.sources.value_sample import ValueSample
from penstock.components.tfrecord.feature_kind import FeatureKind

# In this order; `fname` and `relative_im_path` are Stanford Cars'.
_FILE = ("fname", "relative_im_path", "file_name", "filename", "file", "image_path", "path",
         "image_file", "image_name", "image", "img", "image_id", "id")  # fmt: skip
_LABEL = ("class", "label", "class_id", "label_id", "category_id", "class_index", "target", "y")
_TEXT = ("class_text", "class_name", "label_text", "label_name", "category", "category_name",
         "text", "name")  # fmt: skip


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
    sample = ValueSample()
    for row in rows:
        sample.add(row, path)
    columns = sample.columns("reject")
    table, faults = RowConverter(columns, JsonLines()).convert(rows)
    if faults:
        row_at = min(faults)
        column, reason = faults[row_at]
        raise DataError(f"{path}: row {row_at + 1}, column {column!r}: {reason}")
    return columns, table


@dataclass(frozen=True)
class LabelColumns:
    """Names of a label file's columns: image, class as number, class in words, and all others."""

    file: str
    label: str | None
    text: str | None
    others: tuple[str, ...]

    def __str__(self) -> str:
        parts = [f"file from {self.file!r}"]
        parts += [f"class from {self.label!r}"] if self.label else []
        parts += [f"text from {self.text!r}"] if self.text else []
        parts += [f"besides {shown(self.others)}"] if self.others else []
        return ", ".join(parts)


def find_file_column(names: Collection[str], wanted: str | None) -> str | None:
    """The column that names the image, or None."""
    if wanted is not None:
        return wanted if wanted in names else None
    return _first_of(_FILE, names)


def find_columns(table: LabelTable, options: Images) -> LabelColumns:
    """Which column is which; a class that is text is the text.

    Raises:
        DataError: No column names images, or none holds classes.
        UsageError: A column that was asked for is not there.
    """
    kinds = {column.name: column.kind for column in table.columns if not column.is_list}
    for option in ("file_column", "label_column", "text_column"):
        wanted = getattr(options, option)
        if wanted is not None and wanted not in kinds:
            raise UsageError(f"{option} {wanted!r}: {table.path} has {shown(list(kinds))}")
    file = find_file_column(kinds, options.file_column)
    if file is None:
        raise DataError(
            f"{table.path}: no column names the images; it has {shown(list(kinds))}; "
            "say which does with `file_column`"
        )
    rest = [name for name in kinds if name != file]
    label = options.label_column or _first_of(_LABEL, rest)
    text = options.text_column or _first_of(_TEXT, [name for name in rest if name != label])
    if label is not None and kinds[label] is FeatureKind.BYTES:
        label, text = None, text if options.text_column else label
    if text is not None and kinds[text] is not FeatureKind.BYTES and not options.text_column:
        text = None
    if label is None and text is None:
        raise DataError(
            f"{table.path}: no column of classes; it has {shown(list(kinds))}; "
            "say which it is with `label_column` or `text_column`"
        )
    if label is not None and kinds[label] is not FeatureKind.INT:
        raise DataError(f"{table.path}: column {label!r} has classes that are no whole numbers")
    taken = {file, label, text}
    others = tuple(column.name for column in table.columns if column.name not in taken)
    return LabelColumns(file, label, text, others)


def _first_of(usual: Collection[str], names: Collection[str]) -> str | None:
    by_lower = {name.lower().strip(): name for name in reversed(list(names))}
    return next((by_lower[one] for one in usual if one in by_lower), None)
