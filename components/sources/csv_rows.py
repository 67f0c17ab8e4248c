"""Where the rows of delimited text begin and end: blocks of whole rows out of a stream of bytes.

Flows in: the bytes of a file from one row start to another. Flows out: `RowBlock`s that
cover them without gap or overlap, each with its exact number of rows. The planner counts
and cuts with them, the workers parse them; so both see the same rows by construction.

A row ends at LF, CRLF or a lone CR outside quotes. A field that begins with a quote must be
closed by a quote that a delimiter, a row end or the end of the file follows; a doubled quote
inside is one quote. A quote inside a field that does not begin with one is only a character.

Almost all text keeps to that strictly, and there the parity of quotes tells inside from
outside; one vectorised check per block proves it. Where the check fails, rows are walked
one by one: a field that is never closed makes its physical line a `broken` row, and the
walk goes on with the next line.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from penstock.components.errors import DataError

_QUOTE, _LF, _CR = b'"\n\r'

# First stretch that is walked row by row after a failed check, doubled while checks go on
# failing: one odd quote costs little, and a file full of them is not checked over and over.
_FIRST_WALK_BYTES = 4096

_LINE_END = re.compile(rb"\r\n?|\n")

# What stands for the end of a field that is beyond the buffer, or that is not closed properly.
_UNKNOWN, _BROKEN = -1, -2


class Readable(Protocol):
    """What bytes are read from."""

    def read(self, size: int, /) -> bytes:
        """The next `size` bytes, fewer only at the end."""
        ...


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
        broken_at: Where in `data` a quote opens that is not closed properly; the block then
            is that one row. None for all other blocks.
    """

    offset: int
    data: bytes
    rows: int
    quoted: bool = False
    ends: np.ndarray | None = None
    by_parity: bool = True
    broken_at: int | None = None

    @property
    def end(self) -> int:
        """One past the last byte, in the file."""
        return self.offset + len(self.data)

    @property
    def lines(self) -> int:
        """Number of physical lines."""
        return count_lines(self.data) if self.quoted else self.rows

    def row_ends(self) -> np.ndarray:
        """`ends`, found now if nobody has looked yet."""
        return self.ends if self.ends is not None else _with_end(line_ends(self.data), self.data)

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
    lines = data.count(b"\n")
    if b"\r" in data:
        lines += data.count(b"\r") - data.count(b"\r\n")
    return lines + (not data.endswith((b"\n", b"\r")) if data else 0)


def line_breaks(data: bytes) -> int:
    """Number of line ends in `data`, which does not end within a CRLF."""
    return count_lines(data + b"_") - 1


def line_ends(data: bytes) -> np.ndarray:
    """Where the line ends of `data` end: int64, ascending, one past each LF, CRLF or lone CR."""
    values = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(values == _LF) + 1
    if b"\r" not in data:
        return ends
    returns = np.flatnonzero(values == _CR) + 1
    following = values[np.minimum(returns, len(values) - 1)]  # Of a last CR: itself.
    return np.sort(np.concatenate([ends, returns[following != _LF]]))


def _with_end(ends: np.ndarray, data: bytes) -> np.ndarray:
    """`ends`, and the end of `data` where its last line has no line end."""
    covered = len(ends) and ends[-1] == len(data)
    return ends if covered or not data else np.append(ends, len(data))


