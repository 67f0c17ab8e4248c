"""Reads a label file (CSV, JSON, MATLAB) as a table of rows, and finds the role of each column.

docs/images.md has the forms and the column names that are recognised.
"""

import json
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import pyarrow as pa

from penstock.components.errors import DataError, UsageError
from penstock.components.files.content import open_data
from penstock.components.files.sniff import kind_by_magic
from penstock.components.sources.base import Column
from penstock.components.sources.images.matlab import is_matlab, label_rows, read_matlab
from penstock.components.sources.images.options import Images
from penstock.components.sources.jsonl import JsonLines, no_duplicates
from penstock.components.sources.open import good_tables, open_source
from penstock.components.sources.options import Csv
from penstock.components.sources.python_values import RowConverter, ValueSample
from penstock.components.sources.schema import shown
from penstock.components.tfrecord.feature_kind import FeatureKind

_FILE = ("fname", "relative_im_path", "file_name", "filename", "file", "path", "image", "id")
_LABEL = ("class", "label", "class_id", "label_id", "target")
_TEXT = ("class_name", "label_name", "text", "name", "category")
_CLASS_NAMES = "class_names"
_HEAD_BYTES = 1024


@dataclass(frozen=True)
class LabelTable:
    path: str
    columns: tuple[Column, ...]
    rows: pa.RecordBatch
    first_class: int = 0  # Number of the first class: 1 in MATLAB files, else 0.

    def values(self, name: str) -> list:
        return self.rows.column(self.rows.schema.get_field_index(name)).to_pylist()


@dataclass(frozen=True)
class LabelColumns:
    """Names of a label file's columns: image, class as number, class as text, and all others."""

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


def read_labels(path: str, options: Images) -> LabelTable:
    """Reads a whole label file; a million images take some hundred MiB of memory."""
    with open_data(path) as stream:
        head = stream.read(_HEAD_BYTES)
    if not head:
        raise DataError(f"{path}: is empty (0 bytes), expected labels")
    if is_matlab(head):
        return _typed(label_rows(path, head, options.labels_variable), path, first_class=1)
    if kind_by_magic(head) is not None:
        raise DataError(f"{path}: is no label file; expected CSV, JSON or MATLAB")
    if head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"["):
        return _typed(_read_json(path, options.labels_variable), path)
    return _read_csv(path)


def read_class_names(path: str) -> tuple[str, ...]:
    """Returns the names of all classes, from lines of text, a JSON list or a MATLAB file."""
    with open_data(path) as stream:
        data = stream.read()
    head = data[:_HEAD_BYTES]
    names: object
    if is_matlab(head):
        names = read_matlab(path, head).get(_CLASS_NAMES)
    elif head.lstrip()[:1] in (b"{", b"["):
        names = _parse_json(path)
    else:
        lines = data.decode("utf-8-sig", "surrogateescape").splitlines()
        names = [line.strip() for line in lines if line.strip()]
    if not isinstance(names, list) or not names or not all(isinstance(n, str) for n in names):
        raise DataError(
            f"{path}: no names of classes; expected one name per line, a JSON list, or a MATLAB "
            f"file with the variable {_CLASS_NAMES!r}"
        )
    if twice := [name for name, times in Counter(names).items() if times > 1]:
        raise DataError(f"{path}: names class {twice[0]!r} twice")
    return tuple(names)


def _read_csv(path: str) -> LabelTable:
    source = open_source(path, Csv())
    [rows] = pa.concat_tables(good_tables(source)).combine_chunks().to_batches()
    return LabelTable(path, source.columns, rows)


def _read_json(path: str, variable: str | None) -> list[Mapping[str, object]]:
    tree = _parse_json(path)
    rows = tree.get(variable) if variable and isinstance(tree, Mapping) else tree
    if isinstance(rows, list) and rows and all(isinstance(row, Mapping) for row in rows):
        return rows
    keys = f"an object with {shown(tree)}" if isinstance(tree, Mapping) else "other values"
    raise DataError(
        f"{path}: expected a list of objects, one for each image, but it has {keys}; write "
        '[{"file": ..., "class": ...}, ...], or name the key of such a list with `labels_variable`'
    )


def _parse_json(path: str) -> object:
    with open_data(path) as stream:
        try:
            return json.loads(stream.read(), object_pairs_hook=no_duplicates)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{path}: not JSON ({error})") from error


def _typed(rows: list[Mapping[str, object]], path: str, first_class: int = 0) -> LabelTable:
    """Makes a table of rows of Python values; DataError names a misfit's row and column."""
    sample = ValueSample()
    for row in rows:
        sample.add(row, path)
    columns = sample.columns("reject")
    table, faults = RowConverter(columns, JsonLines()).convert(rows)
    if faults:
        row_at = min(faults)
        column, reason = faults[row_at]
        raise DataError(f"{path}: row {row_at + 1}, column {column!r}: {reason}")
    return LabelTable(path, columns, table, first_class)


def find_columns(table: LabelTable, options: Images) -> LabelColumns:
    """Returns the role of each column; a class column of text is taken as the class's text."""
    kinds = {column.name: column.kind for column in table.columns if not column.is_list}
    for option in ("file_column", "label_column", "text_column"):
        wanted = getattr(options, option)
        if wanted is not None and wanted not in kinds:
            raise UsageError(f"`{option}` {wanted!r}: {table.path} has {shown(list(kinds))}")
    file = options.file_column or _first_of(_FILE, kinds)
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
