"""Sources with one row per file: slices of a shuffled list of files in, record batches out.

Opening one lists and hashes every file, which finds faults of names, sizes and access. The worker
that reads a file finds faults of its content.
"""

import hashlib
import os
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, TypeVar

import numpy as np
import pyarrow as pa

from penstock.components.errors import DataError
from penstock.components.files.content import (
    Content,
    HashingStream,
    file_size,
    open_data,
    open_unchanged,
)
from penstock.components.files.find import FoundFile, find
from penstock.components.files.remote import RemoteFile
from penstock.components.sources.base import Batch, Column, Piece, RejectedRow
from penstock.components.sources.batches import MAX_BATCH_ROWS, batch_of
from penstock.components.sources.files import FileSource, ScannedFile, map_files
from penstock.components.sources.options import KindOptions
from penstock.components.sources.spread import Spread
from penstock.components.tfrecord.feature_kind import FeatureKind
from penstock.components.tfrecord.sharding import MIB

FILENAME = Column("filename", FeatureKind.BYTES, is_text=True)
SIZE = Column("size", FeatureKind.INT)
LABEL = Column("label", FeatureKind.BYTES, is_text=True)
# A worker holds two batches. A batch costs a millisecond: 20 us for each image of 75 KB; with
# batches of 8 MiB, it would be 8 us less.
_BATCH_BYTES = 4 * MIB
_BLOCK_BYTES = MIB
# Number of first bytes of a bad file that quarantine keeps; the file itself stays in place.
_KEPT_BYTES = 64
# Number of files per scan task: about 64 MiB of images.
_FILES_A_TASK = 1024

T = TypeVar("T")
# Converts a file's bytes to the content of its row; None if the file is blank.
Convert = Callable[[bytes], bytes | None]


@dataclass(frozen=True)
class WholeFileOptions(KindOptions):
    """Options shared by sources with one row per file.

    Attributes:
        allow_empty: Whether an empty file is skipped, and counted as blank, instead of rejected.
        folder_label: Add the feature `label`, the name of the folder right below the input.
        shuffle_seed: Seed of the order of the files in the shards.
    """

    allow_empty: bool = False
    folder_label: bool = False
    shuffle_seed: int = 0


class UnfitFileError(Exception):
    """A file cannot be a row; the message is the reason, without the file's name."""


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
    paths: tuple[str, ...]
    names: pa.BinaryArray  # Paths relative to the input; binary [files].
    sizes: np.ndarray  # int64 [files], bytes.
    digests: pa.BinaryArray  # sha256; binary [files].
    states: np.ndarray  # `file_state`; int64 [files].
    rejected: tuple[RejectedRow, ...] = ()  # Rows that the scan rejected; they follow the others.
    first: int = 0  # Row of the first file in the whole list, if this is a slice of it.

    @classmethod
    def of(
        cls: type["ListT"],
        files: Sequence[FoundFile],
        contents: Sequence[Content],
        rejected: Sequence[RejectedRow],
        **fields: Any,
    ) -> "ListT":
        sizes = np.array([one.size for one in contents], np.int64)
        return cls(
            content=Content(b"", int(sizes.sum()), 0),
            rows=len(files) + len(rejected),
            paths=tuple(file.path for file in files),
            names=pa.array([os.fsencode(file.name) for file in files], pa.binary()),
            sizes=sizes,
            digests=pa.array([one.digest for one in contents], pa.binary()),
            states=np.array([one.state for one in contents], np.int64),
            rejected=tuple(rejected),
            **fields,
        )

    def fingerprint(self, kind: str, labels: bytes = b"") -> str:
        """Digests names and content of files, their `labels`, and rejected files.

        Not by `content.fingerprint`: it resolves paths, which takes longer than opening a file.
        """
        digest = hashlib.sha256(kind.encode())
        for name, content in zip(self.names.to_pylist(), self.digests.to_pylist(), strict=True):
            digest.update(b"\0" + name + b"\0" + content)
        digest.update(labels)
        for row in self.rejected:
            digest.update(b"\0rejected\0" + os.fsencode(str(row)))
        return digest.hexdigest()

    def for_reading(self: "ListT", start: int, end: int) -> "ListT":
        """Returns rows `start` up to `end`; copies them, since Arrow pickles a slice whole."""
        read = len(self.paths)
        at, some = pa.array(range(start, min(end, read)), pa.int64()), slice(start, end)
        return replace(
            self,
            paths=self.paths[some],
            names=self.names.take(at),
            sizes=self.sizes[some],
            digests=self.digests.take(at),
            states=self.states[some],
            rejected=self.rejected[max(0, start - read) : max(0, end - read)],
            first=start,
        )


