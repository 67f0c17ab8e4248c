"""Whole files as a `Source`: slices of a shuffled list of files in, record batches out.

Opening it lists and hashes every file. What is wrong with a file's name, size or access is known
then, what is wrong with its content when a worker comes to it.
"""

import hashlib
import os
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import numpy as np
import pyarrow as pa

from penstock.components.errors import DataError
from penstock.components.files.content import Content
from penstock.components.files.remote import RemoteFile
from penstock.components.sources.base import Batch, Column, Piece, Source
from penstock.components.sources.batches import MAX_BATCH_ROWS, batch_of
from penstock.components.sources.cutting import Rows, RowStart, cut_files
from penstock.components.sources.spread import Spread
from penstock.components.sources.whole_files.options import WholeFileOptions
from penstock.components.sources.whole_files.rows import (
    RowsMade,
    UnfitFileError,
    rejected_file,
    shuffled,
)
from penstock.components.sources.whole_files.scan import read_whole, scan_each, scan_file
from penstock.components.sources.whole_files.tree import STRAY, FoundFile, find_tree
from penstock.components.tfrecord.feature_kind import FeatureKind
from penstock.components.tfrecord.sharding import MIB

FILENAME = Column("filename", FeatureKind.BYTES, is_text=True)
SIZE = Column("size", FeatureKind.INT)
LABEL = Column("label", FeatureKind.BYTES, is_text=True)
# A worker holds two batches, and each file of them once. What a batch costs of its own, a
# millisecond, is 20 us an image of 75 KB; at 8 MiB an image costs 8 us less.
_BATCH_BYTES = 4 * MIB
# What quarantine keeps of a file, which stays where it is: enough to tell what it is.
_KEPT_BYTES = 64

# A file's bytes to what its row holds; None where it is blank.
Convert = Callable[[bytes], bytes | None]


@dataclass(frozen=True)
class Listed:
    """What is known of each file before it is read, in the order of the shards.

    Attributes:
        paths: Where each is.
        names: Its path below the input; binary [files].
        sizes: In bytes; int64 [files].
        digests: sha256 of each file; binary [files].
        states: The `file_state` of each; int64 [files].
    """

    paths: tuple[str, ...]
    names: pa.BinaryArray
    sizes: np.ndarray
    digests: pa.BinaryArray
    states: np.ndarray

    @classmethod
    def of(cls, files: Sequence[FoundFile], scanned: Sequence[Content]) -> "Listed":
        """What a look at each of the files gave."""
        return cls(
            paths=tuple(file.path for file in files),
            names=pa.array([os.fsencode(file.name) for file in files], pa.binary()),
            sizes=np.array([one.size for one in scanned], np.int64),
            digests=pa.array([one.sha256 for one in scanned], pa.binary()),
            states=np.array([one.state for one in scanned], np.int64),
        )

    def slice(self, start: int, end: int) -> "Listed":
        """What is known of some of the files; a copy, as a slice of Arrow's is pickled whole."""
        at = pa.array(range(start, min(end, len(self.paths))), pa.int64())
        some = slice(start, end)
        return Listed(
            self.paths[some],
            self.names.take(at),
            self.sizes[some],
            self.digests.take(at),
            self.states[some],
        )

    def content(self, at: int) -> Content:
        """What a file held."""
        return Content(self.digests[at].as_py(), int(self.sizes[at]), int(self.states[at]))


