"""Sources with one row per file, which read slices of a shuffled list of files into batches.

Opening such a source lists and hashes every file, which finds faults of names, sizes and access.
The worker that reads a file finds faults of its content.
"""

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa

from penstock.components.errors import DataError
from penstock.components.files.content import (
    Content,
    HashingStream,
    file_size,
    open_data,
    open_unchanged,
)
from penstock.components.files.find import Found, FoundFile, find
from penstock.components.files.remote import RemoteFile
from penstock.components.sources.base import Batch, Column, Piece, RejectedRow
from penstock.components.sources.batches import (
    FIRST_BATCH_ROWS,
    MAX_BATCH_ROWS,
    batch_of,
)
from penstock.components.sources.files import FileSource, ScannedFile, spread_files
from penstock.components.sources.options import KindOptions
from penstock.components.sources.spread import Spread
from penstock.components.tfrecord.feature_kind import FeatureKind
from penstock.components.tfrecord.sharding import MIB

FILENAME = Column("filename", FeatureKind.BYTES)
SIZE = Column("size", FeatureKind.INT)
LABEL = Column("label", FeatureKind.BYTES)
# Batches are small, because a worker holds two of them. A batch has a fixed cost of a millisecond,
# which is 20 us per image of 75 KB; batches of 8 MiB would save 8 us per image.
_BATCH_BYTES = 4 * MIB
# Number of bytes that quarantine keeps from the start of a bad file; the file itself stays in
# place.
_KEPT_BYTES = 64
# Number of files per scan task: about 64 MiB of images.
_FILES_A_TASK = 1024

Values = tuple[Any, ...]
"""Values of a row that are made from the file's bytes; the first is the content."""


@dataclass(frozen=True)
class WholeFileOptions(KindOptions):
    """Options shared by sources with one row per file.

    Attributes:
        allow_empty: Whether an empty file is skipped and counted as blank, instead of rejected.
        folder_label: Whether to add the feature `label` with the name of the folder right below the
            input.
        shuffle_seed: Seed of the order of the files in the shards.
    """

    allow_empty: bool = False
    folder_label: bool = False
    shuffle_seed: int = 0


class UnfitFileError(Exception):
    """A file cannot become a row; the message is the reason, without the file's name."""


@dataclass(frozen=True)
class RejectedFile(RejectedRow):
    """A rejected row that is a whole file."""

    def __str__(self) -> str:
        return f"{self.file}: {self.reason}"


def rejected_file(path: str, reason: str, raw: bytes = b"") -> RejectedFile:
    return RejectedFile(path, 1, 0, None, reason, raw)


