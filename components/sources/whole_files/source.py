"""Whole files as a `Source`: slices of a shuffled list of files in, record batches out.

Opening it lists and hashes every file. What is wrong with a file's name, size or access is known
then, what is wrong with its content when a worker comes to it.
"""

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from penstock.components.errors import DataError
from penstock.components.files.remote import RemoteFile
from penstock.components.sources.base import Batch, Column, Piece, RejectedRow
from penstock.components.sources.batches import MAX_BATCH_ROWS, batch_of
from penstock.components.sources.whole_files.contents import Contents
from penstock.components.sources.whole_files.options import WholeFileOptions
from penstock.components.sources.whole_files.rows import cut_list, rejected_file, shuffled
from penstock.components.sources.whole_files.scan import for_each_file, read_whole, scan_file
from penstock.components.sources.whole_files.tree import STRAY, FoundFile, find_tree
from penstock.components.tfrecord.feature_kind import FeatureKind
from penstock.components.tfrecord.sharding import MIB

FILENAME = Column("filename", FeatureKind.BYTES, is_text=True)
SIZE = Column("size", FeatureKind.INT)
LABEL = Column("label", FeatureKind.BYTES, is_text=True)
# As for images.
_BATCH_BYTES = 4 * MIB
# What quarantine keeps of a file, which stays where it is: enough to tell what it is.
_KEPT_BYTES = 64

# A file's bytes to what its row holds; None where it is blank.
Convert = Callable[[bytes], bytes | None]


class UnfitFileError(Exception):
    """A file's content does not make a row; says why."""


@dataclass(frozen=True)
class Listed:
    """The files that are read, in the order of the shards.

    Attributes:
        paths: Where each is.
        names: Its path below the input; binary [files].
        sizes: In bytes; int64 [files].
        digests: sha256 of each file; binary [files].
    """

    paths: tuple[str, ...]
    names: pa.BinaryArray
    sizes: np.ndarray
    digests: pa.BinaryArray


@dataclass(frozen=True, eq=False)
class FileSource:
    """Files, listed and hashed; see `Source` for its other attributes.

    Attributes:
        columns: That of the content, then some of `FILENAME`, `SIZE` and `LABEL`.
        ignored: Files beside the data, left out.
        rejected_by_scan: Links out of the folder, files too large or not to be read.
        listed: The other files.
        convert: Makes their content a row's.
    """

    kind: str
    columns: tuple[Column, ...]
    fingerprint: str
    input_bytes: int
    ignored: tuple[str, ...]
    rejected_by_scan: tuple[RejectedRow, ...]
    listed: Listed
    convert: Convert

    @property
    def rows(self) -> int:
        """All files, those that were rejected included."""
        return len(self.listed.paths) + len(self.rejected_by_scan)

    @property
    def files(self) -> tuple[str, ...]:
        """See `Source`."""
        return self.listed.paths or tuple(row.file for row in self.rejected_by_scan)

    def cut(self, parts: int) -> list[tuple[Piece, ...]]:
        """The list of files as `parts` slices of equal length."""
        return cut_list(self.rows, parts)

    def read(self, pieces: Sequence[Piece]) -> Iterator[Batch]:
        """The files of the slices, about 4 MiB in a batch unless one is larger.

        Raises:
            DataError: A file cannot be read, or has changed since it was listed; names it.
        """
        for piece in pieces:
            made = _BatchMaker()
            for at in range(piece.start, piece.end):
                self._take(at, made)
                if made.rows >= MAX_BATCH_ROWS or made.contents.size >= _BATCH_BYTES:
                    yield self._batch(made)
                    made = _BatchMaker()
            if made.rows:
                yield self._batch(made)

    def _take(self, at: int, made: "_BatchMaker") -> None:
        """Read one file, or what was rejected before, into a batch."""
        read = len(self.listed.paths)
        if at >= read:
            made.rejected.append(self.rejected_by_scan[at - read])
            return
        path = self.listed.paths[at]
        data = read_whole(path, int(self.listed.sizes[at]))
        try:
            content = self.convert(data)
        except UnfitFileError as error:
            made.rejected.append(rejected_file(path, str(error), data[:_KEPT_BYTES]))
            return
        if content is None:
            made.blank += 1
        else:
            made.add(at, content)

    def _batch(self, made: "_BatchMaker") -> Batch:
        content, *others = self.columns
        places = pa.array(made.places, pa.int64())
        names = self.listed.names.take(places)
        arrays = {
            content.name: made.contents.array(),
            FILENAME.name: names,
            SIZE.name: pa.array(self.listed.sizes[made.places], pa.int64()),
        }
        if LABEL in others:
            folders = [
                name.partition(b"/")[0] if b"/" in name else None for name in names.to_pylist()
            ]
            arrays[LABEL.name] = pa.array(folders, pa.binary())
        table = batch_of(self.columns, [arrays[column.name] for column in self.columns])
        digests = self.listed.digests.take(places)
        return Batch(table, tuple(made.rejected), made.blank, digests=digests)