@dataclass(frozen=True, eq=False, kw_only=True)
class ListedFiles(Source):
    """Files of which each is a row, listed and hashed; see `Source` for its other attributes.

    Attributes:
        columns: That of the content first.
        rejected_by_scan: What is no good without being read; it follows the others.
        listed: The other files.
        max_bytes: A file of more is not read.
    """

    # Rows of the first batch at most.
    first_rows: ClassVar[int] = MAX_BATCH_ROWS

    listed: Listed
    max_bytes: int

    def cut(self, parts: int) -> list[tuple[Piece, ...]]:
        """The list of files as `parts` slices of equal length."""
        files = Rows("the list of files", self.rows)
        return cut_files([files], parts, lambda _, at, __: RowStart(at, at + 1))

    def part(self, pieces: tuple[Piece, ...]) -> tuple[Source, tuple[Piece, ...]]:
        """See `Source`; the files are numbered from the first of the pieces."""
        first = pieces[0].start if pieces else 0
        end, read = pieces[-1].end if pieces else 0, len(self.listed.paths)
        source = replace(
            super().part(pieces)[0],
            rejected_by_scan=self.rejected_by_scan[max(0, first - read) : max(0, end - read)],
            listed=self.listed.slice(first, end),  # type: ignore[call-arg]
        )
        return source, tuple(
            replace(piece, start=piece.start - first, end=piece.end - first) for piece in pieces
        )

    def read(self, pieces: Sequence[Piece]) -> Iterator[Batch]:
        """The files of the slices, about 4 MiB in a batch unless one is larger."""
        most = self.first_rows
        for piece in pieces:
            made = RowsMade()
            for at in range(piece.start, piece.end):
                self._take(at, made)
                if len(made) >= most or made.size >= _BATCH_BYTES:
                    yield self._batch(made)
                    made, most = RowsMade(), MAX_BATCH_ROWS
            if len(made):
                yield self._batch(made)

    def _take(self, at: int, made: RowsMade) -> None:
        """Read one file, or what was rejected before, into a batch."""
        read = len(self.listed.paths)
        if at >= read:
            made.rejected.append(self.rejected_by_scan[at - read])
            return
        path, content, data = self.listed.paths[at], self.listed.content(at), b""
        try:
            if content.size > self.max_bytes:
                raise UnfitFileError(too_large(content.size, self.max_bytes))
            data = read_whole(path, content)
            self._add(at, data, made)
        except UnfitFileError as error:
            made.rejected.append(rejected_file(path, str(error), data[:_KEPT_BYTES]))

    @abstractmethod
    def _add(self, at: int, data: bytes, made: RowsMade) -> None:
        """Add the row that a file's bytes make; UnfitFileError says why they make none."""

    @abstractmethod
    def _features(self, made: RowsMade, places: pa.Array) -> dict[str, pa.Array]:
        """All columns but the first, by name."""

    def _batch(self, made: RowsMade) -> Batch:
        places = pa.array(made.places, pa.int64())
        _, *others = self.columns
        found = self._features(made, places)
        arrays = [pa.array(made.contents, pa.binary()), *(found[column.name] for column in others)]
        table = batch_of(self.columns, arrays)
        digests = self.listed.digests.take(places)
        return Batch(table, tuple(made.rejected), made.blank, digests=digests)


@dataclass(frozen=True, eq=False, kw_only=True)
class FileSource(ListedFiles):
    """Documents or binary files; `convert` makes their content a row's.

    The columns are that of the content, then some of `FILENAME`, `SIZE` and `LABEL`.
    """

    convert: Convert

    def _add(self, at: int, data: bytes, made: RowsMade) -> None:
        content = self.convert(data)
        if content is None:
            made.blank += 1
        else:
            made.add(at, content)

    def _features(self, made: RowsMade, places: pa.Array) -> dict[str, pa.Array]:
        names = self.listed.names.take(places)
        found = {
            FILENAME.name: names,
            SIZE.name: pa.array(self.listed.sizes[made.places], pa.int64()),
        }
        if LABEL in self.columns:
            folders = [
                name.partition(b"/")[0] if b"/" in name else None for name in names.to_pylist()
            ]
            found[LABEL.name] = pa.array(folders, pa.binary())
        return found


def too_large(size: int, most: int) -> str:
    """Why a file is not read."""
    return f"has {size:,} bytes, more than {most:,}; not read"


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
    spread: Spread,
    *,
    max_bytes: int,
    convert: Convert,
) -> FileSource:
    """List and hash files; no content is looked at.

    `columns` are that of the content, and which of `FILENAME` and `SIZE` follow. `convert` makes a
    file's content a row's, and must be picklable.
    """
    tree = find_tree(inputs, STRAY, "file")
    names = [os.fsencode(file.name) for file in tree.files]
    files = [tree.files[at] for at in shuffled(names, options.shuffle_seed)]
    rejected: dict[str, str] = dict(sorted(tree.refused.items()))
    digest = hashlib.sha256(kind.encode())
    kept: dict[FoundFile, Content] = {}
    looks = scan_each(partial(_look, max_bytes=max_bytes), [file.path for file in files], spread)
    for file, found in zip(files, looks, strict=True):
        if isinstance(found, str):
            rejected[file.path] = found
        else:
            kept[file] = found
            digest.update(b"\0" + os.fsencode(file.name) + b"\0" + found.sha256)
    rows = tuple(rejected_file(path, reason) for path, reason in rejected.items())
    for row in rows:
        digest.update(b"\0rejected\0" + os.fsencode(str(row)))
    listed = Listed.of(list(kept), list(kept.values()))
    labels = (LABEL,) if options.folder_label else ()
    return FileSource(
        kind=kind,
        columns=as_named((*columns, *labels), [file.name for file in kept]),
        fingerprint=digest.hexdigest(),
        rows=len(kept) + len(rows),
        files=listed.paths or tuple(row.file for row in rows),
        input_bytes=int(listed.sizes.sum()),
        ignored=tuple(tree.ignored),
        rejected_by_scan=rows,
        listed=listed,
        max_bytes=max_bytes,
        convert=convert,
    )


def _look(path: str, max_bytes: int) -> Content | str:
    """Size and digest of a file, or what is wrong with it."""
    try:
        found = scan_file(path, max_bytes)
    except DataError as error:
        # A failing disk or a server's refusal is not the file's fault.
        if isinstance(path, RemoteFile) or not isinstance(error.__cause__, PermissionError):
            raise
        return "cannot be opened (Permission denied); grant read permission"
    return too_large(found.size, max_bytes) if found.size > max_bytes else found
