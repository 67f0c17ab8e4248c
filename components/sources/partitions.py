"""Makes columns from folders `column=value`, which Hive, Spark and DuckDB write."""

import glob
import hashlib
import os
import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import takewhile
from typing import Any, TypeVar
from urllib.parse import unquote

import pyarrow as pa
from pyarrow import types

from penstock.components.errors import DataError
from penstock.components.files.find import identity
from penstock.components.files.remote import is_remote, normal_address
from penstock.components.sources.arrow_values import to_feature
from penstock.components.sources.base import Column
from penstock.components.sources.files import FileSource
from penstock.components.sources.options import ColumnOptions
from penstock.components.sources.schema import shown
from penstock.components.sources.tokens import PLAIN_INTEGER, to_float32, to_int64
from penstock.components.tfrecord.feature_kind import FeatureKind

# Folder values that mean null.
_NULLS = ("__HIVE_DEFAULT_PARTITION__", "")
_INTEGER = re.compile(PLAIN_INTEGER)

SourceT = TypeVar("SourceT", bound=FileSource[Any])
Folders = Mapping[str, Mapping[str, str | None]]
"""Values of a file's folders `column=value` as texts: by path, then by column."""


def find_folders(files: Sequence[str], inputs: Sequence[str]) -> Folders:
    """Returns each file's values from its folders below the deepest common folder of the inputs."""
    root = _shared_root(inputs, {identity(path) for path in files})
    return {path: _texts(path, identity(path).split("/")[len(root) : -1]) for path in files}


def _texts(path: str, folders: Sequence[str]) -> dict[str, str | None]:
    texts: dict[str, str | None] = {}
    for folder in folders:
        name, equals, value = folder.partition("=")
        if not equals:
            continue
        try:
            name, value = unquote(name, errors="strict"), unquote(value, errors="strict")
        except UnicodeDecodeError as error:
            raise DataError(
                f"{path}: its folder {folder!r} is not UTF-8 once its %-escapes are decoded; "
                "rename it"
            ) from error
        if name in texts:
            raise DataError(
                f"{path}: two of its folders give {name!r} a value; leave one, or name the inner "
                "folder itself as the input"
            )
        texts[name] = None if value in _NULLS else value
    return texts


def _shared_root(inputs: Sequence[str], files: Collection[str]) -> list[str]:
    """Returns the names of the folders that all inputs share; a glob ends at its first wildcard."""
    folders = []
    for one in inputs:
        place = normal_address(one) if is_remote(one) else os.path.abspath(one)
        parts = place.rstrip("/").split("/")
        if place in files:
            parts.pop()
        elif glob.has_magic(place):
            parts = parts[: next(at for at, part in enumerate(parts) if glob.has_magic(part))]
        folders.append(parts)
    # `zip` is not strict, because the shortest path ends the comparison.
    shared = takewhile(lambda names: len(set(names)) == 1, zip(*folders, strict=False))
    return [names[0] for names in shared]


def add_partitions(source: SourceT, folders: Folders) -> SourceT:
    """Adds the columns of folders: INT if all values are whole numbers, otherwise text.

    A column that the schema or the files also have keeps its type, which the folders' values must
    fit.
    """
    names = dict.fromkeys(name for texts in folders.values() for name in texts)
    options: ColumnOptions = source.options
    columns = {column.name: column for column in source.columns}
    for name in names:
        texts = {of_file.get(name) for of_file in folders.values()} - {None}
        kind = FeatureKind.INT if all(map(_is_int64, texts)) else FeatureKind.BYTES
        if not options.schema_file:
            _check_in_all(name, folders)
            columns.setdefault(name, Column(name, kind))
        elif name not in columns and options.extra_columns == "reject":
            raise DataError(
                f"{source.files[0]}: folders have {name!r}, which the schema does not name; "
                "add to the schema, or set `extra_columns='drop'`"
            )
    partitions = {
        path: {
            name: _typed(text, columns[name], path, source)
            for name, text in texts.items()
            if name in columns
        }
        for path, texts in folders.items()
    }
    if not any(partitions.values()):
        return source
    # The fingerprint ignores folders that all inputs share, because they add no column.
    content = f"{source.fingerprint} {[*partitions.values()]}"
    digest = hashlib.sha256(content.encode()).hexdigest()
    return replace(
        source, columns=tuple(columns.values()), partitions=partitions, fingerprint=digest
    )


def _check_in_all(name: str, folders: Folders) -> None:
    outside = next((path for path, texts in folders.items() if name not in texts), None)
    if outside:
        inside = next(path for path, texts in folders.items() if name in texts)
        raise DataError(
            f"{outside}: lacks {shown([name])}, which a folder of {inside} has; move it into such "
            "folders, or ingest the files separately"
        )


def _stored_type(source: FileSource[Any], path: str, name: str) -> pa.DataType | None:
    """Returns the Arrow type of a file's column if it is a date, time or boolean, else None."""
    file = source.scanned.get(path)
    if not isinstance(schema := getattr(file, "schema", None), pa.Schema):
        return None
    at = schema.get_field_index(name)
    found = schema.types[at] if at >= 0 else None
    is_word = found is not None and (types.is_temporal(found) or types.is_boolean(found))
    return found if is_word else None


def _is_int64(text: str | None) -> bool:
    return bool(_INTEGER.fullmatch(text or "")) and -(2**63) <= int(text or "") < 2**63


def _typed(text: str | None, column: Column, path: str, source: FileSource[Any]) -> Any:
    if text is None or column.kind is FeatureKind.BYTES:
        return text
    non_finite = source.options.non_finite
    if (stored := _stored_type(source, path, column.name)) is not None:
        with suppress(pa.ArrowException):  # If the cast fails, the text may be a number.
            array = pa.array([text])
            if types.is_date(stored):  # pyarrow 10 cannot cast text to dates
                array = array.cast(pa.timestamp("us"))
            return to_feature(array.cast(stored), column, non_finite)[0][0].as_py()
    try:
        convert = to_int64 if column.kind is FeatureKind.INT else to_float32
        return convert(text, non_finite)
    except ValueError as error:
        raise DataError(
            f"{path}: column {column.name!r} holds {column.kind.value}, and its folder "
            f"{column.name}={text}: {error}; leave it out of the files, give a schema, or name the "
            "folder itself as the input"
        ) from error
