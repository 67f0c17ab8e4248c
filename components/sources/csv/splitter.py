"""Finds row boundaries in delimited text: reads a stream of bytes, yields blocks of whole rows.

The planning process counts rows in the same blocks that the workers parse, so both see the same
rows. A row ends at LF, CRLF or a lone CR outside quotes. A field that begins with a quote must be
closed by a quote before a delimiter, a row end or the end of the text, inner quotes doubled. In any
other field a quote is an ordinary character. A row with a field that is never closed ends with the
line on which that field begins, and is broken.
"""

import re

import numpy as np

from penstock.components.sources.base import RejectedRow
from penstock.components.sources.text.blocks import (
    CR,
    LF,
    QUOTE,
    RowBlock,
    RowPlace,
    Splitter,
    count_line_ends,
    count_lines,
    line_ends,
    too_long,
    with_end,
)

_BROKEN_QUOTE = (
    "unbalanced quote: the field that opens here is not closed by a quote that a delimiter or a "
    "line end follows; a quote within a quoted field must be doubled"
)


class _RowPattern:
    """Regular expressions that match the rows of a text, one after the other.

    148 MB/s where two of five fields have quotes, 58 MB/s where all ten short fields have. Each
    repeat is followed by what it cannot match, so that a row is never matched in two ways.
    """

    def __init__(self, delimiter: str) -> None:
        d = re.escape(delimiter.encode())
        text = rb'"[^"]*(?:""[^"]*)*'
        quoted = rb'%b"(?=[%b\r\n]|\Z)' % (text, d)
        # A field with quotes, or a quote inside another field.
        quote = rb'(?:(?<=%b)%b|(?<=[^%b\r\n])")' % (d, quoted, d)
        fields = rb'(?:%b)?(?:[^"\r\n]*%b)*[^"\r\n]*' % (quoted, quote)
        # Group 1: the rest of a broken row, from the quote that is not closed.
        self.last = re.compile(rb'%b(?:\n|\r\n?|\Z|("[^\r\n]*(?:\n|\r\n?|\Z)))' % fields)
        # Where more text follows, a CR at the end may be half of CRLF, and a quote that is not
        # closed yet may be closed later. Group 2: the beginning of a row that goes on there.
        end = rb"(?:\n|\r\n|\r(?!\Z))"
        wrong = rb'(?<![^%b\r\n])(?=%b"[^"%b\r\n])("[^\r\n]*%b)' % (d, text, d, end)
        self.inner = re.compile(rb"%b(?:%b|%b)|([\s\S]+)" % (fields, end, wrong))
        self._field = re.compile(rb'(?:\A|%b)(?:"((?:[^"]|"")*)"|([^"%b][^%b]*)|)' % (d, d, d))

    def fields(self, row: bytes) -> list[bytes]:
        """Returns the unquoted fields of a row that is not broken."""
        found = self._field.finditer(row.rstrip(b"\r\n") if row[-1:] in b"\r\n" else row)
        return [m[2] or (m[1] or b"").replace(b'""', b'"') for m in found]


