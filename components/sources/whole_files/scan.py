"""Files that are read whole: their size and digest, found by several threads."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from penstock.components.errors import DataError
from penstock.components.files.content import (
    Content,
    HashingStream,
    file_size,
    open_data,
    open_unchanged,
)
from penstock.components.files.remote import RemoteFile
from penstock.components.sources.spread import Spread
from penstock.components.tfrecord.sharding import MIB

_BLOCK_BYTES = MIB
# Reading and hashing let go of Python's lock, and what is not in the page cache is waited for.
_THREADS = 8
_FILES_AT_ONCE = 64
# Of a task on an engine: of images about 64 MiB.
_FILES_A_TASK = 1024

T = TypeVar("T")


def for_each_file(scan: Callable[[str], T], paths: Sequence[str]) -> list[T]:
    """What `scan` gives for each path, in their order; several are at work at a time."""
    chunks = [paths[at : at + _FILES_AT_ONCE] for at in range(0, len(paths), _FILES_AT_ONCE)]
    with ThreadPoolExecutor(min(_THREADS, os.cpu_count() or 1)) as pool:
        done = pool.map(lambda chunk: [scan(path) for path in chunk], chunks)
        return [file for chunk in done for file in chunk]


def scan_each(scan: Callable[[str], T], paths: Sequence[str], spread: Spread) -> list[T]:
    """What `scan`, which is picklable, gives for each path, in their order."""
    starts = range(0, len(paths), _FILES_A_TASK)
    tasks = [paths[at : at + _FILES_A_TASK] for at in starts]
    done = spread(partial(for_each_file, scan), tasks, sum(map(_size, paths)))
    return [file for task in done for file in task]


def _size(path: str) -> int:
    """Bytes of a file; 0 of what cannot be asked, which is told when it is opened."""
    if isinstance(path, RemoteFile):
        return path.size or 0
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def scan_file(path: str, max_bytes: int) -> Content:
    """What a file holds; of one of more than `max_bytes` nothing is read."""
    with open_data(path) as file:
        size, stream = file_size(file), HashingStream(file)
        try:
            while size <= max_bytes and stream.read(min(size + 1, _BLOCK_BYTES)):
                pass
        except OSError as error:
            raise _unreadable(path, error) from error
    return stream.content()._replace(size=size)


def read_whole(path: str, content: Content) -> bytes:
    """All bytes of a file; DataError if it cannot be read, or is not what it was."""
    with open_unchanged(path, content) as stream:
        try:
            return stream.read()
        except OSError as error:
            raise _unreadable(path, error) from error


def _unreadable(path: str, error: OSError) -> DataError:
    return DataError(f"{path}: cannot be read ({error.strerror})")