ListT = TypeVar("ListT", bound=FileList)


@dataclass
class FileRows:
    """Rows of a batch in the making: contents, facts, and indices into the list of files."""

    contents: list[bytes] = field(default_factory=list)
    facts: list[Any] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    rejected: list[RejectedRow] = field(default_factory=list)
    blank: int = 0
    size: int = 0

    def __len__(self) -> int:
        return len(self.places) + len(self.rejected) + self.blank

    def add(self, at: int, content: bytes, facts: Any = None) -> None:
        self.contents.append(content)
        self.size += len(content)
        self.facts.append(facts)
        self.places.append(at)


@dataclass(frozen=True, eq=False, kw_only=True)
class WholeFileSource(FileSource[ListT]):
    """Files with one row each; the first column is the content."""

    # Maximum number of rows in the first batch.
    first_rows: ClassVar[int] = MAX_BATCH_ROWS

    max_bytes: int  # Maximum size of a file; a larger one is rejected unread.

    @abstractmethod
    def add_row(self, files: ListT, at: int, data: bytes, rows: FileRows) -> None:
        """Adds the row of file `at` with content `data`; UnfitFileError if it cannot be a row."""

    @abstractmethod
    def features(self, files: ListT, rows: FileRows, places: pa.Array) -> dict[str, pa.Array]:
        """Returns all columns but the content, by name, for the files with indices `places`."""

    def read_piece(self, file: ListT, piece: Piece) -> Iterator[Batch]:
        """Yields a slice of the files, in batches of about 4 MiB unless one file is larger."""
        rows, most = FileRows(), self.first_rows
        for at in range(piece.start - file.first, piece.end - file.first):
            self._read_file(file, at, rows)
            if len(rows) >= most or rows.size >= _BATCH_BYTES:
                yield self._batch(file, rows)
                rows, most = FileRows(), MAX_BATCH_ROWS
        if len(rows):
            yield self._batch(file, rows)

    def _read_file(self, files: ListT, at: int, rows: FileRows) -> None:
        if at >= len(files.paths):
            rows.rejected.append(files.rejected[at - len(files.paths)])
            return
        path, size, data = files.paths[at], int(files.sizes[at]), b""
        try:
            if size > self.max_bytes:
                raise UnfitFileError(_too_large(size, self.max_bytes))
            content = Content(files.digests[at].as_py(), size, int(files.states[at]))
            with open_unchanged(path, content) as stream:
                data = stream.read()
            self.add_row(files, at, data, rows)
        except UnfitFileError as error:
            rows.rejected.append(rejected_file(path, str(error), data[:_KEPT_BYTES]))

    def _batch(self, files: ListT, rows: FileRows) -> Batch:
        places = pa.array(rows.places, pa.int64())
        _, *others = self.columns
        found = self.features(files, rows, places)
        arrays = [pa.array(rows.contents, pa.binary()), *(found[column.name] for column in others)]
        table = batch_of(self.columns, arrays)
        digests = files.digests.take(places)
        return Batch(table, tuple(rows.rejected), rows.blank, digests=digests)


@dataclass(frozen=True, eq=False, kw_only=True)
class DocumentSource(WholeFileSource[FileList]):
    """Documents or binary files; `convert` turns the bytes of a file into its row's content."""

    convert: Convert

    def add_row(self, files: FileList, at: int, data: bytes, rows: FileRows) -> None:
        content = self.convert(data)
        if content is None:
            rows.blank += 1
        else:
            rows.add(at, content)

    def features(self, files: FileList, rows: FileRows, places: pa.Array) -> dict[str, pa.Array]:
        names = files.names.take(places)
        labels = [name.partition(b"/")[0] if b"/" in name else None for name in names.to_pylist()]
        return {
            FILENAME.name: names,
            SIZE.name: pa.array(files.sizes[rows.places], pa.int64()),
            LABEL.name: pa.array(labels, pa.binary()),
        }


