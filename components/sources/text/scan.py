"""A parallel scan of text files: counts rows, digests, samples, and finds places to cut.

One read counts rows, computes sha256 and samples rows for type inference. Where the first row of a
part starts is guessed, and checked once the part before it is scanned; after a wrong guess the part
is scanned again. The result has 24 bytes per cell of the file: byte, row and line of a row start.
"""

import pickle
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from typing import Any, BinaryIO, Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from penstock.components.errors import DataError, TriesFailedError
from penstock.components.files import cells
from penstock.components.files.cells import ByteRange, CellStream, byte_ranges
from penstock.components.files.content import open_data, scanned_content
from penstock.components.sources.base import RejectedRow
from penstock.components.sources.files import ScannedFile
from penstock.components.sources.spread import Spread
from penstock.components.sources.text.blocks import RowBlock, RowPlace, Splitter
from penstock.components.sources.text.codec import TextStream
from penstock.components.tfrecord.compression import Readable

# Maximum number of rejected rows that a scan keeps: enough to show.
MAX_SCAN_REJECTED = 100
# Minimum number of rows sampled from the beginning of each file and from each later cell of 8 MiB
# (about 1 row in 500, for a tenth of the cost of the scan).
MIN_SAMPLED_ROWS = 64
# Stands for the end of a compressed file's text until it was read.
_UNKNOWN = sys.maxsize


class Header(NamedTuple):
    """Beginning of a file: column names, if it has any, and byte and line (from 1) of its data."""

    path: str
    names: tuple[str, ...]
    data_start: int
    first_line: int
    size: int
    state: int
    is_compressed: bool = False


@dataclass(frozen=True, eq=False, kw_only=True)
class TextFile(ScannedFile):
    names: tuple[str, ...]  # Column names in the file's order, if it has any.
    data_start: int  # First byte of the text after the header.
    data_end: int
    is_compressed: bool
    has_data: bool  # Whether any row is not blank.
    # int64 [blocks + 1, 3]: byte, row and line of row starts, ascending; the last is the end.
    checkpoints: np.ndarray

    @property
    def units(self) -> int:
        return self.data_end - self.data_start

    def for_reading(self, start: int, end: int) -> "TextFile":
        return replace(self, checkpoints=self.checkpoints[:0])


class Sample(Protocol):
    def merge(self, other: Any) -> None:
        """Adds the counts of another sample."""


SampleT = TypeVar("SampleT", bound=Sample)


