"""Files of rows of text, whatever a row is: as a scan found them, where to cut them, a read.

CSV, JSON Lines and text differ in their `Splitter` and in what they make of a block of rows.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np

from penstock.components.files.content import open_data, open_unchanged
from penstock.components.sources.base import Batch, Piece, RejectedRow
from penstock.components.sources.batches import empty_batch
from penstock.components.sources.csv.blocks import RowBlock
from penstock.components.sources.cutting import SNAP_SHARE, RowStart, cut_files
from penstock.components.sources.opened_files import OpenedFile, OpenedFiles
from penstock.components.tfrecord.compression import Readable

# What is read of the row that goes on beyond a cell, at first.
_TAIL_BYTES = 64 * 1024


class RowPlace(NamedTuple):
    """Where a block's first row stands: file, row number and physical line, counted from 1."""

    file: str
    row: int
    line: int


class Splitter(ABC):
    """Finds the rows of a stream of bytes.

    Attributes:
        blank: The bytes that rows without data are made of; None for white space.
    """

    blank: ClassVar[bytes | None]

    @abstractmethod
    def split(
        self, stream: Readable, start: int, end: int, path: str, *, cell: int | None = None
    ) -> Iterator[RowBlock]:
        """The rows of a file between two row starts, in bytes; `stream` stands at the first.

        Where `cell` is given, little is read beyond a multiple of it before the rows that begin
        before it are given.
        """

    @abstractmethod
    def guess_row_start(self, stream: Readable, most: int) -> int | None:
        """Where the first row begins after the first byte of a stream, in bytes from there.

        None where no line ends in the first `most` bytes, or that cannot be told.
        """

    @abstractmethod
    def rejected(self, block: RowBlock, place: RowPlace) -> RejectedRow:
        """The one row of a block that is broken."""


def first_window(offset: int, cell: int | None, most: int) -> int:
    """How many bytes a splitter reads at first of the rows from `offset` on; see `split`."""
    return min(most, max(_TAIL_BYTES, cell - offset % cell)) if cell else most


@dataclass(frozen=True)
class Header:
    """A file's columns, if it names any, and the byte and line (from 1) of its data."""

    path: str
    names: tuple[str, ...]
    data_start: int
    first_line: int
    size: int
    state: int


@dataclass(frozen=True, eq=False, kw_only=True)
class TextFile(OpenedFile):
    """A file as the scan found it.

    Attributes:
        names: Its columns' names, in its order, if it has any.
        data_start: First byte after the header.
        has_data: Whether any row is not blank.
        checkpoints: int64 [blocks + 1, 3]: byte, row number and line of a row start,
            ascending; the last is the end of the file.
    """

    names: tuple[str, ...]
    data_start: int
    has_data: bool
    checkpoints: np.ndarray

    @property
    def units(self) -> int:
        """Bytes of data."""
        return self.content.size - self.data_start

    def for_reading(self) -> "TextFile":
        """See `OpenedFile`."""
        return replace(self, checkpoints=self.checkpoints[:0])

    def find_row(
        self, units: int, before: RowStart | None, splitter: Splitter, snap_bytes: float
    ) -> RowStart:
        """The first row that starts at byte `units` of the data or after it, or the end.

        A checkpoint that is at most `snap_bytes` away is taken for it: nothing is read then. Else
        rows are looked at from it on, or from `before`, an earlier place that was found.
        """
        byte = self.data_start + units
        after = int(np.searchsorted(self.checkpoints[:, 0], byte, side="right"))
        near = [RowStart(*map(int, found)) for found in self.checkpoints[after - 1 : after + 1]]
        nearest = min(near, key=lambda found: abs(found.position - byte))
        if abs(nearest.position - byte) <= snap_bytes:
            return nearest
        found = max(near[0], before or near[0])
        if found.position >= byte:
            return found
        start, row, line = found
        end = int(self.checkpoints[after, 0])
        with open_data(self.path) as stream:
            stream.seek(start)
            for block in splitter.split(stream, start, end, self.path, cell=byte):
                if block.end >= byte:
                    rows = int(np.searchsorted(block.row_ends(), byte - block.offset)) + 1
                    head = block.slice_rows(0, rows) if rows < block.rows else block
                    return RowStart(head.end, row + head.rows, line + head.lines)
                row, line = row + block.rows, line + block.lines
        raise AssertionError(f"{self.path}: no row start from {byte} to {end}")


@dataclass(frozen=True, eq=False, kw_only=True)
class TextFiles(OpenedFiles[TextFile]):
    """Files of rows of text, scanned and typed."""

    @property
    @abstractmethod
    def splitter(self) -> Splitter:
        """Finds the rows that are read."""

    @abstractmethod
    def batches(self, block: RowBlock, place: RowPlace) -> Iterator[Batch]:
        """The rows of a block, none broken; at most `MAX_BATCH_ROWS` good ones in a batch."""

    def cut(self, parts: int) -> list[tuple[Piece, ...]]:
        """The whole input as `parts` runs of byte ranges of about equal size, in order."""
        splitter, snap_bytes = self.splitter, SNAP_SHARE * self.input_bytes / parts
        files = list(self.scanned.values())
        return cut_files(files, parts, lambda file, *at: file.find_row(*at, splitter, snap_bytes))

    def read(self, pieces: Sequence[Piece]) -> Iterator[Batch]:
        """See `Source`."""
        splitter = self.splitter
        for piece in pieces:
            row, line = piece.first_row, piece.first_line
            with open_unchanged(piece.file, self.scanned[piece.file].content) as stream:
                stream.seek(piece.start)
                for block in splitter.split(stream, piece.start, piece.end, piece.file):
                    place = RowPlace(piece.file, row, line)
                    if block.broken_at is None:
                        yield from self.batches(block, place)
                    else:
                        rejected = splitter.rejected(block, place)
                        yield Batch(empty_batch(self.columns), (rejected,))
                    row, line = row + block.rows, line + block.lines
