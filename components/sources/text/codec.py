"""Compressed text as a stream: gzip, bzip2, xz and zstd, recognised by their first bytes."""

import bz2
import gzip
import io
import lzma
import re
import zlib
from collections.abc import Callable
from typing import Any, BinaryIO

import pyarrow as pa

from penstock.components.errors import DataError, short_error
from penstock.components.files.content import open_data
from penstock.components.tfrecord.compression import CHUNK_BYTES, Readable

_MAGIC_BYTES = 10
_DAMAGE = (EOFError, OSError, zlib.error, lzma.LZMAError, pa.ArrowException)


class _Stream(io.RawIOBase):
    def __init__(self, read: Callable[[int], bytes]) -> None:
        self._read = read

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        data = self._read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


class _Members:
    """Text of a bz2 or xz file's members, each of which must be whole; NULs may separate them."""

    def __init__(self, file: BinaryIO, new: Callable[[], Any]) -> None:
        self._file, self._new = file, new
        self._member = new()

    def read(self, size: int) -> bytes:
        while True:
            compressed = b""
            if self._member.eof:
                compressed = self._next_member()
                if not compressed:
                    return b""
                self._member = self._new()
            elif self._member.needs_input:
                compressed = self._file.read(CHUNK_BYTES)
                if not compressed:
                    raise EOFError("ends without its end mark")
            if data := self._member.decompress(compressed, size):
                return bytes(data)

    def _next_member(self) -> bytes:
        """Returns the first bytes after a member; empty at the end of the file."""
        begin = self._member.unused_data.lstrip(b"\0")
        while not begin and (read := self._file.read(CHUNK_BYTES)):
            begin = read.lstrip(b"\0")
        return begin


_OPENERS: dict[bytes, Callable[[Any], Any]] = {
    rb"\x1f\x8b": lambda file: gzip.GzipFile(fileobj=file),
    # BZh alone may be the beginning of a text.
    rb"BZh[1-9](1AY&SY|\x17rE8P\x90)": lambda file: _members(file, bz2.BZ2Decompressor),
    rb"\xfd7zXZ\x00": lambda file: _members(file, lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ)),
    rb"\x28\xb5\x2f\xfd": lambda file: pa.CompressedInputStream(pa.PythonFile(file, "r"), "zstd"),
}


def _members(file: BinaryIO, new: Callable[[], Any]) -> io.BufferedReader:
    return io.BufferedReader(_Stream(_Members(file, new).read), CHUNK_BYTES)


def is_compressed(head: bytes) -> bool:
    return any(re.match(magic, head) for magic in _OPENERS)


class TextStream:
    """Text of a compressed file, from all its members."""

    def __init__(self, file: Readable, path: str) -> None:
        raw = io.BufferedReader(_Stream(file.read), CHUNK_BYTES)
        head = raw.peek(_MAGIC_BYTES)
        opener = next(one for magic, one in _OPENERS.items() if re.match(magic, head))
        self._stream = opener(raw)
        self._path = path

    def read(self, size: int, /) -> bytes:
        """Reads `size` bytes, fewer at the end; raises DataError if the file is damaged or cut."""
        try:
            data: bytes = self._stream.read(size)
        except _DAMAGE as error:
            raise DataError(
                f"{self._path}: its compressed data cannot be read ({short_error(error)}); if they "
                "are damaged or cut, copy or write the file again"
            ) from error
        return data


def read_head(path: str, size: int) -> tuple[bytes, bool]:
    """Returns the first bytes of a file's text, and whether it is compressed."""
    with open_data(path) as file:
        head = file.read(size)
        if not is_compressed(head):
            return head, False
        file.seek(0)
        return TextStream(file, path).read(size), True
