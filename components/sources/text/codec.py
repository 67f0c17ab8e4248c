"""Compressed text as a stream: gzip, bzip2, xz and zstd, known by their first bytes."""

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Callable
from typing import Any, BinaryIO

import pyarrow as pa

from penstock.components.errors import DataError, short_error
from penstock.components.files.content import open_data
from penstock.components.tfrecord.compression import CHUNK_BYTES, Readable

_MAGIC_BYTES = 6
_DAMAGE = (EOFError, OSError, zlib.error, lzma.LZMAError, pa.ArrowException)


def _zstd(file: BinaryIO) -> pa.NativeFile:
    return pa.CompressedInputStream(pa.PythonFile(file, "r"), "zstd")


_OPENERS: dict[bytes, Callable[[Any], Any]] = {
    b"\x1f\x8b": lambda file: gzip.GzipFile(fileobj=file),
    b"BZh": bz2.BZ2File,
    b"\xfd7zXZ\x00": lzma.LZMAFile,
    b"\x28\xb5\x2f\xfd": _zstd,
}


def is_compressed(head: bytes) -> bool:
    """Returns whether a file that begins with `head` is compressed."""
    return head.startswith(tuple(_OPENERS))


class TextStream:
    """The text of a compressed file, a byte read ahead; all members or frames make one text."""

    def __init__(self, file: Readable, path: str) -> None:
        raw = io.BufferedReader(_Raw(file), CHUNK_BYTES)
        head = raw.peek(_MAGIC_BYTES)
        opener = next(one for magic, one in _OPENERS.items() if head.startswith(magic))
        self._stream = opener(raw)
        self._path = path
        self._ahead = self._read(1)

    @property
    def at_end(self) -> bool:
        """Whether all of it was read."""
        return not self._ahead

    def read(self, size: int, /) -> bytes:
        """Reads `size` bytes, fewer at the end; DataError if the file is damaged or cut."""
        if not size:
            return b""
        data = self._ahead + self._read(size - 1)
        self._ahead = self._read(1)
        return data

    def _read(self, size: int) -> bytes:
        try:
            data: bytes = self._stream.read(size)
        except _DAMAGE as error:
            raise DataError(
                f"{self._path}: its compressed data are damaged or cut ({short_error(error)}); "
                "copy or write the file again"
            ) from error
        return data


class _Raw(io.RawIOBase):
    def __init__(self, stream: Readable) -> None:
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        data = self._stream.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


def read_head(path: str, size: int) -> tuple[bytes, bool]:
    """Returns the first bytes of a file's text, and whether it is compressed."""
    with open_data(path) as file:
        head = file.read(size)
        if not is_compressed(head):
            return head, False
        file.seek(0)
        return TextStream(file, path).read(size), True
