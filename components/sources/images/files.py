"""Image files read whole: one read, one digest."""

import hashlib
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import BinaryIO, NamedTuple

from penstock.components.errors import DataError
from penstock.components.sources.content import check_size, open_data
from penstock.components.tfrecord.sharding import MIB

# A file of more is rejected without being read: a worker holds a few whole images, and a record
# ends at 2 GiB.
MAX_FILE_BYTES = 256 * MIB
# Reading and hashing let go of Python's lock, and what is not in the page cache is waited for.
_THREADS = 8
_FILES_AT_ONCE = 64


class ScannedFile(NamedTuple):
    """A file's size in bytes and the sha256 of its content; of no content where it is too large."""

    size: int
    sha256: bytes


def scan_files(paths: Sequence[str]) -> list[ScannedFile]:
    """Size and digest of each file.

    Raises:
        DataError: One cannot be opened or read; names it.
    """
    chunks = [paths[at : at + _FILES_AT_ONCE] for at in range(0, len(paths), _FILES_AT_ONCE)]
    with ThreadPoolExecutor(min(_THREADS, os.cpu_count() or 1)) as pool:
        return [file for chunk in pool.map(_scan_chunk, chunks) for file in chunk]


def _scan_chunk(paths: Sequence[str]) -> list[ScannedFile]:
    return [_scan(path) for path in paths]


def _scan(path: str) -> ScannedFile:
    with open_data(path) as stream:
        size = os.fstat(stream.fileno()).st_size
        data = _read(stream, path) if size <= MAX_FILE_BYTES else b""
    return ScannedFile(size, hashlib.sha256(data).digest())


def read_image_file(path: str, size: int) -> bytes:
    """All bytes of a file.

    Raises:
        DataError: It cannot be read, or has no longer the size that it had.
    """
    with open_data(path) as stream:
        check_size(stream, size, path)
        return _read(stream, path)


def _read(stream: BinaryIO, path: str) -> bytes:
    try:
        return stream.read()
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from error
