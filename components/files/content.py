"""The content of files: one digest over many, and whether one is still as it was."""

import functools
import hashlib
import io
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import BinaryIO, NamedTuple

from penstock.components.errors import DataError
from penstock.components.files.cells import CellStream, tree_digest
from penstock.components.files.remote import RemoteFile, is_read_in_parts, remote_file
from penstock.components.files.remote_range import open_parts
from penstock.components.files.retry import RetryingFile
from penstock.components.files.spool import local_path
from penstock.components.tfrecord.sharding import MIB

_HASH_BLOCK_BYTES = 8 * MIB

# What a user may do about a file without rows; all kinds have the option.
EMPTY_ADVICE = "remove it, or set `allow_empty` to skip such files"


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


class Content(NamedTuple):
    """Size and digest of a file when it was read, and its `file_state` before."""

    sha256: bytes
    size: int
    state: int


def hash_file(path: str) -> Content:
    """Read a file to its end.

    Raises:
        DataError: It cannot be opened; names it.
    """
    with open_data(path) as file:
        stream = HashingStream(file)
        while stream.read(_HASH_BLOCK_BYTES):
            pass
    return stream.content()


class HashingStream:
    """Hashes and counts what is read from a file, and tells `on_bytes` how much each time."""

    def __init__(
        self, stream: BinaryIO, on_bytes: Callable[[int], None] = lambda count: None
    ) -> None:
        self._stream = stream
        self._on_bytes = on_bytes
        self._state = file_state(stream)
        self._digest = hashlib.sha256()
        self._size = 0

    def read(self, size: int, /) -> bytes:
        """The next `size` bytes."""
        data = self._stream.read(size)
        self._digest.update(data)
        self._size += len(data)
        self._on_bytes(len(data))
        return data

    def content(self) -> Content:
        """All that was read."""
        return Content(self._digest.digest(), self._size, self._state)


def look(path: str) -> tuple[int, int]:
    """A file's size in bytes, and its `file_state`.

    Raises:
        DataError: It cannot be opened.
    """
    with open_data(path) as stream:
        return file_size(stream), file_state(stream)


def scanned_content(path: str, before: tuple[int, int], cells: Sequence[bytes]) -> Content:
    """What a file held of which each cell was read once.

    Args:
        path: The file.
        before: What `look` said before that.
        cells: The digests of its cells, in order.

    Raises:
        DataError: It is in another state now.
    """
    if look(path) != before:
        raise DataError(f"{path}: was changed while it was read; start again when it is complete")
    return Content(tree_digest(cells), *before)


def open_data(path: str) -> BinaryIO:
    """Open a data file for reading: of a store in parts, elsewhere remote its local copy.

    What fails for a moment, opening or reading, is tried again (`retry.py`).

    Raises:
        DataError: It cannot be; names it and the reason.
    """
    if is_read_in_parts(path):
        return open_parts(path if isinstance(path, RemoteFile) else remote_file(path))
    try:
        return io.BufferedReader(RetryingFile(local_path(path), path))
    except OSError as error:
        raise DataError(f"{path}: cannot be opened ({error.strerror})") from error


def file_size(stream: BinaryIO) -> int:
    """Bytes of an open file, which stands at its beginning afterwards."""
    size = stream.seek(0, io.SEEK_END)
    stream.seek(0)
    return size


def file_state(stream: BinaryIO) -> int:
    """A number that changes when an open file is written to, or another stands in its place.

    0 of a remote one, which is read in the state in which it was listed or not at all.

    Size and time of change can be kept by whoever edits a file; the time at which the system noted
    the edit (ctime) cannot.
    """
    try:
        found = os.fstat(stream.fileno())
    except io.UnsupportedOperation:
        return 0
    return hash((found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns))


@contextmanager
def open_unchanged(path: str, content: Content) -> Iterator[BinaryIO]:
    """Open a file that was scanned; what is read in the block is what was scanned.

    Args:
        path: The file.
        content: What it held then. Digests are compared only where the state is another, as after
            a change of the file's rights; what is remote is read in one state only.

    Raises:
        DataError: It is another now, or became another while it was read; names it.
    """
    with open_data(path) as stream:
        size = file_size(stream)
        if size != content.size:
            raise DataError(
                f"{path}: has {size} bytes and had {content.size} when it was opened first; "
                "it was changed in between, start again"
            )
        yield stream
        now = file_state(stream)
        if now == content.state or isinstance(path, RemoteFile):
            return
        if content.sha256 not in _digests_of(path, now):
            raise DataError(
                f"{path}: its content was changed since it was opened first; start again"
            )


@functools.lru_cache(maxsize=1024)
def _digests_of(path: str, state: int) -> tuple[bytes, bytes]:
    """Digests of a file in some state; read once a process where a mount has states of its own."""
    del state
    with open_data(path) as file:
        size, plain = file_size(file), HashingStream(file)
        by_cell = CellStream(plain, 0, size).digests()
        return plain.content().sha256, tree_digest(by_cell)
