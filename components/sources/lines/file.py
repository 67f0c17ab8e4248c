"""Files of lines: one pass that counts and hashes, and the lines of a piece in blocks.

A line ends at LF; a CR before it belongs to the line's end.
"""

import codecs
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import BinaryIO

from penstock.components.errors import DataError
from penstock.components.files.content import HashingStream, file_size, open_data
from penstock.components.sources.base import Piece
from penstock.components.sources.cutting import RowStart
from penstock.components.sources.opened_files import OpenedFile
from penstock.components.tfrecord.sharding import MIB

_SCAN_BYTES = 4 * MIB
# Empty lines take some forty times their bytes in arrays.
_BLOCK_BYTES = MIB
_SNIFFED_BYTES = 512


@dataclass(frozen=True)
class LineBlock:
    """Whole lines of a file; or one line that is too long, cut.

    Attributes:
        offset: Where `data` begins in the file, in bytes.
        first_line: Number of the first line within the file, counted from 1.
        data: The lines, each with its end.
        is_cut: Whether it is the beginning of one line that is too long.
    """

    offset: int
    first_line: int
    data: bytes
    is_cut: bool = False


@dataclass(frozen=True, eq=False, kw_only=True)
class LineFile(OpenedFile):
    """A file as the scan found it; a row is a line.

    Attributes:
        data_start: First byte after a byte order mark.
        has_data: Whether any line is not blank.
        checkpoints: (byte, number) of lines from 1, ascending; the last is the file's end.
    """

    data_start: int
    has_data: bool
    checkpoints: tuple[tuple[int, int], ...]

    @property
    def units(self) -> int:
        """Bytes of data."""
        return self.content.size - self.data_start

    def for_reading(self) -> "LineFile":
        """See `OpenedFile`."""
        return replace(self, checkpoints=())

    def row_start(self, at: int) -> RowStart:
        """The first line that starts at byte `at` of the data or after it, or the end."""
        wanted = self.data_start + at
        byte, line = max(point for point in self.checkpoints if point[0] <= wanted)
        last = b"\n"
        with open_data(self.path) as stream:
            stream.seek(byte)
            while byte < wanted and (block := stream.read(min(_SCAN_BYTES, wanted - byte))):
                byte, line, last = byte + len(block), line + block.count(b"\n"), block[-1:]
            if last != b"\n":  # Within a line: go to its end.
                while last != b"\n" and (block := stream.readline(_SCAN_BYTES)):
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
    with open_data(path) as file:
        head = file.read(_SNIFFED_BYTES)
        if problem := check_head(head):
            raise DataError(f"{path}: {problem}")
        start = len(codecs.BOM_UTF8) if head.startswith(codecs.BOM_UTF8) else 0
        file.seek(0)
        stream = HashingStream(file)
        stream.read(start)
        byte, line, open_line, has_data = start, 1, 0, False
        checkpoints = [(byte, line)]
        while block := stream.read(_SCAN_BYTES):
            has_data = has_data or bool(block.strip())
            last = block.rfind(b"\n") + 1
            # What begins a line here may be the end of one that began in the block before.
            first = block.find(b"\n") + 1
            longest = max(open_line + (first or len(block)), len(block) - last)
            if max_row_bytes is not None and longest > max_row_bytes:
                raise DataError(
                    f"{path}: line {line} or one soon after it is longer than `max_row_bytes` "
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
        if file_size(file) != byte:
            raise DataError(f"{path}: grew while it was read; start again when it is complete")
    return LineFile(
        path=path,
        content=stream.content(),
        rows=line - 1,
        data_start=start,
        has_data=has_data,
        checkpoints=tuple(checkpoints),
    )


def _tail(path: str, start: int) -> bytes:
    """All from a byte to the file's end: its last line, which no line end closes."""
    with open_data(path) as stream:
        stream.seek(start)
        return stream.read()


def read_blocks(stream: BinaryIO, piece: Piece, max_row_bytes: int) -> Iterator[LineBlock]:
    """The lines of a piece of an open file, in order; no more than `max_row_bytes` of one is held.

    Raises:
        DataError: The file ends before the piece.
    """
    byte, line = piece.start, piece.first_line
    stream.seek(byte)
    while byte < piece.end:
        data = stream.read(min(_BLOCK_BYTES, piece.end - byte))
        whole = data.rfind(b"\n") + 1
        is_last = byte + len(data) == piece.end
        if whole < len(data) and not is_last:
            data += stream.readline(max(0, max_row_bytes + 2 - (len(data) - whole)))
            is_last = byte + len(data) == piece.end
        if not data:
            raise DataError(f"{piece.file}: ends at byte {byte}, expected {piece.end} bytes")
        if is_last or data.endswith(b"\n"):
            whole = len(data)
        if whole:
            yield LineBlock(byte, line, data[:whole])
            line += data.count(b"\n", 0, whole)
        if whole < len(data):
            yield LineBlock(byte + whole, line, data[whole:], is_cut=True)
            byte, line = byte + len(data) + _skip_line(stream), line + 1
        else:
            byte += whole


def _skip_line(stream: BinaryIO) -> int:
    """Read to the end of the line; how many bytes that was."""
    size = 0
    while part := stream.readline(_BLOCK_BYTES):
        size += len(part)
        if part.endswith(b"\n"):
            break
    return size
