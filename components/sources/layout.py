"""Whether the columns of a file are those that are expected, and the digest of many files."""

import hashlib
import os
from collections.abc import Collection, Iterable, Sequence

from penstock.components.errors import DataError


def shown(names: Collection[str], limit: int = 8) -> str:
    """Names quoted for a message, the first few of many."""
    some = ", ".join(repr(name) for name in list(names)[:limit])
    return some + (f" and {len(names) - limit} more" if len(names) > limit else "")


def check_same_names(path: str, names: Sequence[str], first: str, expected: Sequence[str]) -> None:
    """Refuse a file whose columns are not those of the first file, in whatever order.

    Raises:
        DataError: Names the file and the columns.
    """
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
    path: str, names: Sequence[str], required: Iterable[str], known: Collection[str], extra: str
) -> None:
    """Refuse a file that lacks a column the schema requires, or has one that it does not know.

    Args:
        path: The file.
        names: Its columns.
        required: Columns that the schema wants in every row.
        known: All columns of the schema.
        extra: What becomes of columns that the schema does not know: `reject` or `drop`.

    Raises:
        DataError: Names the file and the columns.
    """
    missing = [name for name in required if name not in set(names)]
    if missing:
        raise DataError(
            f"{path}: lacks {shown(missing)}, which the schema requires; it has {shown(names)}"
        )
    unknown = [name for name in names if name not in set(known)]
    if unknown and extra == "reject":
        raise DataError(
            f"{path}: has {shown(unknown)}, which the schema does not name; "
            "add to the schema, or set extra_columns='drop'"
        )
    if len(unknown) == len(names):
        raise DataError(f"{path}: has no column of the schema; it has {shown(names)}")


def fingerprint(kind: str, files: Iterable[tuple[str, bytes]]) -> str:
    """Digest (hex) of files' contents and names, in order.

    Args:
        kind: What the files are read as.
        files: Path and sha256 of the content of each. Only what follows the folder that
            all share counts of a path: a moved folder is equal.
    """
    files = list(files)
    root = os.path.commonpath([os.path.dirname(os.path.abspath(path)) for path, _ in files])
    digest = hashlib.sha256(kind.encode())
    for path, content in files:
        name = os.path.relpath(os.path.abspath(path), root)
        digest.update(b"\0" + name.encode("utf-8", "surrogateescape") + b"\0" + content)
    return digest.hexdigest()
