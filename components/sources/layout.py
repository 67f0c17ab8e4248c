"""Comparison of a file's columns with those expected."""

from collections.abc import Collection, Sequence
from typing import Any

from penstock.components.errors import DataError
from penstock.components.sources.options import ColumnOptions
from penstock.components.sources.schema import SchemaColumn


def shown(names: Collection[str], limit: int = 8) -> str:
    """Names quoted for a message, the first few of many."""
    some = ", ".join(repr(name) for name in list(names)[:limit])
    return some + (f" and {len(names) - limit} more" if len(names) > limit else "")


def check_layouts(
    files: Sequence[Any], schema: Sequence[SchemaColumn], options: ColumnOptions
) -> None:
    """Refuse, by DataError, files whose columns are not the schema's, or else the first file's.

    Each file has a `path` and the `names` of its columns, whose order does not matter.
    """
    for file in files:
        if schema:
            check_schema_names(file.path, file.names, schema, options.extra_columns)
        else:
            _check_same_names(file.path, file.names, files[0].path, files[0].names)


def _check_same_names(path: str, names: Sequence[str], first: str, expected: Sequence[str]) -> None:
    missing = [name for name in expected if name not in set(names)]
    extra = [name for name in names if name not in set(expected)]
    if missing or extra:
        found = [f"lacks {shown(missing)}"] if missing else []
        found += [f"has {shown(extra)} besides"] if extra else []
        raise DataError(
            f"{path}: {' and '.join(found)}; expected the columns of {first} in any order. "
            "Give a schema to say which columns count, or ingest the files apart"
        )


def check_schema_names(
    path: str, names: Sequence[str], schema: Sequence[SchemaColumn], extra_columns: str
) -> None:
    """Refuse, by DataError, a file without a required column, or with one that is not known."""
    known = {column.name for column in schema}
    missing = [column.name for column in schema if column.required and column.name not in names]
    if missing:
        raise DataError(
            f"{path}: lacks {shown(missing)}, which the schema requires; it has {shown(names)}"
        )
    unknown = [name for name in names if name not in known]
    if len(unknown) == len(names):
        raise DataError(f"{path}: has no column of the schema; it has {shown(names)}")
    if unknown and extra_columns == "reject":
        raise DataError(
            f"{path}: has {shown(unknown)}, which the schema does not name; "
            "add to the schema, or set `extra_columns='drop'`"
        )
