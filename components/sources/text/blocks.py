"""Blocks of whole rows of text, and the splitter that finds them in a stream of bytes.

A row is one line, or several lines if line ends are inside quotes (`rows.py`).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from penstock.components.errors import DataError
from penstock.components.sources.base import RejectedRow
from penstock.components.sources.text.rows import count_line_ends, delimited_rows, line_ends
from penstock.components.tfrecord.compression import Readable
from penstock.components.tfrecord.sharding import MIB

# Number of bytes of an overlong line that quarantine keeps.
KEPT_BYTES = 4096
_SKIPPED_BYTES = MIB
# A block of lines is small, because the arrays for a block of empty lines take about forty times
# the bytes of the block.
LINE_BLOCK_BYTES = MIB
_BROKEN_QUOTE = (
    "unbalanced quote: the field that opens here is not closed by a quote that a delimiter or a "
    "line end follows; a quote within a quoted field must be doubled"
)


class RowPlace(NamedTuple):
    """Place of a block's first row: file, row number and physical line, from 1."""

    file: str
    row: int
    line: int

    def after(self, block: "RowBlock") -> "RowPlace":
        return RowPlace(self.file, self.row + block.rows, self.line + block.lines)


@dataclass(frozen=True, eq=False)
class RowBlock:
    offset: int  # Offset in the file at which `data` begins
    data: bytes  # Bytes of the rows, including line ends
    ends: np.ndarray  # int64 [rows], including blank rows: end of each row, as an index in `data`
    quoted: bool = False  # Whether `data` may contain quotes, so that rows may have several lines
    # For a block with one broken row: index in `data` of the unclosed quote, or 0 if the row is too
    # long. None for a block with good rows.
    broken_at: int | None = None
    left_out: int = 0  # Number of bytes of the broken row that `data` leaves out.

    @property
    def rows(self) -> int:
        return len(self.ends)

    @cached_property
    def starts(self) -> np.ndarray:
        """int64 [rows], the start of each row in `data`."""
        return np.concatenate([[0], self.ends[:-1]])

    @property
    def end(self) -> int:
        """One past the last byte, as an offset in the file."""
        return self.offset + len(self.data) + self.left_out

    @property
    def lines(self) -> int:
        if not (self.quoted and self.rows):
            return self.rows
        return count_line_ends(self.data) + (not self.data.endswith((b"\n", b"\r")))

    def slice(self, begin: int, end: int, broken_at: int | None = None) -> "RowBlock":
        first = int(self.ends[begin - 1]) if begin else 0
        ends = self.ends[begin:end] - first
        data = self.data[first : first + int(ends[-1])] if len(ends) else b""
        return RowBlock(self.offset + first, data, ends, self.quoted, broken_at)


class _Rest:
    """The rest of a file's text: from byte `at` to `end`, or to the end of the file if None."""

    def __init__(self, stream: Readable, at: int, end: int | None, path: str) -> None:
        self._stream, self._end, self._path = stream, end, path
        self.at = at

    @property
    def is_read(self) -> bool:
        return self.at == self._end

    def read(self, size: int) -> bytes:
        """Returns the next `size` bytes (none if it is negative), fewer at the end."""
        size = max(0, size if self._end is None else min(size, self._end - self.at))
        data = self._stream.read(size)
        self.at += len(data)
        if len(data) < size:
            if self._end is not None:
                raise DataError(
                    f"{self._path}: ended {self._end - self.at} bytes early; it was changed while "
                    "it was read, start again when it is complete"
                )
            self._end = self.at
        return data