@dataclass(frozen=True, eq=False, kw_only=True)
class FileList(ScannedFile):
    """List of all files, in the order of the shards; each file is a row of the list."""

    path: str = "the list of files"
    entries: tuple[tuple[str, Content], ...]  # Path, and digest and size, of each file.
    facts: pa.RecordBatch  # Per entry, the values that the scan knows, such as the name.
    rejected: tuple[RejectedRow, ...]  # Rows that the scan rejected; they come after the entries.
    first: int = 0  # If this is a slice: row of its first file in the whole list.

    def for_reading(self, start: int, end: int) -> "FileList":
        """Returns rows `start` to `end`.

        Copies `facts`, because pickling an Arrow slice would include the rows outside it.
        """
        read = len(self.entries)
        return replace(
            self,
            entries=self.entries[start:end],
            facts=self.facts.take(pa.array(range(start, min(end, read)), pa.int64())),
            rejected=self.rejected[max(0, start - read) : max(0, end - read)],
            first=start,
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class WholeFileSource(FileSource[FileList]):
    """One row per file: the values that `convert` returns, then the file's row of `facts`."""

    max_bytes: int  # Maximum size of a file; a larger one is rejected unread.
    # Converts bytes and path of a file to its values, or to None if it is blank; raises
    # UnfitFileError if the file cannot become a row
    convert: Callable[[bytes, str], Values | None]

    @property
    def facts(self) -> pa.RecordBatch:
        (files,) = self.scanned.values()
        return files.facts

    def read_piece(self, file: FileList, piece: Piece) -> Iterator[Batch]:
        """Yields the rows of a piece in batches that end at 4 MiB or a maximum number of rows."""
        # The first batch is small: an ingest first reads only this one, to measure record sizes.
        rows, size, most = dict[int, Values | RejectedRow | None](), 0, FIRST_BATCH_ROWS
        for at in range(piece.start - file.first, piece.end - file.first):
            rows[at] = found = self._read_file(file, at)
            size += len(found[0]) if isinstance(found, tuple) else 0
            if len(rows) >= most or size >= _BATCH_BYTES:
                yield self._batch(file, rows)
                rows, size, most = {}, 0, MAX_BATCH_ROWS
        if rows:
            yield self._batch(file, rows)

    def _read_file(self, files: FileList, at: int) -> Values | RejectedRow | None:
        if at >= len(files.entries):
            return files.rejected[at - len(files.entries)]
        path, content = files.entries[at]
        with open_unchanged(path, content) as stream:
            data = stream.read()
        try:
            return self.convert(data, path)
        except UnfitFileError as error:
            return rejected_file(path, str(error), data[:_KEPT_BYTES])

    def _batch(self, files: FileList, rows: Mapping[int, Values | RejectedRow | None]) -> Batch:
        good = {at: values for at, values in rows.items() if isinstance(values, tuple)}
        rejected = tuple(row for row in rows.values() if isinstance(row, RejectedRow))
        facts = files.facts.take(pa.array([*good], pa.int64())).columns
        of_content = self.columns[: -len(facts)]
        values = zip(*good.values(), strict=True) if good else [()] * len(of_content)
        pairs = zip(values, of_content, strict=True)
        arrays = [pa.array(some, column.arrow_type) for some, column in pairs]
        digests = pa.array([files.entries[at][1].digest for at in good], pa.binary())
        table = batch_of(self.columns, [*arrays, *facts])
        return Batch(table, rejected, len(rows) - len(good) - len(rejected), digests=digests)


class Listing(NamedTuple):
    """Files to read, in the order of the shards, and rows that are rejected unread."""

    found: Found
    rejected: list[RejectedRow]
    places: list[int]  # Index of each file in the entries of `found`.
    contents: list[Content]

    @property
    def files(self) -> list[FoundFile]:
        return [self.found.entries[at] for at in self.places]

    def source(
        self, kind: str, facts: pa.RecordBatch, labels: bytes = b"", **fields: Any
    ) -> WholeFileSource:
        """Returns the source of the files; `fields` are other attributes of the source."""
        paths = tuple(file.path for file in self.files)
        size = sum(content.size for content in self.contents)
        listed = FileList(
            content=Content(b"", size, 0),
            rows=len(paths) + len(self.rejected),
            entries=tuple(zip(paths, self.contents, strict=True)),
            facts=facts,
            rejected=tuple(self.rejected),
        )
        return WholeFileSource(
            kind=kind,
            fingerprint=self._fingerprint(kind, labels),
            rows=listed.rows,
            files=paths or tuple(row.file for row in self.rejected),
            input_bytes=size,
            ignored=tuple(self.found.ignored),
            rejected_by_scan=listed.rejected,
            scanned={listed.path: listed},
            **fields,
        )

    def _fingerprint(self, kind: str, labels: bytes) -> str:
        """Digests the names and contents of files, their `labels`, and the rejected files.

        `content.fingerprint` is not used because it resolves paths, which is slower than opening a
        file.
        """
        digest = hashlib.sha256(kind.encode())
        for file, content in zip(self.files, self.contents, strict=True):
            digest.update(b"\0" + os.fsencode(file.name) + b"\0" + content.digest)
        digest.update(labels)
        for row in self.rejected:
            digest.update(b"\0rejected\0" + os.fsencode(str(row)))
        return digest.hexdigest()


def list_files(
    found: Found,
    kept: Sequence[int],
    rejected: Sequence[RejectedRow],
    seed: int,
    max_bytes: int,
    spread: Spread,
) -> Listing:
    """Lists and hashes the `kept` entries of `found`, in an order that `seed` determines.

    Whether their content can become rows is not checked.
    """
    refused = (rejected_file(path, reason) for path, reason in sorted(found.refused.items()))
    listed, entries = Listing(found, [*refused, *rejected], [], []), found.entries
    order = [kept[at] for at in shuffled([os.fsencode(entries[at].name) for at in kept], seed)]
    look = partial(_look, max_bytes=max_bytes)
    looks = spread_files(look, [entries[at].path for at in order], spread, _FILES_A_TASK)
    for at, seen in zip(order, looks, strict=True):
        if isinstance(seen, str):
            listed.rejected.append(rejected_file(entries[at].path, seen))
        else:
            listed.places.append(at)
            listed.contents.append(seen)
    return listed


def open_whole_files(
    kind: str,
    inputs: Sequence[str],
    columns: Sequence[Column],
    options: WholeFileOptions,
    spread: Spread,
    *,
    max_bytes: int,
    convert: Callable[[bytes, str], Values | None],
) -> WholeFileSource:
    """Lists and hashes documents or binary files.

    `columns` are the content, then `FILENAME`, `SIZE` or both. `convert` must be picklable.
    """
    found = find(inputs, kind)
    every = range(len(found.entries))
    listing = list_files(found, every, [], options.shuffle_seed, max_bytes, spread)
    columns = (*columns, *([LABEL] if options.folder_label else []))
    values = {
        FILENAME.name: [os.fsencode(one.name) for one in listing.files],
        SIZE.name: [one.size for one in listing.contents],
        LABEL.name: [one.folder and os.fsencode(one.folder) for one in listing.files],
    }
    facts = [pa.array(values[one.name], one.arrow_type) for one in columns[1:]]
    return listing.source(
        kind,
        batch_of(columns[1:], facts),
        columns=columns,
        options=options,
        max_bytes=max_bytes,
        convert=convert,
    )


def shuffled(names: Sequence[bytes], seed: int) -> list[int]:
    """Returns indices of `names` in an order that depends only on names and seed.

    It sorts by a digest of each name, so a new name does not reorder the others.
    """
    salt = f"{seed}\0".encode()
    keys = [hashlib.blake2b(salt + name, digest_size=16).digest() for name in names]
    return sorted(range(len(names)), key=keys.__getitem__)


def _look(path: str, max_bytes: int) -> Content | str:
    """Returns the `Content` of a file, or the reason for rejecting it unread."""
    try:
        with open_data(path) as file:
            size, stream = file_size(file), HashingStream(file)
            if size > max_bytes:
                return f"has {size:,} bytes, more than {max_bytes:,}; not read"
            return stream.read_out()
    except DataError as error:
        # Only a denied permission is the file's fault; a failing disk or a server's refusal is not.
        if isinstance(path, RemoteFile) or not isinstance(error.__cause__, PermissionError):
            raise
        return "cannot be opened (Permission denied); grant read permission"
