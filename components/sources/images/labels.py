"""Labels of images: by folder, or by the rows of a label file (CSV, JSON, MATLAB).

A label file names an image by its path below the input, by its file name, or by its file name
without extension. One of these three rules applies to all rows: the one by which the most rows
find an image. docs/images.md describes the forms of label files and the column names that are
recognised.
"""

import json
import os
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.components.errors import DataError, UsageError
from penstock.components.files.content import open_data
from penstock.components.files.find import FoundFile
from penstock.components.files.sniff import kind_by_magic
from penstock.components.image_features import LABEL, TEXT
from penstock.components.sources.base import Column
from penstock.components.sources.batches import batch_of
from penstock.components.sources.images.matlab import MAGIC, label_rows, read_matlab
from penstock.components.sources.images.options import Images
from penstock.components.sources.jsonl import JsonLines, no_duplicates
from penstock.components.sources.open import good_tables, open_source
from penstock.components.sources.options import Csv
from penstock.components.sources.python_values import ValueSample, convert_rows
from penstock.components.sources.schema import shown
from penstock.components.tfrecord.feature_kind import FeatureKind

_FILE = ("fname", "relative_im_path", "file_name", "filename", "file", "path", "image", "id")
_LABEL = ("class", "label", "class_id", "label_id", "target")
_TEXT = ("class_name", "label_name", "text", "name", "category")
_CLASS_NAMES = "class_names"
_HEAD_BYTES = 1024
Names = Sequence[str]


