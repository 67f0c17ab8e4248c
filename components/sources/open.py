"""Files, globs, folders or addresses to the `Source` that reads them."""

from collections.abc import Sequence
from dataclasses import fields

from penstock.components.errors import DataError
from penstock.components.files.content import open_data
from penstock.components.files.listing import EXTENSIONS, list_files
from penstock.components.files.sniff import PARQUET_MAGIC
from penstock.components.sources.base import Source
from penstock.components.sources.kinds import Kind, find_kind, options_to_json
from penstock.components.sources.options import KindOptions, Table
from penstock.components.sources.spread import Spread, here


def open_source(
    pattern: str | Sequence[str], options: KindOptions | None = None, spread: Spread = here
) -> Source:
    """Open outside data: all of it is found, checked, counted, hashed and typed.

    Args:
        pattern: A file, a folder, a glob (`**` is recursive), or several of them; what a kind
            that is not of files takes.
        options: How to understand them; those of tables in files if None.
        spread: Does the tasks of the scan of files.

    Raises:
        DataError: There is nothing, or something that cannot be read; names it.
        UsageError: The pattern is nothing that this kind reads.
    """
    options = options or Table()
    inputs = [pattern] if isinstance(pattern, str) else list(pattern)
    kind = find_kind(options.kind or _kind_of(list_files(inputs, None).files))
    if not isinstance(options, kind.options_type):
        options = _as_options_of(kind, options)
    opener = kind.load_opener()
    return opener(inputs, options, spread) if kind.of_files else opener(inputs, options)


def _as_options_of(kind: Kind, options: KindOptions) -> KindOptions:
    """What the kind that the files turned out to be shares with the options that were given."""
    names = {field.name for field in fields(kind.options_type)} - {"kind"}
    values = options_to_json(options)
    return kind.options_type(**{name: values[name] for name in names & values.keys()})


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
    with open_data(path) as file:
        return "parquet" if file.read(len(PARQUET_MAGIC)) == PARQUET_MAGIC else "csv"
