"""Opens and hashes data files, and detects changes while they are read."""

import functools
import hashlib
import io
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import BinaryIO, NamedTuple

from penstock.components.errors import DataError, reason
from penstock.components.files.remote import RemoteFile, is_read_in_parts, remote_file
from penstock.components.files.remote_range import open_parts
from penstock.components.files.retry import RetryingFile
from penstock.components.files.spool import local_path
from penstock.components.tfrecord.checked import disk_state
from penstock.components.tfrecord.sharding import MIB

_HASH_BLOCK_BYTES = 8 * MIB

# Advice for a file without rows, the same for all kinds.
EMPTY_ADVICE = "remove it, or set `allow_empty` to skip such files"


def fingerprint(kind: str, files: Iterable[tuple[str, bytes]]) -> str:
    """Returns one digest (hex) of a kind, and of the paths and sha256 of files, in the given order.

    Paths are relative to the files' common folder, so a moved folder has the same digest.
    """
    files = list(files)
    root = os.path.commonpath([os.path.dirname(os.path.abspath(path)) for path, _ in files])
    digest = hashlib.sha256(kind.encode())
    for path, content in files:
        name = os.path.relpath(os.path.abspath(path), root)
        digest.update(b"\0" + name.encode("utf-8", "surrogateescape") + b"\0" + content)
    return digest.hexdigest()


class Content(NamedTuple):
    """Digest (sha256) and size in bytes of a file, and its `file_state` before it was read."""

    digest: bytes
    size: int
    state: int


def hash_file(path: str) -> Content:
    """Reads and hashes a file to its end; raises DataError if it cannot be opened."""
    with open_data(path) as file:
        return HashingStream(file).read_out()


class HashingStream:
    """Stream that hashes and counts the bytes read; `on_bytes` receives the size of each read."""

    def __init__(
        self, stream: BinaryIO, on_bytes: Callable[[int], None] = lambda count: None
    ) -> None:
        self._stream = stream
        self._on_bytes = on_bytes
        self._state = file_state(stream)
        self._digest = hashlib.sha256()
        self._size = 0

    def read(self, size: int, /) -> bytes:
        data = self._stream.read(size)
        self._digest.update(data)
        self._size += len(data)
        self._on_bytes(len(data))
        return data

    def read_out(self) -> Content:
        while self.read(_HASH_BLOCK_BYTES):
            pass
        return self.content()

    def content(self) -> Content:
        return Content(self._digest.digest(), self._size, self._state)


def look(path: str) -> tuple[int, int]:
    """Returns size in bytes and `file_state` of a file; raises DataError if it cannot be opened."""
    with open_data(path) as stream:
        return file_size(stream), file_state(stream)


def scanned_content(path: str, before: tuple[int, int], digest: bytes) -> Content:
    """Returns a file's `Content`; DataError unless its size and state are still `before`."""
    if look(path) != before:
        raise DataError(f"{path}: was changed while it was read; start again when it is complete")
    return Content(digest, *before)


def open_data(path: str) -> BinaryIO:
    """Opens a data file: in parts if it is in a store, as a local copy if at another address.

    Transient errors of opening and reading are retried (`retry.py`); if they persist, a DataError
    is raised.
    """
    if is_read_in_parts(path):
        return open_parts(path if isinstance(path, RemoteFile) else remote_file(path))
    try:
        return io.BufferedReader(RetryingFile(local_path(path), path))
    except OSError as error:
        raise DataError(f"{path}: cannot be opened ({reason(error)})") from error


def file_size(stream: BinaryIO) -> int:
    """Returns the size in bytes of an open file, and rewinds it."""
    size = stream.seek(0, io.SEEK_END)
    stream.seek(0)
    return size


def file_state(stream: BinaryIO) -> int:
    """Returns a number that changes when an open file is written to or replaced.

    The number is 0 for a file that is read from a store, because only the listed version is ever
    read. For a local file, it depends on ctime too, which an editor cannot preserve, unlike size
    and mtime.
    """
    try:
        return hash(disk_state(stream.fileno()))
    except io.UnsupportedOperation:
        return 0


@contextmanager
def open_unchanged(path: str, content: Content) -> Iterator[BinaryIO]:
    """Opens a scanned file; raises DataError if it changed since the scan or in the `with` block.

    Digests are compared only if the file's state differs, for example after a change of
    permissions. They are never compared for a remote file, of which only one version is ever read.
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
        if content.digest != _digest_of(path, now):
            raise DataError(
                f"{path}: its content was changed since it was opened first; start again"
            )


@functools.lru_cache(maxsize=1024)
def _digest_of(path: str, state: int) -> bytes:
    """Returns a file's digest, computed once per process and state.

    On some mounts, the state changes although the file does not. Without the cache, the file would
    then be hashed again for each piece that is read.
    """
    del state
    return hash_file(path).digest