@dataclass(frozen=True)
class Splitter:
    """Finds the rows of a stream of bytes; picklable.

    Attributes:
        block_bytes: Usual size of a block; a block with a larger row is larger.
        max_row_bytes: Maximum length of a row, which bounds the memory.
        delimiter: Delimiter of the fields of delimited text; None if each line is a row.
    """

    block_bytes: int
    max_row_bytes: int
    delimiter: str | None = None

    @property
    def _most(self) -> int:
        """Number of bytes after which a row that has not ended is too long."""
        return self.max_row_bytes + (2 if self.delimiter is None else 0)

    def blocks(self, buffer: bytes, offset: int, *, last: bool) -> list[RowBlock]:
        """Returns adjacent blocks, each with good rows or with one broken row."""
        ends, broken = line_ends(buffer, at_cr=False, last=last), dict[int, int]()
        if self.delimiter is not None:
            ends, broken = delimited_rows(buffer, self.delimiter, last=last)
        quoted = self.delimiter is not None and b'"' in buffer
        whole = RowBlock(offset, buffer, ends, quoted)
        blocks, first = [], 0
        for row in (*broken, len(ends)):
            if row > first:
                blocks.append(whole.slice(first, row))
            if row in broken:
                start = int(ends[row - 1]) if row else 0
                blocks.append(whole.slice(row, row + 1, broken_at=broken[row] - start))
            first = row + 1
        return blocks

    def split(self, stream: Readable, start: int, end: int | None, path: str) -> Iterator[RowBlock]:
        """Yields the rows of a file from byte `start`, the position of `stream`, up to `end`.

        `start` and `end` are starts of rows, or `end` is the end of the file (None if unknown). A
        line that is too long becomes a block with only the line's first bytes.
        """
        rest = _Rest(stream, start, end, path)
        usual = min(self.block_bytes, self._most)
        offset, buffer, window = start, b"", usual
        while buffer or not rest.is_read:
            buffer += rest.read(window - len(buffer))
            blocks = self.blocks(buffer, offset, last=rest.is_read)
            if blocks:
                buffer = buffer[blocks[-1].end - offset :]
            elif len(buffer) < self._most:
                window = min(2 * window, self._most)
                continue
            elif self._may_end_in_crlf(buffer, rest):
                window = len(buffer) + 1
                continue
            else:
                block, buffer = self._long_row(buffer, offset, rest)
                blocks = [block]
            yield from blocks
            offset, window = blocks[-1].end, usual

    def _may_end_in_crlf(self, buffer: bytes, rest: _Rest) -> bool:
        return self.delimiter is not None and buffer.endswith(b"\r") and not rest.is_read

    def _long_row(self, buffer: bytes, offset: int, rest: _Rest) -> tuple[RowBlock, bytes]:
        """Returns the overlong or broken first row of a full buffer, and the bytes after it."""
        first = self.blocks(buffer, offset, last=True)[0]
        if first.broken_at is not None and len(first.data) < len(buffer):
            return first, buffer[len(first.data) :]
        line_end = re.compile(rb"\r\n?|\n" if self.delimiter is not None else rb"\n")
        following = b""
        while not rest.is_read:
            part = rest.read(_SKIPPED_BYTES)
            if self._may_end_in_crlf(part, rest):
                part += rest.read(1)
            if match := line_end.search(part):
                following = part[match.end() :]
                break
        data = buffer[:KEPT_BYTES]
        left_out = rest.at - len(following) - offset - len(data)
        ends = np.array([len(data)], np.int64)
        return RowBlock(offset, data, ends, broken_at=0, left_out=left_out), following

    def rejected(self, block: RowBlock, place: RowPlace) -> RejectedRow:
        """Returns a broken block's row as rejected: it is too long, or has an unclosed quote."""
        if block.left_out:
            return too_long(place, block.data, self.max_row_bytes)
        line = place.line + count_line_ends(block.data[: block.broken_at])
        raw = block.data.rstrip(b"\r\n")
        return RejectedRow(place.file, place.row, line, None, _BROKEN_QUOTE, raw)


def too_long(place: RowPlace, data: bytes, max_row_bytes: int) -> RejectedRow:
    """Returns the rejected row for an overlong line, with the line's first bytes."""
    reason = f"is longer than `max_row_bytes` {max_row_bytes}; set that higher if the line is right"
    return RejectedRow(place.file, place.row, place.line, None, reason, data[:KEPT_BYTES])
