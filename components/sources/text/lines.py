"""Splits text whose rows are lines: a line ends at LF, or at CR and LF."""

import codecs
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from penstock.components.errors import DataError
from penstock.components.files.content import look
from penstock.components.sources.base import RejectedRow
from penstock.components.sources.text.blocks import (
    KEPT_BYTES,
    LF,
    RowBlock,
    RowPlace,
    Splitter,
    has_ended,
    read_exactly,
    too_long,
)
from penstock.components.sources.text.codec import read_head
from penstock.components.sources.text.scan import Header
from penstock.components.tfrecord.compression import Readable
from penstock.components.tfrecord.sharding import MIB

# Small: arrays of empty lines take about forty times the bytes of the block.
_BLOCK_BYTES = MIB
_SNIFFED_BYTES = 512


def line_header(path: str, check_head: Callable[[bytes], str | None]) -> Header:
    """Returns a header that says where the lines of a file begin: after a byte order mark.

    `check_head` returns the fault in the file's first bytes, if any, for a DataError.
    """
    size, state = look(path)
    head, is_compressed = read_head(path, _SNIFFED_BYTES)
    if problem := check_head(head):
        raise DataError(f"{path}: {problem}")
    start = len(codecs.BOM_UTF8) if head.startswith(codecs.BOM_UTF8) else 0
    return Header(path, (), start, 1, size, state, is_compressed)


@dataclass(frozen=True)
class LineSplitter(Splitter):
    """Splits streams into blocks of lines; an overlong line is a block, cut short.

    Attributes:
        max_row_bytes: Maximum length of a line; bounds the memory.
    """

    blank = None

    max_row_bytes: int

    def split(
        self, stream: Readable, start: int, end: int, path: str, *, first_bytes: int | None = None
    ) -> Iterator[RowBlock]:
        offset, buffer, most = start, b"", self.max_row_bytes + 2  # with its line end
        window = min(first_bytes or _BLOCK_BYTES, _BLOCK_BYTES, most)
        while offset < end:
            buffer += read_exactly(stream, min(window, end - offset) - len(buffer), path)
            if has_ended(stream):
                end = offset + len(buffer)
            is_last = offset + len(buffer) == end
            whole = len(buffer) if is_last else buffer.rfind(b"\n") + 1
            if not whole and len(buffer) < most:
                window = min(2 * window, most)
                continue
            if whole:
                data, buffer = buffer[:whole], buffer[whole:]
                rows = data.count(b"\n") + (not data.endswith(b"\n"))
                block = RowBlock(offset, data, rows, find_ends=_line_feed_ends)
            else:
                data = buffer[:KEPT_BYTES]
                next_line, buffer = _skip_line(stream, offset + len(buffer), end, path)
                left_out = next_line - offset - len(data)
                block = RowBlock(offset, data, 1, broken_at=0, left_out=left_out)
            yield block
            offset = block.end
            window = min(_BLOCK_BYTES, most)

    def rejected(self, block: RowBlock, place: RowPlace) -> RejectedRow:
        return too_long(place, block.data, self.max_row_bytes)


def _skip_line(stream: Readable, start: int, end: int, path: str) -> tuple[int, bytes]:
    while start < end:
        part = read_exactly(stream, min(_BLOCK_BYTES, end - start), path)
        if has_ended(stream):
            end = start + len(part)
        if size := part.find(b"\n") + 1:
            return start + size, part[size:]
        start += len(part)
    return end, b""


def _line_feed_ends(data: bytes) -> np.ndarray:
    return np.flatnonzero(np.frombuffer(data, np.uint8) == LF) + 1
