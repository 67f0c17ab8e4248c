"""Finds row boundaries in delimited text: reads a stream of bytes, yields blocks of whole rows.

The planning process counts rows in the same blocks that the workers parse, so both see the same
rows. In almost all text a byte is inside quotes if an odd number of quotes precede it ("parity");
one vectorised check per block proves it. After a failed check, rows are walked one by one for a
while (`walker.py`).
"""

import re
from collections.abc import Iterator

import numpy as np

from penstock.components.sources.base import RejectedRow
from penstock.components.sources.csv.walker import RowWalker
from penstock.components.sources.text.blocks import (
    CR,
    KEPT_BYTES,
    LF,
    QUOTE,
    RowBlock,
    RowPlace,
    Splitter,
    count_line_ends,
    count_lines,
    first_window,
    has_ended,
    line_ends,
    read_exactly,
    too_long,
    with_end,
)
from penstock.components.tfrecord.compression import Readable
from penstock.components.tfrecord.sharding import MIB

# Bytes that are walked row by row after a failed check; doubled after each further failure. So one
# odd quote costs little, and a file full of them is not checked over and over.
_FIRST_WALK_BYTES = 4096
# Number of bytes whose quotes decide whether a text begins inside quotes.
_GUESS_BYTES = 256 * 1024
_SKIPPED_BYTES = MIB
_LINE_END = re.compile(rb"\r\n?|\n")
_BROKEN_QUOTE = (
    "unbalanced quote: the field that opens here is not closed by a quote that a delimiter or a "
    "line end follows; a quote within a quoted field must be doubled"
)