class RowSplitter:
    """Splits streams of delimited text into blocks of whole rows.

    Args:
        delimiter: The ASCII character between fields.
        block_bytes: Size of the blocks; larger only where one row is.
        max_row_bytes: Longest row.
    """

    def __init__(self, delimiter: str, *, block_bytes: int, max_row_bytes: int) -> None:
        self._delimiter = delimiter.encode()
        self._block_bytes = min(block_bytes, max_row_bytes)
        self._max_row_bytes = max_row_bytes
        self._field_end = re.compile(b"[" + re.escape(self._delimiter) + b"\r\n]")
        # bool [256]: the bytes that may stand before an opening and after a closing quote.
        self._beside_quote = np.zeros(256, np.bool_)
        self._beside_quote[[ord(delimiter), _LF, _CR, _QUOTE]] = True

    def split(self, stream: Readable, start: int, end: int, path: str) -> Iterator[RowBlock]:
        """Yield the rows between two row starts.

        Args:
            stream: Positioned at `start`.
            start: Where the first row begins in the file, in bytes.
            end: Where the last row ends in the file, in bytes.
            path: The file's path, for messages.

        Raises:
            DataError: The file ends before `end`, or a line is longer than `max_row_bytes`.
        """
        offset, buffer, window, stretch = start, b"", self._block_bytes, 0
        while offset < end:
            buffer += _read(stream, min(window, end - offset) - len(buffer), path)
            last = offset + len(buffer) == end
            block, odd = self._regular(buffer, offset, last=last)
            blocks = [block] if block.rows else []
            stretch = max(_FIRST_WALK_BYTES, 2 * stretch) if odd else 0
            if odd:
                blocks += self._walk(buffer, len(block.data), offset, stretch, last=last)
            if not blocks and len(buffer) >= self._max_row_bytes:
                blocks = self._give_up(buffer, offset, path)
            yield from blocks
            if blocks:
                used = blocks[-1].end - offset
                offset, buffer, window = offset + used, buffer[used:], self._block_bytes
            else:
                window = min(2 * window, self._max_row_bytes)

    def first_row(self, data: bytes, *, last: bool) -> RowBlock | None:
        """The first row of `data`, or None where it goes on beyond its end (never if `last`)."""
        blocks = self._walk(data, 0, 0, 1, last=last)
        return blocks[0] if blocks else None

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

    def field_counts(self, block: RowBlock) -> np.ndarray:
        """int64 [rows]: how many fields each row of a block that is not broken has."""
        ends = block.row_ends()
        if not block.by_parity:
            starts = np.concatenate([[0], ends[:-1]])
            rows = (block.data[s:e] for s, e in zip(starts, ends, strict=True))
            return np.array([len(self.fields(row)) for row in rows], np.int64)
        values = np.frombuffer(block.data, np.uint8)
        delimiters = np.flatnonzero(values == ord(self._delimiter))
        if block.quoted:
            quotes = np.flatnonzero(values == _QUOTE)
            delimiters = delimiters[np.searchsorted(quotes, delimiters) % 2 == 0]
        before = np.searchsorted(delimiters, ends)
        return np.diff(before, prepend=0) + 1

    def _regular(self, buffer: bytes, offset: int, *, last: bool) -> tuple[RowBlock, bool]:
        """The rows at the beginning that parity holds for, and whether an odd quote ends them."""
        if b'"' not in buffer:
            data = buffer if last else buffer[: _last_line_end(buffer)]
            return RowBlock(offset, data, count_lines(data)), False
        values = np.frombuffer(buffer, np.uint8)
        quotes = np.flatnonzero(values == _QUOTE)
        odd_at = self._first_odd_quote(values, quotes, last=last)
        ends = line_ends(buffer)
        if last:
            ends = _with_end(ends, buffer)
        elif buffer.endswith(b"\r"):
            ends = ends[:-1]  # Perhaps the first half of CRLF.
        ends = ends[np.searchsorted(quotes, ends) % 2 == 0]
        if odd_at is not None:
            ends = ends[ends <= odd_at]
        data = buffer[: int(ends[-1])] if len(ends) else b""
        return RowBlock(offset, data, len(ends), quoted=True, ends=ends), odd_at is not None

    def _first_odd_quote(self, values: np.ndarray, quotes: np.ndarray, *, last: bool) -> int | None:
        """Where the first quote stands that shows that parity does not hold, if any does."""
        opening, closing = quotes[::2], quotes[1::2]
        opens_well = self._beside_quote[values[opening - 1]] | (opening == 0)
        after = np.minimum(closing + 1, len(values) - 1)
        closes_well = self._beside_quote[values[after]]  # The last byte is itself a quote: well.
        odd = [opening[~opens_well][:1], closing[~closes_well][:1]]
        if last and len(opening) > len(closing):
            odd.append(opening[-1:])
        found = np.concatenate(odd)
        return int(found.min()) if len(found) else None

    def _walk(
        self, buffer: bytes, begin: int, offset: int, stretch: int, *, last: bool
    ) -> list[RowBlock]:
        """The whole rows from `begin` on, one by one, until `stretch` bytes are behind."""
        blocks: list[RowBlock] = []
        ends: list[int] = []
        position, first = begin, begin

        def flush() -> None:
            if ends:
                data = buffer[first : ends[-1]]
                blocks.append(
                    RowBlock(
                        offset + first,
                        data,
                        len(ends),
                        quoted=True,
                        ends=np.array(ends, np.int64) - first,
                        by_parity=False,
                    )
                )

        while position < len(buffer) and position - begin < stretch:
            end, broken_at = self._walk_row(buffer, position, last=last)
            if end is None:
                break
            if broken_at is None:
                ends.append(end)
            else:
                flush()
                ends, first = [], end
                data = buffer[position:end]
                blocks.append(
                    RowBlock(
                        offset + position,
                        data,
                        1,
                        quoted=True,
                        ends=np.array([len(data)], np.int64),
                        broken_at=broken_at - position,
                    )
                )
            position = end
        flush()
        return blocks

    def _walk_row(self, buffer: bytes, start: int, *, last: bool) -> tuple[int | None, int | None]:
        """Where the row ends (None: beyond the buffer), and where a quote opens that breaks it."""
        position = start
        while True:
            end = self._field(buffer, position, last=last)
            if end == _UNKNOWN:
                return None, None
            if end == _BROKEN:
                return _end_of_line(buffer, position, last=last), position
            if end == len(buffer) or buffer[end : end + 1] != self._delimiter:
                return _end_of_line(buffer, end, last=last), None
            position = end + 1

    def _field(self, buffer: bytes, start: int, *, last: bool) -> int:
        """Where the field at `start` ends: at its delimiter, its line end or the buffer's end."""
        end = start
        if buffer[start : start + 1] == b'"':
            end = buffer.find(b'"', start + 1)
            while end >= 0 and buffer[end + 1 : end + 2] == b'"':
                end = buffer.find(b'"', end + 2)
            if end < 0:
                return _BROKEN if last else _UNKNOWN
            end += 1
        if end == len(buffer):
            return end if last else _UNKNOWN
        match = self._field_end.search(buffer, end)
        if end > start and (match is None or match.start() > end):
            return _BROKEN
        if match is None:
            return len(buffer) if last else _UNKNOWN
        return match.start()

    def _give_up(self, buffer: bytes, offset: int, path: str) -> list[RowBlock]:
        """The first row, longer than may be: broken if by a quote, else nothing can be done."""
        end, broken_at = self._walk_row(buffer, 0, last=True)
        if broken_at is None or end == len(buffer):
            raise DataError(
                f"{path}: the line at byte {offset} is longer than {self._max_row_bytes} bytes "
                "(max_row_bytes); if this is delimited text, allow longer rows"
            )
        return self._walk(buffer, 0, offset, 1, last=True)


def _read(stream: Readable, size: int, path: str) -> bytes:
    """The next `size` bytes, none where it is negative."""
    data = stream.read(max(0, size))
    if len(data) < size:
        raise DataError(
            f"{path}: ended {size - len(data)} bytes early; it was changed while it was read, "
            "start again when it is complete"
        )
    return data


def _last_line_end(buffer: bytes) -> int:
    """One past a line end that is surely one, the last where lines end in LF; 0 if none is."""
    return buffer.rfind(b"\n") + 1 or buffer.rfind(b"\r", 0, len(buffer) - 1) + 1


def _end_of_line(buffer: bytes, position: int, *, last: bool) -> int | None:
    """One past the first line end from `position` on; None if it is beyond the buffer."""
    match = _LINE_END.search(buffer, position)
    if match is None:
        return len(buffer) if last else None
    if match.end() == len(buffer) and match[0] == b"\r" and not last:
        return None  # Perhaps the first half of CRLF.
    return match.end()
