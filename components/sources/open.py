"""A path, a glob or a folder to the `Source` that reads it."""

from collections.abc import Sequence

from penstock.components.errors import DataError
from penstock.components.sources.base import Source
from penstock.components.sources.listing import EXTENSIONS, Listing, list_files
from penstock.components.sources.options import SourceOptions
from penstock.components.sources.sniff import PARQUET_MAGIC


def open_source(pattern: str | Sequence[str], options: SourceOptions | None = None) -> Source:
    """Open outside files: all are found, checked, counted, hashed and typed.

    Args:
        pattern: A file, a folder, a glob (`**` is recursive), or several of them.
        options: How to understand them; the defaults if None.

    Raises:
        DataError: There is nothing, or a file that cannot be read; names it.
        UsageError: The pattern is no path.
    """
    options = options or SourceOptions()
    listing = list_files(pattern, options.kind)
    kind = options.kind or _kind_of(listing)
    # Each brings in a part of Arrow that the other does not need.
    if kind == "parquet":
        from penstock.components.sources.parquet import open_parquet

        return open_parquet(listing, options)
    from penstock.components.sources.csv import open_csv

    return open_csv(listing, options)


def _kind_of(listing: Listing) -> str:
    """The one kind that all files have, by extension or else by their first bytes."""
    by_kind: dict[str, str] = {}
    for path in listing.files:
        by_kind.setdefault(_kind_of_file(path), path)
    if len(by_kind) > 1:
        raise DataError(
            f"both CSV ({by_kind['csv']}) and Parquet ({by_kind['parquet']}) match; "
            "say kind='csv' or kind='parquet', or name the files of one kind"
        )
    return next(iter(by_kind))


def _kind_of_file(path: str) -> str:
    for kind, extensions in EXTENSIONS.items():
        if path.lower().endswith(extensions):
            return kind
    with open(path, "rb") as file:
        return "parquet" if file.read(len(PARQUET_MAGIC)) == PARQUET_MAGIC else "csv"