class CsvSplitter(Splitter):
    """Splits delimited text into blocks of `block_bytes`, larger if one row is."""

    blank = b"\r\n"

    def __init__(self, delimiter: str, *, block_bytes: int, max_row_bytes: int) -> None:
        self._walker = RowWalker(delimiter)
        self._delimiter = ord(delimiter)
        self._block_bytes = min(block_bytes, max_row_bytes)
        self._max_row_bytes = max_row_bytes
        # bool [256]: bytes that may stand before an opening quote or after a closing one.
        self._beside_quote = np.zeros(256, np.bool_)
        self._beside_quote[[self._delimiter, LF, CR, QUOTE]] = True

    def split(
        self, stream: Readable, start: int, end: int, path: str, *, cell: int | None = None
    ) -> Iterator[RowBlock]:
        """Yields blocks of rows; see `Splitter`. A line that is too long is a block, cut short."""
        offset, buffer, stretch = start, b"", 0
        window = first_window(offset, cell, self._block_bytes)
        while offset < end:
            buffer += read_exactly(stream, min(window, end - offset) - len(buffer), path)
            if has_ended(stream):
                end = offset + len(buffer)
            last = offset + len(buffer) == end
            block, odd = self._split_by_parity(buffer, offset, last=last)
            blocks = [block] if block.rows else []
            stretch = max(_FIRST_WALK_BYTES, 2 * stretch) if odd else 0
            if odd:
                blocks += self._walker.walk(
                    buffer, len(block.data), offset=offset, stretch=stretch, last=last
                )
            if not blocks and len(buffer) >= self._max_row_bytes:
                if buffer.endswith(b"\r") and not last:
                    window = len(buffer) + 1  # For the second half of CRLF.
                    continue
                blocks = self._walker.walk(buffer, 0, offset=offset, stretch=1, last=True)
                if blocks[0].broken_at is None or len(blocks[0].data) == len(buffer):
                    next_line, rest = _skip_line(stream, offset + len(buffer), end, path)
                    data = buffer[:KEPT_BYTES]
                    left_out = next_line - offset - len(data)
                    yield RowBlock(offset, data, 1, broken_at=0, left_out=left_out)
                    offset, buffer = next_line, rest
                    window = first_window(offset, cell, self._block_bytes)
                    continue
            yield from blocks
            if blocks:
                used = blocks[-1].end - offset
                offset, buffer = offset + used, buffer[used:]
                window = first_window(offset, cell, self._block_bytes)
            else:
                window = min(2 * window, self._max_row_bytes)

    def first_row(self, data: bytes, *, last: bool) -> RowBlock | None:
        blocks = self._walker.walk(data, 0, offset=0, stretch=1, last=last)
        return blocks[0] if blocks else None

    def guess_row_start(self, stream: Readable, most: int) -> int | None:
        """Returns the offset of the first row; see `Splitter`.

        The stream may begin inside or outside quotes: the guess is the case in which all quotes
        open and close at the edges of fields.
        """
        del most  # The quotes of all bytes that were read count.
        head = stream.read(_GUESS_BYTES)
        values = np.frombuffer(head, np.uint8)
        quotes = np.flatnonzero(values[1:] == QUOTE) + 1
        ends = line_ends(head[:-1] if head.endswith(b"\r") else head)
        outside, inside = (
            self._first_odd_quote(values, found, last=False)
            for found in (quotes, np.insert(quotes, 0, 0))
        )
        within = outside is not None and (inside is None or inside > outside)
        starts = ends[np.searchsorted(quotes, ends) % 2 == within]
        return int(starts[0]) if len(starts) else None

    def rejected(self, block: RowBlock, place: RowPlace) -> RejectedRow:
        """Returns the only row of a broken block: too long, or with a quote not closed properly."""
        if block.left_out:
            return too_long(place, block.data, self._max_row_bytes)
        line = place.line + count_line_ends(block.data[: block.broken_at])
        raw = block.data.rstrip(b"\r\n")
        return RejectedRow(place.file, place.row, line, None, _BROKEN_QUOTE, raw)

    def fields(self, row: bytes) -> list[bytes]:
        """Returns the unquoted fields of a row that is not broken, without the line end."""
        return self._walker.fields(row)

    def field_counts(self, block: RowBlock) -> np.ndarray:
        """Returns int64 [rows], the number of fields of each row of a block that is not broken."""
        ends = block.row_ends()
        if not block.by_parity:
            rows = (block.data[s:e] for s, e in zip(block.row_starts(), ends, strict=True))
            return np.array([len(self.fields(row)) for row in rows], np.int64)
        values = np.frombuffer(block.data, np.uint8)
        delimiters = np.flatnonzero(values == self._delimiter)
        if block.quoted:
            quotes = np.flatnonzero(values == QUOTE)
            delimiters = delimiters[np.searchsorted(quotes, delimiters) % 2 == 0]
        before = np.searchsorted(delimiters, ends)
        return np.diff(before, prepend=0) + 1

    def _split_by_parity(self, buffer: bytes, offset: int, *, last: bool) -> tuple[RowBlock, bool]:
        """Returns the leading rows for which parity holds, and whether a quote breaks it next."""
        if b'"' not in buffer:
            data = buffer if last else buffer[: _last_line_end(buffer)]
            return RowBlock(offset, data, count_lines(data)), False
        values = np.frombuffer(buffer, np.uint8)
        quotes = np.flatnonzero(values == QUOTE)
        odd_at = self._first_odd_quote(values, quotes, last=last)
        ends = line_ends(buffer)
        if last:
            ends = with_end(ends, buffer)
        elif buffer.endswith(b"\r"):
            ends = ends[:-1]  # May be the first half of CRLF.
        ends = ends[np.searchsorted(quotes, ends) % 2 == 0]
        if odd_at is not None:
            ends = ends[ends <= odd_at]
        data = buffer[: int(ends[-1])] if len(ends) else b""
        return RowBlock(offset, data, len(ends), quoted=True, ends=ends), odd_at is not None

    def _first_odd_quote(self, values: np.ndarray, quotes: np.ndarray, *, last: bool) -> int | None:
        """Returns the index of the first quote for which parity does not hold."""
        opening, closing = quotes[::2], quotes[1::2]
        opens_well = self._beside_quote[values[opening - 1]] | (opening == 0)
        after = np.minimum(closing + 1, len(values) - 1)
        closes_well = self._beside_quote[values[after]]  # For the last byte, the quote itself.
        odd = [opening[~opens_well][:1], closing[~closes_well][:1]]
        if last and len(opening) > len(closing):
            odd.append(opening[-1:])
        found = np.concatenate(odd)
        return int(found.min()) if len(found) else None


def _skip_line(stream: Readable, start: int, end: int, path: str) -> tuple[int, bytes]:
    while start < end:
        part = read_exactly(stream, min(_SKIPPED_BYTES, end - start), path)
        if has_ended(stream):
            end = start + len(part)
        if part.endswith(b"\r") and start + len(part) < end:
            part += read_exactly(stream, 1, path)  # The second half of CRLF.
        if match := _LINE_END.search(part):
            return start + match.end(), part[match.end() :]
        start += len(part)
    return end, b""


def _last_line_end(buffer: bytes) -> int:
    return buffer.rfind(b"\n") + 1 or buffer.rfind(b"\r", 0, len(buffer) - 1) + 1
