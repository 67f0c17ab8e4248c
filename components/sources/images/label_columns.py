"""The roles of a label file's columns, by the names that such files use."""

from collections.abc import Collection
from dataclasses import dataclass

from penstock.components.errors import DataError, UsageError
from penstock.components.sources.images.label_table import LabelTable
from penstock.components.sources.images.options import ImageOptions
from penstock.components.sources.layout import shown
from penstock.components.tfrecord.feature_kind import FeatureKind

# In this order; `fname` and `relative_im_path` are Stanford Cars'.
_FILE = ("fname", "relative_im_path", "file_name", "filename", "file", "image_path", "path",
         "image_file", "image_name", "image", "img", "image_id", "id")  # fmt: skip
_LABEL = ("class", "label", "class_id", "label_id", "category_id", "class_index", "target", "y")
_TEXT = ("class_text", "class_name", "label_text", "label_name", "category", "category_name",
         "text", "name")  # fmt: skip


@dataclass(frozen=True)
class LabelColumns:
    """The columns of a label file by what they mean.

    Attributes:
        file: Names the image.
        label: A number a class; None where only text tells it.
        text: The class in words; None where only a number tells it.
        others: All others.
    """

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


def find_columns(table: LabelTable, options: ImageOptions) -> LabelColumns:
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
