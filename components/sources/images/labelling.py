"""Labels of images: by folder, or by the rows of a label file.

A label file names an image by its path below the input, by its file name, or by its file name
without extension. All rows follow the one rule that finds most images.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.components.errors import DataError
from penstock.components.files.find import FoundFile
from penstock.components.image_features import LABEL, TEXT
from penstock.components.sources.base import Column
from penstock.components.sources.batches import batch_of, take_rows
from penstock.components.sources.images.labels import LabelColumns, LabelTable, find_columns
from penstock.components.sources.images.options import Images
from penstock.components.sources.schema import shown
from penstock.components.tfrecord.feature_kind import FeatureKind

Names = Sequence[str]


@dataclass(frozen=True)
class Labels:
    columns: tuple[Column, ...]  # `image/class/label`, `image/class/text` if known, and others.
    rows: pa.RecordBatch  # Null if an image has no label.
    unlabelled: tuple[int, ...]  # Indices of images.
    missing: tuple[tuple[int, str], ...] = ()  # Row (from 1) and name of missing images.
    notes: tuple[str, ...] = ()


def label_by_folder(images: Sequence[FoundFile], class_names: Names | None) -> Labels:
    """Labels images by folder, numbered in the order of `class_names` or sorted."""
    folders = [image.folder for image in images]
    names = class_names or sorted({folder for folder in folders if folder is not None})
    numbers = {name: number for number, name in enumerate(names)}
    for image, folder in zip(images, folders, strict=True):
        if folder is not None and folder not in numbers:
            raise DataError(f"{image.path}: class {folder!r} is not one of {shown(names)}")
    unlabelled = tuple(at for at, folder in enumerate(folders) if folder is None)
    if not numbers:
        return Labels((), pa.RecordBatch.from_arrays([], []), unlabelled)
    labels = [None if folder is None else numbers[folder] for folder in folders]
    texts = [None if folder is None else os.fsencode(folder) for folder in folders]
    columns = (Column(LABEL, FeatureKind.INT), Column(TEXT, FeatureKind.BYTES))
    rows = batch_of(columns, [pa.array(labels, pa.int64()), pa.array(texts, pa.binary())])
    return Labels(columns, rows, unlabelled, notes=("classes are folders",))


def label_by_file(
    images: Sequence[FoundFile], table: LabelTable, options: Images, class_names: Names | None
) -> Labels:
    """Labels each image by its row of a label file; DataError names contradicting rows."""
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
    rows = take_rows(batch_of(columns, arrays), row_of_image)
    unlabelled = np.flatnonzero(rows.column(0).is_null().to_numpy(zero_copy_only=False))
    note = f"labels are rows of {table.path}: {taken}; files are found by {rule}"
    return Labels(tuple(columns), rows, tuple(unlabelled.tolist()), missing, (note,))


def _stem(name: str) -> str:
    return os.path.splitext(os.path.basename(name))[0]


# Rules as (description, key of an image by its path, key of a row by the name it gives).
_RULES: tuple[tuple[str, Callable[[str], str], Callable[[str], str]], ...] = (
    ("their path", str, str),
    ("their name", os.path.basename, os.path.basename),
    ("their name without extension", _stem, os.path.basename),
)


def _match(
    images: Sequence[FoundFile], table: LabelTable, file_column: str
) -> tuple[list[int | None], tuple[tuple[int, str], ...], str]:
    """Returns the row of each image, the rows without image, and the rule that was used."""
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
                f"{table.path}: row {found + 1}: {wanted[found]!r} may be {other.path} or "
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
    """Returns the name that a row gives an image, as text with `/`; it may be a number."""
    if value is None:
        raise DataError(f"{table.path}: row {row + 1}: names no file")
    name = os.fsdecode(value) if isinstance(value, bytes) else str(value)
    return name.strip().replace("\\", "/").removeprefix("./")


def _classes(
    table: LabelTable, taken: LabelColumns, class_names: Names | None
) -> tuple[list[int | None], list[bytes | None] | None]:
    """Returns the number of each row's class, and its text if it has one."""
    texts = [_text(value) for value in table.values(taken.text)] if taken.text else None
    if taken.label is None:
        assert texts is not None, "find_columns requires one of them"
        texts = [text or None for text in texts]
        names = [*map(os.fsencode, class_names or ())] or sorted({text for text in texts if text})
        _check_known(texts, names, table)
        numbers_by_text = {text: number for number, text in enumerate(names)}
        return [numbers_by_text[text] if text else None for text in texts], texts
    numbers = table.values(taken.label)
    if texts is not None:
        _check_one_text(numbers, texts, table)
        if class_names:
            _check_known(texts, [*map(os.fsencode, class_names)], table)
        return numbers, texts
    if class_names is None:
        return numbers, None
    first = 0 if 0 in numbers else table.first_class
    by_number = dict(enumerate(map(os.fsencode, class_names), first))
    for row, number in enumerate(numbers):
        if number is not None and number not in by_number:
            raise DataError(
                f"{table.path}: row {row + 1}: class {number} is beyond the {len(class_names)} "
                f"names of classes, {first} to {first + len(class_names) - 1}"
            )
    return numbers, [by_number.get(number) for number in numbers]


def _check_known(texts: Sequence[bytes | None], names: Sequence[bytes], table: LabelTable) -> None:
    known = set(names)
    for row, text in enumerate(texts):
        if text and text not in known:
            raise DataError(
                f"{table.path}: row {row + 1}: class {os.fsdecode(text)!r} is not one of "
                f"{shown([*map(os.fsdecode, names)])}"
            )


def _text(value: object) -> bytes | None:
    return value if value is None or isinstance(value, bytes) else str(value).encode()


def _check_one_text(
    numbers: Sequence[int | None], texts: Sequence[bytes | None], table: LabelTable
) -> None:
    of_class: dict[int | None, bytes | None] = {}
    for row, (number, text) in enumerate(zip(numbers, texts, strict=True)):
        if number is not None and of_class.setdefault(number, text) != text:
            raise DataError(
                f"{table.path}: row {row + 1}: class {number} is {text!r}, above "
                f"{of_class[number]!r}; expected one text per class"
            )