@dataclass(frozen=True)
class Labels:
    # `image/class/label`, `image/class/text` if known, and other columns of the label file
    columns: tuple[Column, ...]
    rows: pa.RecordBatch  # One row per image, null if the image has no label.
    unlabelled: tuple[int, ...]  # Indices of the images without a label.
    # Rows of the label file (from 1) whose image does not exist, with the image's name
    missing: tuple[tuple[int, str], ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class LabelTable:
    path: str
    columns: tuple[Column, ...]
    rows: pa.RecordBatch
    first_class: int = 0  # Lowest class number, unless a row has class 0; 1 for MATLAB

    def place(self, row: int) -> str:
        return f"{self.path}: row {row + 1}"

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


def label_by_folder(images: Sequence[FoundFile], class_names: Names | None) -> Labels:
    folders = [image.folder for image in images]
    texts = [None if folder is None else os.fsencode(folder) for folder in folders]
    unlabelled = tuple(at for at, text in enumerate(texts) if text is None)
    if not class_names and len(unlabelled) == len(images):
        return Labels((), pa.RecordBatch.from_arrays([], []), unlabelled)
    labels = _numbered(texts, class_names, lambda at: images[at].path)
    columns = (Column(LABEL, FeatureKind.INT), Column(TEXT, FeatureKind.BYTES))
    rows = batch_of(columns, [pa.array(labels, pa.int64()), pa.array(texts, pa.binary())])
    return Labels(columns, rows, unlabelled, notes=("classes are folders",))


def label_by_file(
    images: Sequence[FoundFile], table: LabelTable, options: Images, class_names: Names | None
) -> Labels:
    """Labels each image by its row in a label file; raises DataError if rows conflict."""
    taken = find_columns(table, options)
    row_of_image, missing, rule = _match(images, table, taken.file)
    numbers, texts = _classes(table, taken, class_names)
    columns, arrays = [Column(LABEL, FeatureKind.INT)], [pa.array(numbers, pa.int64())]
    if texts is not None:
        columns.append(Column(TEXT, FeatureKind.BYTES))
        arrays.append(pa.array(texts, pa.binary()))
    for name in taken.others:
        if name.startswith("image/"):
            raise DataError(f"{table.path}: column {name!r} has the name of a feature; rename it")
        at = table.rows.schema.get_field_index(name)
        columns.append(table.columns[at])
        arrays.append(table.rows.column(at))
    rows = batch_of(columns, arrays).take(pa.array(row_of_image, pa.int64()))
    unlabelled = np.flatnonzero(rows.column(0).is_null().to_numpy(zero_copy_only=False))
    note = f"labels are rows of {table.path}: {taken}; files are found by {rule}"
    return Labels(tuple(columns), rows, tuple(unlabelled.tolist()), missing, (note,))


def _stem(name: str) -> str:
    return os.path.splitext(os.path.basename(name))[0]


# Rules by which a row names an image: description, function from an image's path to a key, and
# function from the name in a row to a key. The row names the image whose key equals its own.
_RULES: tuple[tuple[str, Callable[[str], str], Callable[[str], str]], ...] = (
    ("their path", str, str),
    ("their name", os.path.basename, os.path.basename),
    ("their name without extension", _stem, os.path.basename),
)


def _match(
    images: Sequence[FoundFile], table: LabelTable, file_column: str
) -> tuple[list[int | None], tuple[tuple[int, str], ...], str]:
    """Returns the row of each image, the rows without an image, and the rule that was used."""
    wanted = [_as_path(value, table, row) for row, value in enumerate(table.values(file_column))]

    def hits(rule: tuple[str, Callable[[str], str], Callable[[str], str]]) -> int:
        have = {rule[1](image.name) for image in images}
        return sum(rule[2](name) in have for name in wanted)

    rule, key_of_image, key_of_row = max(_RULES, key=hits)
    row_by_key: dict[str, int] = {}
    for row, name in enumerate(wanted):
        first = row_by_key.setdefault(key_of_row(name), row)
        if first != row:
            raise DataError(
                f"{table.path}: rows {first + 1} and {row + 1} both name {name!r}; "
                "an image has one row"
            )
    image_by_key: dict[str, FoundFile] = {}
    rows: list[int | None] = []
    for image in images:
        key = key_of_image(image.name)
        found = row_by_key.get(key)
        rows.append(found)
        other = image_by_key.setdefault(key, image)
        if found is not None and other is not image:
            raise DataError(
                f"{table.place(found)}: {wanted[found]!r} may be {other.path} or "
                f"{image.path}; write paths below the input into column {file_column!r}"
            )
    missing = [(row + 1, wanted[row]) for key, row in row_by_key.items() if key not in image_by_key]
    if len(missing) == len(wanted):
        raise DataError(
            f"{table.path}: none of its {len(wanted)} files, the first {wanted[0]!r}, is among "
            f"the {len(images)} images, the first {images[0].name!r}; name the folder that the "
            "paths begin at, or the right column with `file_column`"
        )
    return rows, tuple(missing), rule


def _as_path(value: object, table: LabelTable, row: int) -> str:
    """Returns the image's name in a row, with `/` as separator; a number becomes text."""
    if value is None:
        raise DataError(f"{table.place(row)}: names no file")
    name = os.fsdecode(value) if isinstance(value, bytes) else str(value)
    return name.strip().replace("\\", "/").removeprefix("./")


def _classes(
    table: LabelTable, taken: LabelColumns, class_names: Names | None
) -> tuple[list[int | None], list[bytes | None] | None]:
    """Returns the class numbers of the rows, and their class texts (None if unknown)."""
    texts = [_text(value) for value in table.values(taken.text)] if taken.text else None
    if taken.label is None:
        assert texts is not None, "find_columns requires one of them"
        texts = [text or None for text in texts]
        return _numbered(texts, class_names, table.place), texts
    numbers = table.values(taken.label)
    if texts is not None:
        _check_one_text(numbers, texts, table)
        if class_names:
            _numbered(texts, class_names, table.place)  # Raises if a text is not a class name.
        return numbers, texts
    if class_names is None:
        return numbers, None
    first = 0 if 0 in numbers else table.first_class
    by_number = dict(enumerate(map(os.fsencode, class_names), first))
    for row, number in enumerate(numbers):
        if number is not None and number not in by_number:
            raise DataError(
                f"{table.place(row)}: class {number} is beyond the {len(class_names)} "
                f"names of classes, {first} to {first + len(class_names) - 1}"
            )
    return numbers, [by_number.get(number) for number in numbers]


def _numbered(
    texts: Sequence[bytes | None], class_names: Names | None, place: Callable[[int], str]
) -> list[int | None]:
    """Returns the class number of each text: its index in `class_names` or the sorted texts."""
    given = {os.fsdecode(text) for text in texts if text}
    numbers = {name: number for number, name in enumerate(class_names or sorted(given))}
    names = [text and os.fsdecode(text) for text in texts]
    for at, name in enumerate(names):
        if name and name not in numbers:
            raise DataError(f"{place(at)}: class {name!r} is not one of {shown(numbers)}")
    return [numbers[name] if name else None for name in names]


def _text(value: object) -> bytes | None:
    return value if value is None or isinstance(value, bytes) else str(value).encode()


def _check_one_text(
    numbers: Sequence[int | None], texts: Sequence[bytes | None], table: LabelTable
) -> None:
    of_class: dict[int | None, bytes | None] = {}
    for row, (number, text) in enumerate(zip(numbers, texts, strict=True)):
        if number is not None and of_class.setdefault(number, text) != text:
            raise DataError(
                f"{table.place(row)}: class {number} is {text!r}, above "
                f"{of_class[number]!r}; expected one text per class"
            )


def read_labels(path: str, options: Images) -> LabelTable:
    """Reads a whole label file; a million rows take hundreds of MiB of memory."""
    with open_data(path) as stream:
        head = stream.read(_HEAD_BYTES)
    if not head:
        raise DataError(f"{path}: is empty (0 bytes), expected labels")
    if head.startswith(MAGIC):
        return _typed(label_rows(path, options.labels_variable), path, first_class=1)
    if kind_by_magic(head) is not None:
        raise DataError(f"{path}: is no label file; expected CSV, JSON or MATLAB")
    if head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"["):
        return _typed(_read_json(path, options.labels_variable), path)
    source = open_source(path, Csv())
    [rows] = pa.concat_tables(good_tables(source)).combine_chunks().to_batches()
    return LabelTable(path, source.columns, rows)


def read_class_names(path: str) -> tuple[str, ...]:
    """Returns the names of all classes, from lines of text, a JSON list or a MATLAB file."""
    with open_data(path) as stream:
        data = stream.read()
    head = data[:_HEAD_BYTES]
    names: object
    if head.startswith(MAGIC):
        names = read_matlab(path).get(_CLASS_NAMES)
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
    """Makes a table from rows of Python values.

    Raises DataError with the row and column of the first value that does not fit.
    """
    sample = ValueSample()
    for row in rows:
        sample.add(row, path)
    columns = sample.columns("reject")
    table, faults = convert_rows(rows, columns, JsonLines())
    if faults:
        row_at = min(faults)
        column, reason = faults[row_at]
        raise DataError(f"{path}: row {row_at + 1}, column {column!r}: {reason}")
    return LabelTable(path, columns, table, first_class)


def find_columns(table: LabelTable, options: Images) -> LabelColumns:
    """Returns the role of each column.

    If the class column holds texts, it becomes the text column, unless `text_column` names another.
    """
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