@dataclass(frozen=True)
class Sampler(ABC, Generic[SampleT]):
    """Samples the first rows of files, and a few rows of each later cell."""

    files: int
    sample_rows: int  # Number of rows to sample from the beginnings of all files together.

    def wanted(self, header: Header, cell: int) -> int:
        """Returns how many of the rows that begin in a cell to sample."""
        rows = self.sample_rows // self.files
        if cell != header.data_start // cells.CELL_BYTES:
            rows = min(rows, rows * cells.CELL_BYTES // header.size)
        return max(MIN_SAMPLED_ROWS, rows)

    @abstractmethod
    def new_sample(self) -> SampleT:
        """Returns an empty sample."""

    @abstractmethod
    def add(self, block: RowBlock, header: Header, sample: SampleT) -> None:
        """Adds the rows of a block that is not broken to the sample."""


class RangeTask(NamedTuple):
    """A part of a file to scan; `start` is the byte of its first row, None if unknown."""

    header: Header
    part: ByteRange
    start: int | None = None


@dataclass
class ScannedRange:
    """Result of scanning one part of a file, for the rows that begin in it."""

    start: int
    end: int
    rows: int = 0
    lines: int = 0
    has_data: bool = False
    # For the first row of each cell: its byte, and the numbers of rows and lines before it.
    checkpoints: list[tuple[int, int, int]] = field(default_factory=list)
    rejected: list[RejectedRow] = field(default_factory=list)
    sample: bytes = b""  # Pickled: 1 kB instead of 20, which counts for a million files.
    digests: tuple[bytes, ...] = ()  # One sha256 per cell.

    def add(self, block: RowBlock, path: str, splitter: Splitter) -> None:
        if block.broken_at is not None and len(self.rejected) < MAX_SCAN_REJECTED:
            self.rejected.append(splitter.rejected(block, RowPlace(path, self.rows, self.lines)))
        self.has_data = self.has_data or bool(block.data.strip(splitter.blank))
        self.rows += block.rows
        self.lines += block.lines
        self.end = block.end


def scan_range(
    task: RangeTask, splitter: Splitter, sampler: Sampler[Any] | None
) -> ScannedRange | None:
    """Scans a part of a file; None if its start is unknown and cannot be guessed."""
    with open_data(task.part.path) as file:
        if task.start is not None:
            return _scan_from(task.start, task, file, splitter, sampler)
        file.seek(task.part.start - 1)
        guess = splitter.guess_row_start(file, task.part.end - task.part.start)
        if guess is None:
            return None
        try:
            return _scan_from(task.part.start - 1 + guess, task, file, splitter, sampler)
        except TriesFailedError:
            raise
        except DataError:
            return None


def _scan_from(
    start: int,
    task: RangeTask,
    file: BinaryIO,
    splitter: Splitter,
    sampler: Sampler[Any] | None,
) -> ScannedRange:
    (header, part, _), size = task, cells.CELL_BYTES
    file.seek(part.start)
    hashed = CellStream(file, part.start, part.end)
    stream: Readable = hashed
    if header.is_compressed:
        stream, part, end = TextStream(hashed, part.path), part._replace(end=_UNKNOWN), _UNKNOWN
    else:
        end = header.size
    for at in range(part.start, min(start, part.end), size):
        stream.read(min(at + size, start, part.end) - at)
    found = ScannedRange(start, start)
    sample, cell, wanted = sampler.new_sample() if sampler else None, -1, 0
    blocks = splitter.split(stream, start, end, part.path, cell=size)
    while found.end < part.end and (blocks_read := next(blocks, None)):
        for block in blocks_read.by_cell(size):
            if block.offset >= part.end:
                break
            if block.offset // size != cell:
                cell = block.offset // size
                # If a cell has fewer rows than wanted (large rows), the next cell makes up for it.
                wanted = max(wanted, sampler.wanted(header, cell)) if sampler else 0
                found.checkpoints.append((block.offset, found.rows, found.lines))
            if sampler and wanted and block.broken_at is None:
                head = block.head(wanted)
                wanted -= head.rows
                sampler.add(head, header, sample)
            found.add(block, part.path, splitter)
    found.sample = pickle.dumps(sample)
    found.digests = hashed.digests()
    return found


def scan_files(
    headers: Sequence[Header],
    splitter: Splitter,
    sampler: Sampler[SampleT] | None,
    spread: Spread,
) -> tuple[list[TextFile], list[RejectedRow], SampleT | None]:
    """Scans files; returns them, their first broken rows, and the merged sample."""
    tasks = [
        RangeTask(header, part, None if part.start else header.data_start)
        for header in headers
        for part in _parts(header)
    ]
    scan = partial(scan_range, splitter=splitter, sampler=sampler)
    found = zip(tasks, spread(scan, tasks, sum(header.size for header in headers)), strict=True)
    files, rejected, sample = [], list[RejectedRow](), sampler.new_sample() if sampler else None
    for header, parts in groupby(found, key=lambda one: one[0].header):
        file, ranges = _join_ranges(header, parts, scan)
        files.append(file)
        for one in ranges:
            rejected += one.rejected
            if sample:
                sample.merge(pickle.loads(one.sample))
    return files, rejected[:MAX_SCAN_REJECTED], sample


def _parts(header: Header) -> list[ByteRange]:
    if header.is_compressed:
        return [ByteRange(header.path, 0, header.size)]
    return byte_ranges(header.path, header.size)


def _join_ranges(
    header: Header,
    parts: Iterable[tuple[RangeTask, ScannedRange | None]],
    scan: Callable[[RangeTask], ScannedRange | None],
) -> tuple[TextFile, list[ScannedRange]]:
    """Joins the results of a file's parts; rows and lines then count from the file's beginning."""
    row, line, byte = 1, header.first_line, header.data_start
    checkpoints, ranges = [(byte, row, line)], []
    for task, found in parts:
        if found is None or found.start != byte:  # The guess was wrong; now the start is known.
            found = scan(task._replace(start=byte))
            assert found is not None, "the start was given"
        found.rejected = [replace(r, row=r.row + row, line=r.line + line) for r in found.rejected]
        checkpoints += [(at, row + rows, line + lines) for at, rows, lines in found.checkpoints]
        row, line, byte = row + found.rows, line + found.lines, found.end
        ranges.append(found)
    checkpoints.append((byte, row, line))
    digests = [one for found in ranges for one in found.digests]
    return TextFile(
        path=header.path,
        names=header.names,
        data_start=header.data_start,
        data_end=byte,
        is_compressed=header.is_compressed,
        rows=row - 1,
        has_data=any(found.has_data for found in ranges),
        content=scanned_content(header.path, (header.size, header.state), digests),
        checkpoints=np.unique(np.array(checkpoints, np.int64), axis=0),
    ), ranges
