"""Files as a `Source`: the base class of all kinds that read files.

A new kind of file is one module. It defines a subclass of `FileSource` that implements
`read_piece`, and a function `open_<kind>`. That function scans each file into a `ScannedFile` (or a
subclass with more attributes) and returns the source that the class method `of` makes from them.
"""

import os
from abc import abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import Any, Generic, NamedTuple, TypeVar

import pyarrow as pa

from penstock.components.errors import DataError
from penstock.components.files.content import (
    EMPTY_ADVICE,
    Content,
    fingerprint,
    hash_file,
    look,
    scanned_content,
)
from penstock.components.files.find import Found
from penstock.components.files.remote import RemoteFile
from penstock.components.sources.base import Batch, Piece, Source
from penstock.components.sources.batches import batch_of
from penstock.components.sources.spread import Spread

# A cut between two parts of a source may move by up to this share of a part's size, to a place
# where cutting is cheap. In other places, a row start must be searched for, or two workers
# decompress the same row group.
SNAP_SHARE = 0.25
# Several threads help: reading and hashing release the GIL, and reads may wait for a disk.
_THREADS = 8
_FILES_AT_ONCE = 64

Item = TypeVar("Item")
T = TypeVar("T")


class RowStart(NamedTuple):
    """Start of a row in a file, or the end of the file."""

    position: int  # Byte (in text) or row from 0 (all other kinds) at which a `Piece` may start.
    row: int  # Number of the row within the file, from 1.
    line: int = 0  # Physical line of the row, from 1; 0 if the file has no lines.


@dataclass(frozen=True, eq=False, kw_only=True)
class ScannedFile:
    path: str
    content: Content
    rows: int  # Number of rows, blank ones included.

    @property
    def units(self) -> int:
        """Amount to read: rows, or bytes for text."""
        return self.rows

    def for_reading(self: "FileT", start: int, end: int) -> "FileT":
        del start, end
        return self


FileT = TypeVar("FileT", bound=ScannedFile)
SourceT = TypeVar("SourceT", bound="FileSource[Any]")


