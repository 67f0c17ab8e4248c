"""Splits text whose rows are lines: a line ends at LF, or at CR and LF."""

import codecs
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from penstock.components.errors import DataError
from penstock.components.files.content import look
from penstock.components.sources.base import RejectedRow
from penstock.components.sources.text.blocks import (
    LF,
    RowBlock,
    RowPlace,
    Splitter,
    too_long,
)
from penstock.components.sources.text.codec import read_head
from penstock.components.sources.text.scan import Header
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
    """Splits streams into blocks of lines.

    Attributes:
        max_row_bytes: Maximum length of a line; bounds the memory.
    """

    blank = None
    ends_at_cr = False

    max_row_bytes: int

    @property
    def sizes(self) -> tuple[int, int]:
        most = self.max_row_bytes + 2  # with its line end
        return min(_BLOCK_BYTES, most), most

    def blocks(self, buffer: bytes, offset: int, *, last: bool) -> list[RowBlock]:
        data = buffer if last else buffer[: buffer.rfind(b"\n") + 1]
        rows = data.count(b"\n") + (not data.endswith(b"\n"))
        return [RowBlock(offset, data, rows, find_ends=_line_feed_ends)] if data else []

    def rejected(self, block: RowBlock, place: RowPlace) -> RejectedRow:
        return too_long(place, block.data, self.max_row_bytes)


def _line_feed_ends(data: bytes) -> np.ndarray:
    return np.flatnonzero(np.frombuffer(data, np.uint8) == LF) + 1
