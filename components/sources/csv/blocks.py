"""Blocks of whole rows of delimited text, the lines in them, and a walk from row to row.

A line ends at LF, CRLF or a lone CR; a row is a line, or several where quotes hold line ends.
A field that begins with a quote must be closed by a quote that a delimiter, a row end or the
end of the text follows; a doubled quote inside is one quote. A quote inside a field that does
not begin with one is only a character. A row with a field that is never closed ends with the
physical line on which that field begins, and is `broken`.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

import numpy as np

LF, CR, QUOTE = b'\n\r"'
_LINE_END = re.compile(rb"\r\n?|\n")

# What stands for the end of a field that is beyond the text, or that is not closed properly.
_UNKNOWN, _BROKEN = -1, -2


@dataclass(frozen=True, eq=False)
class RowBlock:
    """Whole rows of a file.

    Attributes:
        offset: Where `data` begins in the file, in bytes.
        data: The rows' bytes, line ends included.
        rows: Number of rows, blank ones included.
        quoted: Whether there is any quote in `data`.
        ends: int64 [rows], where each row ends in `data`, its line end included; None where
            every line is a row and nobody has had to look yet.
        by_parity: Whether the parity of quotes tells what is inside quotes.
        broken_at: Where in `data` a quote opens that is not closed properly, or a line goes on
            that is too long; the block then is that one row. None for all other blocks.
        left_out: Bytes of that row after `data`.
        find_ends: Finds where the line ends of text end, one past each.
    """

    offset: int
    data: bytes
    rows: int
    quoted: bool = False
    ends: np.ndarray | None = None
    by_parity: bool = True
    broken_at: int | None = None
    left_out: int = 0
    find_ends: Callable[[bytes], np.ndarray] = field(default_factory=lambda: line_ends)

    @property
    def end(self) -> int:
        """One past the last byte, in the file."""
        return self.offset + len(self.data) + self.left_out

    @property
    def lines(self) -> int:
        """Number of physical lines."""
        return count_lines(self.data) if self.quoted else self.rows

    def row_ends(self) -> np.ndarray:
        """`ends`, found now if nobody has looked yet."""
        return (
            self.ends if self.ends is not None else with_end(self.find_ends(self.data), self.data)
        )

    def head(self, rows: int) -> "RowBlock":
        """The first `rows` rows, or all, without a look at all the others."""
        size = 2 * (rows + 1) * len(self.data) // self.rows
        if self.ends is not None or size >= len(self.data):
            return self.slice_rows(0, min(rows, self.rows))
        ends = self.find_ends(self.data[:size])
        if len(ends) <= rows:  # the last is perhaps the first half of CRLF
            return self.slice_rows(0, rows)
        return RowBlock(self.offset, self.data[: int(ends[rows - 1])], rows, ends=ends[:rows])

    def by_cell(self, size: int) -> Iterator["RowBlock"]:
        """The rows in runs of those that begin in the same `size` bytes of the file."""
        block = self
        while block.rows > 1 and block.end > (boundary := block.offset // size * size + size):
            rows = 1 + int(np.searchsorted(block.row_ends(), boundary - block.offset))
            if rows >= block.rows:
                break
            yield block.slice_rows(0, rows)
            block = block.slice_rows(rows, block.rows)
        yield block

    def slice_rows(self, begin: int, end: int) -> "RowBlock":
        """Rows `begin` up to `end` as a block of their own."""
        ends = self.row_ends()
        first = int(ends[begin - 1]) if begin else 0
        data = self.data[first : int(ends[end - 1])]
        return RowBlock(
            self.offset + first,
            data,
            end - begin,
            quoted=self.quoted,
            ends=ends[begin:end] - first,
            by_parity=self.by_parity,
        )


def count_lines(data: bytes) -> int:
    """Number of physical lines, a last one without line end included."""
    # Half of what `data.count` costs.
    lines = int(np.count_nonzero(np.frombuffer(data, np.uint8) == LF))
    if b"\r" in data:
        lines += data.count(b"\r") - data.count(b"\r\n")
    return lines + (not data.endswith((b"\n", b"\r")) if data else 0)


def line_breaks(data: bytes) -> int:
    """Number of line ends in `data`, which does not end within a CRLF."""
    return count_lines(data + b"_") - 1


def line_ends(data: bytes) -> np.ndarray:
    """Where the line ends of `data` end: int64, ascending, one past each LF, CRLF or lone CR."""
    values = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(values == LF) + 1
    if b"\r" not in data:
        return ends
    returns = np.flatnonzero(values == CR) + 1
    following = values[np.minimum(returns, len(values) - 1)]  # Of a last CR: itself.
    return np.sort(np.concatenate([ends, returns[following != LF]]))


def with_end(ends: np.ndarray, data: bytes) -> np.ndarray:
    """`ends`, and the end of `data` where its last line has no line end."""
    covered = len(ends) and ends[-1] == len(data)
    return ends if covered or not data else np.append(ends, len(data))


class _Row(NamedTuple):
    """Where a row begins and ends, and where a quote opens in it that is not closed, or None."""

    start: int
    end: int
    broken_at: int | None


class RowWalker:
    """Finds rows and fields by walking from one field to the next, where quotes do not pair up."""

    def __init__(self, delimiter: str) -> None:
        self._delimiter = delimiter.encode()
        self._field_end = re.compile(b"[" + re.escape(self._delimiter) + b"\r\n]")

    def walk(
        self, text: bytes, begin: int, *, offset: int, stretch: int, last: bool
    ) -> list[RowBlock]:
        """The whole rows from `begin` on, until `stretch` bytes are behind.

        Args:
            text: The bytes.
            begin: Where a row begins in them.
            offset: Where `text` begins in the file, in bytes.
            stretch: Stop at the first row end after so many bytes.
            last: Whether the last row ends with `text`; else there may be more of it.

        Returns:
            Blocks without gaps, each of good rows or of one broken one.
        """
        rows: list[_Row] = []
        position = begin
        while position < len(text) and position - begin < stretch:
            row = self._row(text, position, last=last)
            if row is None:
                break
            rows.append(row)
            position = row.end
        runs = groupby(rows, key=lambda row: None if row.broken_at is None else row.start)
        return [_block(text, offset, list(run)) for _, run in runs]

    def fields(self, row: bytes) -> list[bytes]:
        """The fields of one row that is not broken, without quotes and without the line end."""
        fields, start = [], 0
        while True:
            end = self._field(row, start, last=True)
            text = row[start:end]
            fields.append(text[1:-1].replace(b'""', b'"') if text[:1] == b'"' else text)
            if row[end : end + 1] != self._delimiter:
                return fields
            start = end + 1

    def _row(self, text: bytes, start: int, *, last: bool) -> _Row | None:
        """The row at `start`; None where it goes on beyond the text."""
        position = start
        while True:
            end = self._field(text, position, last=last)
            if end == _UNKNOWN:
                return None
            broken_at = position if end == _BROKEN else None
            if broken_at is not None or text[end : end + 1] != self._delimiter:
                end_of_row = _end_of_line(text, max(position, end), last=last)
                return None if end_of_row is None else _Row(start, end_of_row, broken_at)
            position = end + 1

    def _field(self, text: bytes, start: int, *, last: bool) -> int:
        """Where the field at `start` ends: at a delimiter, a line end or the end of the text."""
        end = start
        if text[start : start + 1] == b'"':
            end = text.find(b'"', start + 1)
            while end >= 0 and text[end + 1 : end + 2] == b'"':
                end = text.find(b'"', end + 2)
            if end < 0:
                return _BROKEN if last else _UNKNOWN
            end += 1
        if end == len(text):
            return end if last else _UNKNOWN
        match = self._field_end.search(text, end)
        if end > start and (match is None or match.start() > end):
            return _BROKEN
        if match is None:
            return len(text) if last else _UNKNOWN
        return match.start()


def _block(text: bytes, offset: int, rows: list[_Row]) -> RowBlock:
    """Successive good rows, or one broken row."""
    start, broken_at = rows[0].start, rows[0].broken_at
    return RowBlock(
        offset + start,
        text[start : rows[-1].end],
        len(rows),
        quoted=True,
        ends=np.array([row.end for row in rows], np.int64) - start,
        by_parity=False,
        broken_at=None if broken_at is None else broken_at - start,
    )


def _end_of_line(text: bytes, position: int, *, last: bool) -> int | None:
    """One past the first line end from `position` on; None if it is beyond the text."""
    match = _LINE_END.search(text, position)
    if match is None:
        return len(text) if last else None
    if match.end() == len(text) and match[0] == b"\r" and not last:
        return None  # Perhaps the first half of CRLF.
    return match.end()