@dataclass(frozen=True, eq=False, kw_only=True)
class FileSource(Source, Generic[FileT]):
    options: Any
    scanned: dict[str, FileT]  # Files with rows, by path.
    # Values of the folders `column=value` that a file is in: by path, then by column.
    partitions: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @classmethod
    def of(
        cls: type[SourceT], kind: str, files: Sequence[FileT], listing: Found, **fields: Any
    ) -> SourceT:
        """Returns the source of scanned files; `fields` are the other attributes of the source.

        By default, the fingerprint is a digest of the files' relative paths and contents.
        """
        if "fingerprint" not in fields:
            digests = [(file.path, file.content.digest) for file in files]
            fields["fingerprint"] = fingerprint(kind, digests)
        return cls(
            kind=kind,
            rows=sum(file.rows for file in files),
            files=listing.files,
            input_bytes=sum(file.content.size for file in files),
            ignored=tuple(listing.ignored),
            scanned={file.path: file for file in files if file.rows},
            **fields,
        )

    def row_start(self, file: FileT, at: int, before: RowStart | None, parts: int) -> RowStart:
        """Returns a row start near unit `at` of a file; the source is cut into `parts` parts.

        For `at` = 0, the result is the first row; for `at` = `file.units`, the end of the file. A
        larger `at` never gives an earlier row. `before` is the previous result in the same file,
        from which a search may continue.
        """
        del file, before, parts
        return RowStart(at, at + 1)

    @abstractmethod
    def read_piece(self, file: FileT, piece: Piece) -> Iterator[Batch]:
        """Yields the rows of `piece`, which is a range of rows (or bytes, in text) of `file`."""

    def cut(self, parts: int) -> list[tuple[Piece, ...]]:
        files = self.scanned.values()
        total = sum(file.units for file in files)
        bounds = [part * total // parts for part in range(parts + 1)]
        runs: list[list[Piece]] = [[] for _ in range(parts)]
        before = 0
        for file in files:
            after = before + file.units
            part = bisect_right(bounds, before) - 1
            inner = bounds[part + 1 : bisect_left(bounds, after)]
            starts: list[RowStart] = []
            for place in (before, *inner, after):
                last = starts[-1] if starts else None
                starts.append(self.row_start(file, place - before, last, parts))
            for at, (start, end) in enumerate(pairwise(starts)):
                if start.position < end.position:
                    piece = Piece(file.path, start.position, end.position, start.row, start.line)
                    runs[part + at].append(piece)
            before = after
        return [tuple(run) for run in runs]

    def part(self, pieces: tuple[Piece, ...]) -> tuple[Source, tuple[Piece, ...]]:
        source, pieces = super().part(pieces)
        scanned = {
            piece.file: self.scanned[piece.file].for_reading(piece.start, piece.end)
            for piece in pieces
        }
        partitions = {path: self.partitions[path] for path in scanned if path in self.partitions}
        return replace(source, scanned=scanned, partitions=partitions), pieces  # type: ignore[call-arg]

    def read(self, pieces: Sequence[Piece]) -> Iterator[Batch]:
        for piece in pieces:
            for batch in self.read_piece(self.scanned[piece.file], piece):
                yield self._with_partitions(batch, piece.file)

    def _with_partitions(self, batch: Batch, path: str) -> Batch:
        """Fills the columns that the folders `column=value` of a file give.

        Raises DataError if the file itself has another value in such a column.
        """
        values, arrays = self.partitions.get(path), batch.table.columns
        if not values:
            return batch
        for at, column in enumerate(self.columns):
            if column.name not in values:
                continue
            value = values[column.name]
            value = [value] if column.is_list and value is not None else value
            scalar = pa.scalar(value, column.arrow_type)
            expected = repr(scalar.as_py())
            for other in map(repr, arrays[at].drop_null().to_pylist()):
                if other != expected:
                    raise DataError(
                        f"{path}: column {column.name!r} holds {other[:80]}, and its folder says "
                        f"{value!r}; correct one, or name the folder itself as the input"
                    )
            arrays[at] = pa.repeat(scalar, len(arrays[at]))
        return replace(batch, table=batch_of(self.columns, arrays))


def map_files(scan: Callable[[Item], T], items: Sequence[Item]) -> list[T]:
    """Calls `scan` for each file in a few threads; returns the results in the files' order."""
    chunks = [items[at : at + _FILES_AT_ONCE] for at in range(0, len(items), _FILES_AT_ONCE)]
    with ThreadPoolExecutor(min(_THREADS, os.cpu_count() or 1)) as pool:
        done = pool.map(lambda chunk: [scan(item) for item in chunk], chunks)
        return [file for chunk in done for file in chunk]


def spread_files(
    scan: Callable[[str], T], paths: Sequence[str], spread: Spread, files_a_task: int = 1
) -> list[T]:
    """Calls `scan` for each path, in tasks that `spread` runs; returns the results in order.

    `scan` must be picklable.
    """
    tasks = [paths[at : at + files_a_task] for at in range(0, len(paths), files_a_task)]
    done = spread(partial(map_files, scan), tasks, sum(map(_size, paths)))
    return [file for task in done for file in task]


def _size(path: str) -> int:
    """Returns a file's size in bytes, or 0 if it cannot be found out."""
    if isinstance(path, RemoteFile):
        return path.size or 0
    with suppress(OSError):
        return os.stat(path).st_size
    return 0


def inspected(path: str, inspect: Callable[[str], FileT]) -> FileT:
    """Returns a file as described by its header or footer, with the digest of its content."""
    before = look(path)
    file = inspect(path)
    return replace(file, content=scanned_content(path, before, hash_file(path).digest))


def require_rows(files: Sequence[ScannedFile], *, allow_empty: bool, what: str = "rows") -> None:
    for file in files:
        if not file.rows and not allow_empty:
            raise DataError(f"{file.path}: has no {what}; {EMPTY_ADVICE}")
