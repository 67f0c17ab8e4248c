"""Walks over delimited text from field to field; used if quotes do not pair up.

A row ends at LF, CRLF or a lone CR outside quotes. A field that begins with a quote must be closed
by a quote before a delimiter, a row end or the end of the text, inner quotes doubled. In any other
field a quote is an ordinary character. A row with a field that is never closed ends with the line
on which that field begins, and is broken.
"""

import re
from itertools import groupby
from typing import NamedTuple

import numpy as np

from penstock.components.sources.text.blocks import RowBlock

_LINE_END = re.compile(rb"\r\n?|\n")
# End of a field that lies beyond the text, and of one that is not closed properly.
_UNKNOWN, _BROKEN = -1, -2


class _Row(NamedTuple):
    start: int
    end: int
    broken_at: int | None


class RowWalker:
    def __init__(self, delimiter: str) -> None:
        self._delimiter = delimiter.encode()
        self._field_end = re.compile(b"[" + re.escape(self._delimiter) + b"\r\n]")

    def walk(
        self, text: bytes, begin: int, *, offset: int, stretch: int, last: bool
    ) -> list[RowBlock]:
        """Returns blocks without gaps, each of good rows or of one broken row.

        A row starts at `begin`; `offset` is the byte of the file at which `text` begins. The walk
        stops at the first row end after `stretch` bytes; `last` if the file ends with `text`.
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
        fields, start = [], 0
        while True:
            end = self._field(row, start, last=True)
            text = row[start:end]
            fields.append(text[1:-1].replace(b'""', b'"') if text[:1] == b'"' else text)
            if row[end : end + 1] != self._delimiter:
                return fields
            start = end + 1

    def _row(self, text: bytes, start: int, *, last: bool) -> _Row | None:
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
        """Returns the end of the field at `start`: a delimiter, a line end or the text's end."""
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
    match = _LINE_END.search(text, position)
    if match is None:
        return len(text) if last else None
    if match.end() == len(text) and match[0] == b"\r" and not last:
        return None  # May be the first half of CRLF.
    return match.end()
