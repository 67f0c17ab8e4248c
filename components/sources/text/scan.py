"""One scan of each text file: counts rows, digests, samples, and finds places to cut.

One read by one task counts rows, computes sha256 and samples the first rows for type inference. The
result has 24 bytes per cell of the file: byte, row and line of a row start.
"""

import pickle
import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from penstock.components.files import cells
from penstock.components.files.cells import CellStream
from penstock.components.files.content import open_data, scanned_content
from penstock.components.sources.base import RejectedRow
from penstock.components.sources.files import ScannedFile
from penstock.components.sources.spread import Spread
from penstock.components.sources.text.blocks import RowBlock, RowPlace, Splitter, read_exactly
from penstock.components.sources.text.codec import TextStream
from penstock.components.tfrecord.compression import Readable

# Maximum number of rejected rows that a scan keeps: enough to show.
MAX_SCAN_REJECTED = 100
# Minimum number of rows sampled from the beginning of each file.
_MIN_SAMPLED_ROWS = 64
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
    # int64 [cells + 1, 3]: byte, row and line of row starts, ascending; the last is the end.
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
    """Samples the first rows of files."""

    files: int
    sample_rows: int  # Number of rows to sample from all files together.

    @abstractmethod
    def new_sample(self) -> SampleT:
        """Returns an empty sample."""

    @abstractmethod
    def add(self, block: RowBlock, header: Header, sample: SampleT) -> None:
        """Adds the rows of a block that is not broken to the sample."""


class _Scanned(NamedTuple):
    file: TextFile
    rejected: list[RejectedRow]
    sample: bytes  # Pickled: 1 kB instead of 20, which counts for a million files.


def scan_files(
    headers: Sequence[Header],
    splitter: Splitter,
    sampler: Sampler[SampleT] | None,
    spread: Spread,
) -> tuple[list[TextFile], list[RejectedRow], SampleT | None]:
    """Scans files; returns them, their first broken rows, and the merged sample."""
    scan = partial(_scan_file, splitter=splitter, sampler=sampler)
    found = spread(scan, headers, sum(header.size for header in headers))
    rejected = [row for one in found for row in one.rejected]
    sample = sampler.new_sample() if sampler else None
    if sample:
        for one in found:
            sample.merge(pickle.loads(one.sample))
    return [one.file for one in found], rejected[:MAX_SCAN_REJECTED], sample


def _scan_file(header: Header, splitter: Splitter, sampler: Sampler[Any] | None) -> _Scanned:
    path, end = header.path, header.size
    row, line, byte, has_data = 1, header.first_line, header.data_start, False
    checkpoints, rejected = [(byte, row, line)], list[RejectedRow]()
    sample = sampler.new_sample() if sampler else None
    wanted = max(_MIN_SAMPLED_ROWS, sampler.sample_rows // sampler.files) if sampler else 0
    with open_data(path) as file:
        stream: Readable = (hashed := CellStream(file, 0, header.size))
        if header.is_compressed:
            stream, end = TextStream(hashed, path), _UNKNOWN
        read_exactly(stream, byte, path)
        for block in splitter.split(stream, byte, end, path):
            if block.broken_at is not None:
                if len(rejected) < MAX_SCAN_REJECTED:
                    rejected.append(splitter.rejected(block, RowPlace(path, row, line)))
            elif sampler and wanted:
                first = block.head(wanted)
                wanted -= first.rows
                sampler.add(first, header, sample)
            has_data = has_data or bool(block.data.strip(splitter.blank))
            for part in block.by_cell(cells.CELL_BYTES):
                if part.offset // cells.CELL_BYTES > checkpoints[-1][0] // cells.CELL_BYTES:
                    checkpoints.append((part.offset, row, line))
                row, line, byte = row + part.rows, line + part.lines, part.end
        digests = hashed.digests()
    checkpoints.append((byte, row, line))
    scanned = TextFile(
        path=path,
        names=header.names,
        data_start=header.data_start,
        data_end=byte,
        is_compressed=header.is_compressed,
        rows=row - 1,
        has_data=has_data,
        content=scanned_content(path, (header.size, header.state), digests),
        checkpoints=np.unique(np.array(checkpoints, np.int64), axis=0),
    )
    return _Scanned(scanned, rejected, pickle.dumps(sample))
