"""The content of files: one digest over many, and whether one is still as it was."""

import hashlib
import os
from collections.abc import Iterable
from typing import BinaryIO

from penstock.components.errors import DataError
from penstock.components.files.spool import local_path
from penstock.components.tfrecord.sharding import MIB

_HASH_BLOCK_BYTES = 8 * MIB

# What a user may do about a file without rows; all kinds have the option.
EMPTY_ADVICE = "take it away, or set `allow_empty` to pass over such files"


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


def hash_file(path: str) -> tuple[bytes, int]:
    """sha256 of a file's content, and its size in bytes.

    Raises:
        DataError: It cannot be opened; names it.
    """
    with open_data(path) as file:
        stream = HashingStream(file)
        while stream.read(_HASH_BLOCK_BYTES):
            pass
    return stream.digest(), stream.size


class HashingStream:
    """Hashes and counts what is read from a file.

    Attributes:
        size: Bytes read.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._digest = hashlib.sha256()
        self.size = 0

    def read(self, size: int, /) -> bytes:
        """The next `size` bytes."""
        data = self._stream.read(size)
        self._digest.update(data)
        self.size += len(data)
        return data

    def digest(self) -> bytes:
        """sha256 of all that was read."""
        return self._digest.digest()


def open_data(path: str) -> BinaryIO:
    """Open a data file for reading; of a remote one its local copy.

    Raises:
        DataError: It cannot be; names it and the reason.
    """
    try:
        return open(local_path(path), "rb")
    except OSError as error:
        raise DataError(f"{path}: cannot be opened ({error.strerror})") from error


def check_size(stream: BinaryIO, size: int, path: str) -> None:
    """Refuse an open file that is not as long as it was when the source was opened.

    Raises:
        DataError: Names it and both sizes.
    """
    now = os.fstat(stream.fileno()).st_size
    if now != size:
        raise DataError(
            f"{path}: has {now} bytes and had {size} when it was opened first; "
            "it was changed in between, start again"
        )