@dataclass
class _BatchMaker:
    """Files on their way into a batch."""

    contents: Contents = field(default_factory=Contents)
    places: list[int] = field(default_factory=list)
    rejected: list[RejectedRow] = field(default_factory=list)
    blank: int = 0

    @property
    def rows(self) -> int:
        return len(self.contents) + len(self.rejected) + self.blank

    def add(self, at: int, content: bytes) -> None:
        self.contents.append(content)
        self.places.append(at)


def as_named(columns: Sequence[Column], names: Sequence[str]) -> tuple[Column, ...]:
    """The columns, those of names being text only where each of these names is UTF-8."""
    try:
        "".join(names).encode()
    except UnicodeEncodeError:  # To Linux a name is bytes.
        return tuple(
            replace(column, is_text=False) if column in (FILENAME, LABEL) else column
            for column in columns
        )
    return tuple(columns)


def open_whole_files(
    kind: str,
    inputs: Sequence[str],
    columns: Sequence[Column],
    options: WholeFileOptions,
    *,
    max_bytes: int,
    convert: Convert,
) -> FileSource:
    """List and hash files; no content is looked at.

    Args:
        kind: What they are read as.
        inputs: Folders, globs, files or addresses.
        columns: That of the content, and which of `FILENAME` and `SIZE` follow.
        options: What becomes of empty files, labels, and the order.
        max_bytes: A file of more is rejected.
        convert: Makes a file's content a row's; must be picklable.

    Raises:
        DataError: There are none, or a folder cannot be listed.
    """
    tree = find_tree(inputs, STRAY, "file")
    names = [os.fsencode(file.name) for file in tree.files]
    files = [tree.files[at] for at in shuffled(names, options.shuffle_seed)]
    rejected: dict[str, str] = dict(sorted(tree.refused.items()))
    digest = hashlib.sha256(kind.encode())
    kept: list[FoundFile] = []
    sizes: list[int] = []
    digests: list[bytes] = []
    looks = for_each_file(lambda path: _look(path, max_bytes), [file.path for file in files])
    for file, (size, content, problem) in zip(files, looks, strict=True):
        if problem:
            rejected[file.path] = problem
            continue
        kept.append(file)
        sizes.append(size)
        digests.append(content)
        digest.update(b"\0" + os.fsencode(file.name) + b"\0" + content)
    rows = tuple(rejected_file(path, reason) for path, reason in rejected.items())
    for row in rows:
        digest.update(b"\0rejected\0" + os.fsencode(str(row)))
    return FileSource(
        kind=kind,
        columns=as_named(
            (*columns, *((LABEL,) if options.folder_label else ())), [file.name for file in kept]
        ),
        fingerprint=digest.hexdigest(),
        input_bytes=sum(sizes),
        ignored=tuple(tree.ignored),
        rejected_by_scan=rows,
        listed=Listed(
            paths=tuple(file.path for file in kept),
            names=pa.array([os.fsencode(file.name) for file in kept], pa.binary()),
            sizes=np.array(sizes, np.int64),
            digests=pa.array(digests, pa.binary()),
        ),
        convert=convert,
    )


def _look(path: str, max_bytes: int) -> tuple[int, bytes, str | None]:
    """Size and digest of a file, and what is wrong with it, if anything is."""
    try:
        size, content = scan_file(path, max_bytes)
    except DataError as error:
        # A failing disk or a server's refusal is not the file's fault.
        if isinstance(path, RemoteFile) or not isinstance(error.__cause__, PermissionError):
            raise
        return 0, b"", "cannot be opened (Permission denied); give yourself the right to read it"
    if size > max_bytes:
        return size, content, f"has {size:,} bytes, more than {max_bytes:,}; not read"
    return size, content, None
