"""Files, globs, folders or addresses to the `Source` that reads them."""

from collections.abc import Sequence

from penstock.components.errors import DataError
from penstock.components.sources.base import Source
from penstock.components.sources.kinds import KindOptions, find_kind
from penstock.components.sources.listing import EXTENSIONS, list_files
from penstock.components.sources.options import SourceOptions
from penstock.components.sources.sniff import PARQUET_MAGIC


def open_source(pattern: str | Sequence[str], options: KindOptions | None = None) -> Source:
    """Open outside data: all of it is found, checked, counted, hashed and typed.

    Args:
        pattern: A file, a folder, a glob (`**` is recursive), or several of them; what a kind
            that is not of files takes.
        options: How to understand them; those of tables in files if None.

    Raises:
        DataError: There is nothing, or something that cannot be read; names it.
        UsageError: The pattern is nothing that this kind reads.
    """
    options = options or SourceOptions()
    inputs = [pattern] if isinstance(pattern, str) else list(pattern)
    kind = options.kind or _kind_of(list_files(inputs, None).files)
    return find_kind(kind).load_opener()(inputs, options)


def _kind_of(files: Sequence[str]) -> str:
    """The one kind that all files have, by extension or else by their first bytes."""
    by_kind: dict[str, str] = {}
    for path in files:
        by_kind.setdefault(_kind_of_file(path), path)
    if len(by_kind) > 1:
        found = ", ".join(f"{kind} ({path})" for kind, path in sorted(by_kind.items()))
        raise DataError(
            f"files of several kinds match: {found}; say which kind to read, or name the files "
            "of one kind"
        )
    return next(iter(by_kind))


def _kind_of_file(path: str) -> str:
    for kind, extensions in EXTENSIONS.items():
        if path.lower().endswith(extensions):
            return kind
    with open(path, "rb") as file:
        return "parquet" if file.read(len(PARQUET_MAGIC)) == PARQUET_MAGIC else "csv"
