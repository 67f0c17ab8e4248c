"""Files that are read whole: their size and digest, found by several threads."""

import hashlib
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import BinaryIO, NamedTuple, TypeVar

from penstock.components.errors import DataError
from penstock.components.files.content import check_size, open_data
from penstock.components.tfrecord.sharding import MIB

_BLOCK_BYTES = MIB
# Reading and hashing let go of Python's lock, and what is not in the page cache is waited for.
_THREADS = 8
_FILES_AT_ONCE = 64

T = TypeVar("T")


class ScannedFile(NamedTuple):
    """A file's size in bytes and the sha256 of its content; of no content where it is too large."""

    size: int
    sha256: bytes


def for_each_file(scan: Callable[[str], T], paths: Sequence[str]) -> list[T]:
    """What `scan` gives for each path, in their order; several are at work at a time."""
    chunks = [paths[at : at + _FILES_AT_ONCE] for at in range(0, len(paths), _FILES_AT_ONCE)]
    with ThreadPoolExecutor(min(_THREADS, os.cpu_count() or 1)) as pool:
        done = pool.map(lambda chunk: [scan(path) for path in chunk], chunks)
        return [file for chunk in done for file in chunk]


def scan_file(path: str, max_bytes: int) -> ScannedFile:
    """Size and digest of a file; one of more than `max_bytes` is not read.

    Raises:
        DataError: It cannot be opened or read; names it.
    """
    digest = hashlib.sha256()
    with open_data(path) as stream:
        size = os.fstat(stream.fileno()).st_size
        if size <= max_bytes:
            while block := _read(stream, path, min(size + 1, _BLOCK_BYTES)):
                digest.update(block)
    return ScannedFile(size, digest.digest())


def read_whole(path: str, size: int) -> bytes:
    """All bytes of a file.

    Raises:
        DataError: It cannot be read, or has no longer the size that it had.
    """
    with open_data(path) as stream:
        check_size(stream, size, path)
        return _read(stream, path, -1)


def _read(stream: BinaryIO, path: str, size: int) -> bytes:
    try:
        return stream.read(size)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from error
