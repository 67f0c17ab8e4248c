"""Files in cells of equal size, so that several processes can hash and scan one.

Where cells begin does not depend on how many processes there are, nor does a digest of their
digests.
"""

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

from penstock.components.tfrecord.compression import Readable
from penstock.components.tfrecord.sharding import MIB

CELL_BYTES = 8 * MIB
# Of a range: some tenths of a second of work, and what is read beyond its end does not show.
_RANGE_CELLS = 8


class ByteRange(NamedTuple):
    """Some cells of a file.

    Attributes:
        path: The file.
        start: First byte, the beginning of a cell.
        end: One past the last byte, that of a cell or of the file.
    """

    path: str
    start: int
    end: int


def byte_ranges(path: str, size: int) -> list[ByteRange]:
    """All of a file of `size` bytes, in order; one range of an empty file."""
    step = _RANGE_CELLS * CELL_BYTES
    return [ByteRange(path, at, min(at + step, size)) for at in range(0, max(1, size), step)]


def tree_digest(cells: Sequence[bytes]) -> bytes:
    """Digest of a file from those of its cells; of a single cell the sha256 itself."""
    return cells[0] if len(cells) == 1 else hashlib.sha256(b"".join(cells)).digest()


class CellStream:
    """A stream that stands where a cell begins; hashes what is read of it, up to byte `end`."""

    def __init__(self, stream: Readable, start: int, end: int) -> None:
        self._stream = stream
        self._left = end - start
        self._hashes: list[hashlib._Hash] = []
        self._room = 0

    def read(self, size: int, /) -> bytes:
        """The next `size` bytes."""
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
        """The sha256 of each cell; what is left of them is read now."""
        while self._left and self.read(min(self._left, CELL_BYTES)):
            pass
        return tuple(each.digest() for each in self._hashes)
