"""Cuts files into cells of equal size, so that several processes can hash and scan one file.

The cells, and the digest of their digests, do not depend on the number of processes.
"""

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

from penstock.components.tfrecord.compression import Readable
from penstock.components.tfrecord.sharding import MIB

CELL_BYTES = 8 * MIB
# A range takes some tenths of a second, so the bytes read beyond its end hardly count.
_RANGE_CELLS = 8


class ByteRange(NamedTuple):
    """A run of whole cells of a file; the last one ends with the file."""

    path: str
    start: int
    end: int


def byte_ranges(path: str, size: int) -> list[ByteRange]:
    """Returns the ranges that cover a file of `size` bytes, in order; one for an empty file."""
    step = _RANGE_CELLS * CELL_BYTES
    return [ByteRange(path, at, min(at + step, size)) for at in range(0, max(1, size), step)]


def tree_digest(cells: Sequence[bytes]) -> bytes:
    """Returns a file's digest, made of its cells' digests; with one cell, that cell's digest."""
    return cells[0] if len(cells) == 1 else hashlib.sha256(b"".join(cells)).digest()


class CellStream:
    """Stream that hashes the bytes read, from the beginning of a cell up to byte `end`."""

    def __init__(self, stream: Readable, start: int, end: int) -> None:
        self._stream = stream
        self._left = end - start
        self._hashes: list[hashlib._Hash] = []
        self._room = 0

    def read(self, size: int, /) -> bytes:
        data = self._stream.read(size)
        rest = memoryview(data)[: self._left]
        self._left -= len(rest)
        while rest:
            if not self._room:
                self._hashes.append(hashlib.sha256())
                self._room = CELL_BYTES
            part, rest = rest[: self._room], rest[self._room :]
            self._hashes[-1].update(part)
            self._room -= len(part)
        return data

    def digests(self) -> tuple[bytes, ...]:
        """Reads the rest of the range and returns the sha256 of each cell."""
        while self._left and self.read(min(self._left, CELL_BYTES)):
            pass
        return tuple(each.digest() for each in self._hashes)
