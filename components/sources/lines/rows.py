"""Rows that are lines: a line ends at LF; a CR before it belongs to the line's end."""

import codecs
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from penstock.components.errors import DataError
from penstock.components.files.content import file_size, file_state, open_data
from penstock.components.sources.base import RejectedRow
from penstock.components.sources.csv.blocks import LF, RowBlock
from penstock.components.sources.text_files import Header, RowPlace, Splitter, first_window
from penstock.components.tfrecord.compression import Readable
from penstock.components.tfrecord.sharding import MIB

# Empty lines take some forty times their bytes in arrays.
_BLOCK_BYTES = MIB
_SNIFFED_BYTES = 512
# What quarantine keeps of a line that is too long.
_KEPT_BYTES = 4096


def read_header(path: str, check_head: Callable[[bytes], str | None]) -> Header:
    """Where the lines of a file begin: after a byte order mark.

    `check_head` says of its first bytes what is wrong with them, if anything is, for a DataError.
    """
    with open_data(path) as file:
        size, state = file_size(file), file_state(file)
        head = file.read(_SNIFFED_BYTES)
    if problem := check_head(head):
        raise DataError(f"{path}: {problem}")
    start = len(codecs.BOM_UTF8) if head.startswith(codecs.BOM_UTF8) else 0
    return Header(path, (), start, 1, size, state)


@dataclass(frozen=True)
class LineSplitter(Splitter):
    """Splits streams into blocks of lines. A line that is too long is a block, cut.

    Attributes:
        max_row_bytes: Longest line, about; no more than that of one is held.
    """

    blank = None

    max_row_bytes: int

    def split(
        self, stream: Readable, start: int, end: int, path: str, *, cell: int | None = None
    ) -> Iterator[RowBlock]:
        """See `Splitter`.

        Raises:
            DataError: The file ends before `end`.
        """
        offset, buffer, most = start, b"", self.max_row_bytes + 2  # with its end
        window = first_window(offset, cell, min(_BLOCK_BYTES, most))
        while offset < end:
            read = offset + len(buffer)
            buffer += _read(stream, min(offset + window, end) - read, read, end, path)
            is_last = offset + len(buffer) == end
            whole = len(buffer) if is_last else buffer.rfind(b"\n") + 1
            if not whole and len(buffer) < most:
                window = min(2 * window, most)
                continue
            if whole:
                data, buffer = buffer[:whole], buffer[whole:]
                rows = data.count(b"\n") + (not data.endswith(b"\n"))
                block = RowBlock(offset, data, rows, find_ends=_line_ends)
            else:
                data = buffer[:_KEPT_BYTES]
                next_line, buffer = _skip_line(stream, offset + len(buffer), end, path)
                left_out = next_line - offset - len(data)
                block = RowBlock(offset, data, 1, broken_at=0, left_out=left_out)
            yield block
            offset = block.end
            window = first_window(offset, cell, min(_BLOCK_BYTES, most))

    def guess_row_start(self, stream: Readable, most: int) -> int | None:
        """See `Splitter`; it is no guess."""
        for at in range(0, most, _BLOCK_BYTES):
            if found := stream.read(_BLOCK_BYTES).find(b"\n") + 1:
                return at + found
        return None

    def rejected(self, block: RowBlock, place: RowPlace) -> RejectedRow:
        """The one row of a block that is too long."""
        return too_long(block.data, place.file, place.line, self.max_row_bytes)


def too_long(data: bytes, path: str, line: int, max_row_bytes: int) -> RejectedRow:
    """A line that is not taken for its length."""
    reason = f"is longer than `max_row_bytes` {max_row_bytes}; set that higher if the line is right"
    return RejectedRow(path, line, line, None, reason, data[:_KEPT_BYTES])


def _skip_line(stream: Readable, start: int, end: int, path: str) -> tuple[int, bytes]:
    """Read from byte `start` to the end of the line; where the next begins, and what of it."""
    while start < end:
        part = _read(stream, min(_BLOCK_BYTES, end - start), start, end, path)
        if size := part.find(b"\n") + 1:
            return start + size, part[size:]
        start += len(part)
    return end, b""


def _read(stream: Readable, size: int, start: int, end: int, path: str) -> bytes:
    """The next `size` bytes, none where it is negative; the first is byte `start`."""
    data = stream.read(max(0, size))
    if len(data) < size:
        raise DataError(f"{path}: ends at byte {start + len(data)}, expected {end} bytes")
    return data


def _line_ends(data: bytes) -> np.ndarray:
    return np.flatnonzero(np.frombuffer(data, np.uint8) == LF) + 1