def open_whole_files(
    kind: str,
    inputs: Sequence[str],
    columns: Sequence[Column],
    options: WholeFileOptions,
    spread: Spread,
    *,
    max_bytes: int,
    convert: Convert,
) -> DocumentSource:
    """Lists and hashes files, without examining their content.

    `columns` are the content, then `FILENAME` and `SIZE` or one of them; `convert` is picklable.
    """
    tree = find(inputs, kind)
    names = [os.fsencode(file.name) for file in tree.entries]
    files = [tree.entries[at] for at in shuffled(names, options.shuffle_seed)]
    rejected: dict[str, str] = dict(sorted(tree.refused.items()))
    kept: dict[FoundFile, Content] = {}
    looks = scan_each(partial(_look, max_bytes=max_bytes), [file.path for file in files], spread)
    for file, found in zip(files, looks, strict=True):
        if isinstance(found, str):
            rejected[file.path] = found
        else:
            kept[file] = found
    rows = tuple(rejected_file(path, reason) for path, reason in rejected.items())
    listed = FileList.of(list(kept), list(kept.values()), rows)
    labels = (LABEL,) if options.folder_label else ()
    return DocumentSource(
        kind=kind,
        columns=name_columns((*columns, *labels), [file.name for file in kept]),
        fingerprint=listed.fingerprint(kind),
        rows=listed.rows,
        files=listed.paths or tuple(row.file for row in rows),
        input_bytes=listed.content.size,
        ignored=tuple(tree.ignored),
        rejected_by_scan=rows,
        options=options,
        scanned={listed.path: listed},
        max_bytes=max_bytes,
        convert=convert,
    )


def name_columns(columns: Sequence[Column], names: Sequence[str]) -> tuple[Column, ...]:
    """Types columns of file names as bytes instead of text if a name is not UTF-8."""
    try:
        "".join(names).encode()
    except UnicodeEncodeError:  # On Linux a name may be any bytes.
        return tuple(
            replace(column, is_text=False) if column in (FILENAME, LABEL) else column
            for column in columns
        )
    return tuple(columns)


def shuffled(names: Sequence[bytes], seed: int) -> list[int]:
    """Returns indices of `names` in an order that depends only on names and seed.

    It sorts by a digest of each name, so a new name does not reorder the others.
    """
    salt = f"{seed}\0".encode()
    keys = [hashlib.blake2b(salt + name, digest_size=16).digest() for name in names]
    return sorted(range(len(names)), key=keys.__getitem__)


def scan_each(scan: Callable[[str], T], paths: Sequence[str], spread: Spread) -> list[T]:
    """Calls `scan` (picklable) for each of many small files; returns the results in order."""
    tasks = [paths[at : at + _FILES_A_TASK] for at in range(0, len(paths), _FILES_A_TASK)]
    done = spread(partial(map_files, scan), tasks, sum(map(_size, paths)))
    return [file for task in done for file in task]


def _size(path: str) -> int:
    """Returns the size of a file in bytes, 0 if unknown: opening it later reports the fault."""
    if isinstance(path, RemoteFile):
        return path.size or 0
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _look(path: str, max_bytes: int) -> Content | str:
    try:
        found = scan_file(path, max_bytes)
    except DataError as error:
        # Only a denied permission is the file's fault; a failing disk or a server's refusal is not.
        if isinstance(path, RemoteFile) or not isinstance(error.__cause__, PermissionError):
            raise
        return "cannot be opened (Permission denied); grant read permission"
    return _too_large(found.size, max_bytes) if found.size > max_bytes else found


def _too_large(size: int, most: int) -> str:
    return f"has {size:,} bytes, more than {most:,}; not read"


def scan_file(path: str, max_bytes: int) -> Content:
    """Returns size and digest of a file; a file larger than `max_bytes` is not read."""
    with open_data(path) as file:
        size, stream = file_size(file), HashingStream(file)
        while size <= max_bytes and stream.read(min(size + 1, _BLOCK_BYTES)):
            pass
    return stream.content()._replace(size=size)