class CsvSplitter(Splitter):
    """Splits delimited text into blocks of `block_bytes`, larger if one row is."""

    blank = b"\r\n"
    ends_at_cr = True

    def __init__(self, delimiter: str, *, block_bytes: int, max_row_bytes: int) -> None:
        self._pattern = _RowPattern(delimiter)
        self._delimiter = delimiter.encode()
        self._block_bytes = block_bytes
        self._max_row_bytes = max_row_bytes
        # bool [256]: bytes that may stand before an opening quote or after a closing one.
        self._beside_quote = np.zeros(256, np.bool_)
        self._beside_quote[[ord(delimiter), LF, CR, QUOTE]] = True

    @property
    def sizes(self) -> tuple[int, int]:
        return min(self._block_bytes, self._max_row_bytes), self._max_row_bytes

    def blocks(self, buffer: bytes, offset: int, *, last: bool) -> list[RowBlock]:
        """Returns blocks without gaps, each of good rows or of one broken row."""
        if b'"' not in buffer:
            data = buffer if last else buffer[: _last_line_end(buffer)]
            return [RowBlock(offset, data, count_lines(data))] if data else []
        ends = self._ends_by_parity(buffer, last=last)
        if ends is not None:
            data = buffer[: ends[-1]] if len(ends) else b""
            return [RowBlock(offset, data, len(ends), True, ends)] if data else []
        return self._blocks_by_pattern(buffer, offset, last=last)

    def row_of_long(self, buffer: bytes, offset: int) -> RowBlock | None:
        row = self._first_row(buffer, offset)
        return None if row.broken_at is None or len(row.data) == len(buffer) else row

    def first_row(self, data: bytes, *, last: bool) -> RowBlock | None:
        row = self._first_row(data, 0)
        if not last and len(row.data) == len(data):
            return None
        return row

    def rejected(self, block: RowBlock, place: RowPlace) -> RejectedRow:
        """Returns the only row of a broken block: too long, or with a quote not closed properly."""
        if block.left_out:
            return too_long(place, block.data, self._max_row_bytes)
        line = place.line + count_line_ends(block.data[: block.broken_at])
        raw = block.data.rstrip(b"\r\n")
        return RejectedRow(place.file, place.row, line, None, _BROKEN_QUOTE, raw)

    def fields(self, row: bytes) -> list[bytes]:
        """Returns the unquoted fields of a row that is not broken, without the line end."""
        return self._pattern.fields(row)

    def field_counts(self, block: RowBlock) -> np.ndarray:
        """Returns int64 [rows], the number of fields of each row of a block that is not broken."""
        rows = (block.data[s:e] for s, e in zip(block.row_starts(), block.row_ends(), strict=True))
        counts = (
            len(self.fields(row)) if b'"' in row else row.count(self._delimiter) + 1 for row in rows
        )
        return np.fromiter(counts, np.int64, block.rows)

    def _first_row(self, text: bytes, offset: int) -> RowBlock:
        match = self._pattern.last.match(text)
        assert match is not None, "any text has a first row"
        end = np.array([match.end()], np.int64)
        broken_at = match.start(1) if match.lastindex else None
        return RowBlock(offset, match[0], 1, quoted=True, ends=end, broken_at=broken_at)

    def _ends_by_parity(self, buffer: bytes, *, last: bool) -> np.ndarray | None:
        """Returns the ends of the rows, int64; None if a quote is not at the edge of a field.

        For speed: if each quote opens or closes a field, a line end is within quotes if an odd
        number of quotes precede it. That takes a third of the pattern's time or less; without it,
        an ingest of quoted CSV takes 1.5 times the CPU.
        """
        values = np.frombuffer(buffer, np.uint8)
        quotes = np.flatnonzero(values == QUOTE)
        opening, closing = quotes[::2], quotes[1::2]
        if last and len(opening) > len(closing):
            return None
        opens = self._beside_quote[values[opening - 1]] | (opening == 0)
        # After the last byte: the quote itself.
        closes = self._beside_quote[values[np.minimum(closing + 1, len(values) - 1)]]
        if not (opens.all() and closes.all()):
            return None
        ends = line_ends(buffer)
        if last:
            ends = with_end(ends, buffer)
        elif buffer.endswith(b"\r"):
            ends = ends[:-1]  # May be the first half of CRLF.
        return ends[np.searchsorted(quotes, ends) % 2 == 0]

    def _blocks_by_pattern(self, buffer: bytes, offset: int, *, last: bool) -> list[RowBlock]:
        pattern = self._pattern.last if last else self._pattern.inner
        # The end of a row; negative for one that is broken, or that goes on after the buffer.
        ends = np.array(
            [-m.end() if m.lastindex else m.end() for m in pattern.finditer(buffer)], np.int64
        )
        if len(ends) > 1 and abs(ends[-2]) == ends[-1]:
            ends = ends[:-1]  # Nothing, at the end of the text.
        blocks, start, first = list[RowBlock](), 0, 0
        for at in (*np.flatnonzero(ends < 0).tolist(), len(ends)):
            if at > first:
                end = int(ends[at - 1])
                good = ends[first:at] - start
                block = RowBlock(offset + start, buffer[start:end], at - first, True, good)
                blocks.append(block)
                start = end
            if at == len(ends):
                break
            end, first = -int(ends[at]), at + 1
            match = pattern.match(buffer, start)
            assert match is not None, "this row was matched before"
            if match.lastindex == 2:
                break
            blocks.append(
                RowBlock(
                    offset + start,
                    buffer[start:end],
                    1,
                    quoted=True,
                    ends=np.array([end - start], np.int64),
                    broken_at=match.start(1) - start,
                )
            )
            start = end
        return blocks


def _last_line_end(buffer: bytes) -> int:
    return buffer.rfind(b"\n") + 1 or buffer.rfind(b"\r", 0, len(buffer) - 1) + 1
