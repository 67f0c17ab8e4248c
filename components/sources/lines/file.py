"""One pass over a file of lines: how many, its digest, and where work may be cut.

A line ends at LF; a CR before it belongs to the line's end.
"""

import codecs
import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass

from penstock.components.errors import DataError
from penstock.components.files.content import open_data
from penstock.components.sources.cutting import RowStart
from penstock.components.tfrecord.sharding import MIB

_BLOCK_BYTES = 4 * MIB
_SNIFFED_BYTES = 512


@dataclass(frozen=True)
class LineFile:
    """A file as the scan found it.

    Attributes:
        path: The file.
        size: Its size in bytes.
        data_start: First byte after a byte order mark.
        lines: Number of its lines.
        has_data: Whether any of them is not blank.
        sha256: Digest of the whole content.
        checkpoints: (byte, number) of lines from 1, ascending; the last is the file's end.
    """

    path: str
    size: int
    data_start: int
    lines: int
    has_data: bool
    sha256: bytes
    checkpoints: tuple[tuple[int, int], ...]

    @property
    def units(self) -> int:
        """Bytes of data."""
        return self.size - self.data_start

    def row_start(self, units: int) -> RowStart:
        """The first line that starts at byte `units` of the data or after it, or the end."""
        wanted = self.data_start + units
        byte, line = max(point for point in self.checkpoints if point[0] <= wanted)
        last = b"\n"
        with open_data(self.path) as stream:
            stream.seek(byte)
            while byte < wanted and (block := stream.read(min(_BLOCK_BYTES, wanted - byte))):
                byte, line, last = byte + len(block), line + block.count(b"\n"), block[-1:]
            if last != b"\n":  # Within a line: go to its end.
                while last != b"\n" and (block := stream.readline(_BLOCK_BYTES)):
                    byte, last = byte + len(block), block[-1:]
                line += 1
        return RowStart(byte, line, line)


def scan_lines(
    path: str,
    check_head: Callable[[bytes], str | None],
    *,
    max_row_bytes: int | None = None,
    show: Callable[[bytes], None] | None = None,
) -> LineFile:
    """Scan one file.

    Args:
        path: The file.
        check_head: Says of the first bytes what is wrong with them, if anything is.
        max_row_bytes: Longest line that is allowed; None for any.
        show: Is given whole lines from the beginning of each block, in order.

    Raises:
        DataError: It is something else than lines of text, or a line is too long.
    """
    digest = hashlib.sha256()
    with open_data(path) as stream:
        head = stream.read(_SNIFFED_BYTES)
        if problem := check_head(head):
            raise DataError(f"{path}: {problem}")
        start = len(codecs.BOM_UTF8) if head.startswith(codecs.BOM_UTF8) else 0
        stream.seek(0)
        digest.update(stream.read(start))
        byte, line, open_line, has_data = start, 1, 0, False
        checkpoints = [(byte, line)]
        while block := stream.read(_BLOCK_BYTES):
            digest.update(block)
            has_data = has_data or bool(block.strip())
            last = block.rfind(b"\n") + 1
            # What begins a line here may be the end of one that began in the block before.
            first = block.find(b"\n") + 1
            longest = max(open_line + (first or len(block)), len(block) - last)
            if max_row_bytes is not None and longest > max_row_bytes:
                raise DataError(
                    f"{path}: line {line} or one soon after it is longer than max_row_bytes "
                    f"{max_row_bytes}; set that higher if the line is right"
                )
            if last:
                if show:
                    show(block[first if open_line else 0 : last])
                line += block.count(b"\n")
                checkpoints.append((byte + last, line))
                open_line = len(block) - last
            else:
                open_line += len(block)
            byte += len(block)
        if open_line:
            line += 1
            if show:
                show(_tail(path, byte - open_line))
        checkpoints.append((byte, line))
        _check_same(path, os.fstat(stream.fileno()).st_size, byte)
    return LineFile(path, byte, start, line - 1, has_data, digest.digest(), tuple(checkpoints))


def _tail(path: str, start: int) -> bytes:
    """All from a byte to the file's end: its last line, which no line end closes."""
    with open_data(path) as stream:
        stream.seek(start)
        return stream.read()


def _check_same(path: str, size: int, read: int) -> None:
    if size != read:
        raise DataError(f"{path}: grew while it was read; start again when it is complete")
