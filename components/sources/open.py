"""Opens files, globs, folders or addresses as a `Source`."""

import weakref
from collections.abc import Iterator, Sequence
from dataclasses import asdict

import pyarrow as pa

from penstock.components.errors import DataError
from penstock.components.files.content import open_data
from penstock.components.files.find import COMPRESSED, EXTENSIONS, find
from penstock.components.files.sniff import kind_by_magic
from penstock.components.sources.base import Source
from penstock.components.sources.kinds import find_kind, options_from_json
from penstock.components.sources.options import KindOptions, Table
from penstock.components.sources.spread import Spread

_SNIFFED_BYTES = 512


def open_source(
    pattern: str | Sequence[str],
    options: KindOptions | None = None,
    spread: Spread | None = None,
) -> Source:
    """Opens outside data: counts its rows, and determines its fingerprint, columns and types.

    `pattern` is a file, a folder, a glob (`**` is recursive) or several of them; for kinds that do
    not read files, an address. Without options, the kind is recognised and its default options
    apply. Without a spread, staged copies of rows that can be read only once are kept as long as
    the source exists.
    """
    if spread is not None:
        return _open(pattern, options, spread)
    with Spread() as own:
        source = _open(pattern, options, own)
        weakref.finalize(source, own.pop_all().close)
        return source


def good_tables(source: Source) -> Iterator[pa.Table]:
    """Yields a source's rows as tables; raises DataError at the first row that does not fit."""
    for piece in (piece for pieces in source.cut(1) for piece in pieces):
        for batch in source.read([piece]):
            if batch.rejected:
                raise DataError(str(batch.rejected[0]))
            yield pa.Table.from_batches([batch.table])


def _open(pattern: str | Sequence[str], options: KindOptions | None, spread: Spread) -> Source:
    options = options or Table()
    inputs = [pattern] if isinstance(pattern, str) else list(pattern)
    name = options.kind or _kind_of(find(inputs, None).files)
    kind = find_kind(name)
    # For CSV, a `Table` is not converted, because `Table` is a subclass of `Csv`. Its `kind` stays
    # None if CSV was recognised, not given; the opener then refuses some files without a delimiter.
    if not isinstance(options, kind.options_type):
        options = options_from_json({**asdict(options), "kind": name})
    return kind.load_opener()(inputs, options, spread)


def _kind_of(files: Sequence[str]) -> str:
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
    name = COMPRESSED.sub("", path.lower())
    for kind, extensions in EXTENSIONS.items():
        if name.endswith(extensions):
            return kind
    with open_data(path) as file:
        return kind_by_magic(file.read(_SNIFFED_BYTES)) or "csv"
