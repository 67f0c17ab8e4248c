"""One pass over a CSV file: its rows, its content's digest, and where work may be cut.

The same read that counts rows computes sha256 and hands the sampler of types some rows.
Kept of it are 24 bytes for each block: a place where a row begins, with its numbers.
"""

from dataclasses import dataclass, replace

import numpy as np

from penstock.components.errors import DataError
from penstock.components.files.content import HashingStream, file_state, open_data
from penstock.components.sources.base import Column, RejectedRow
from penstock.components.sources.csv.blocks import RowBlock
from penstock.components.sources.csv.header import Header
from penstock.components.sources.csv.isolate import RowPlace, broken_row
from penstock.components.sources.csv.parse import RowParser
from penstock.components.sources.csv.rows import RowSplitter
from penstock.components.sources.cutting import RowStart
from penstock.components.sources.infer import TypeSample
from penstock.components.sources.opened_files import OpenedFile
from penstock.components.sources.options import SourceOptions
from penstock.components.tfrecord.feature_kind import FeatureKind

# At least as many rows from the beginning of each of many files, and from each later block
# (of 8 MiB: about 1 row in 500, at a tenth of the scan's own cost).
_MIN_SAMPLED_ROWS = 64
# Rejected rows that a scan keeps: enough to show, and bounded.
MAX_SCAN_REJECTED = 100


@dataclass(frozen=True, eq=False, kw_only=True)
class CsvFile(OpenedFile):
    """A file as the scan found it.

    Attributes:
        names: Its columns' names, in its order.
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

    def for_reading(self) -> "CsvFile":
        """See `OpenedFile`."""
        return replace(self, checkpoints=self.checkpoints[:0])

    def find_row(self, units: int, splitter: RowSplitter) -> RowStart:
        """The first row that starts at byte `units` of the data or after it, or the end."""
        byte = self.data_start + units
        after = int(np.searchsorted(self.checkpoints[:, 0], byte, side="right"))
        start, row, line = (int(value) for value in self.checkpoints[after - 1])
        if start == byte:
            return RowStart(start, row, line)
        end = int(self.checkpoints[after, 0])
        with open_data(self.path) as stream:
            stream.seek(start)
            for block in splitter.split(stream, start, end, self.path):
                if block.end >= byte:
                    rows = int(np.searchsorted(block.row_ends(), byte - block.offset)) + 1
                    head = block.slice_rows(0, rows)
                    return RowStart(head.end, row + rows, line + head.lines)
                row, line = row + block.rows, line + block.lines
        raise AssertionError(f"{self.path}: no row start from {byte} to {end}")


class CsvSampler:
    """Collects the sample: the beginnings of all files, and a few rows of every later block."""

    def __init__(
        self, names: tuple[str, ...], files: int, splitter: RowSplitter, options: SourceOptions
    ) -> None:
        self._names = names
        self._first_rows = max(_MIN_SAMPLED_ROWS, options.sample_rows // files)
        self._wanted_rows = 0
        self._parser = RowParser((), (), options)
        self._splitter = splitter
        self._options = options
        self._sample = TypeSample((*options.null_tokens, *options.text_null_tokens))

    def begin_file(self, file_names: tuple[str, ...]) -> None:
        """The blocks that follow are of a file with these columns, in this order."""
        self._wanted_rows = self._first_rows
        columns = tuple(Column(name, FeatureKind.BYTES) for name in self._names)
        self._parser = RowParser(file_names, columns, self._options)

    def add(self, block: RowBlock) -> None:
        """Look at the first rows of a block, whose rows are none of them broken."""
        rows = min(block.rows, max(_MIN_SAMPLED_ROWS, self._wanted_rows))
        self._wanted_rows -= rows
        block = block.head(rows)
        ends = block.row_ends()
        starts = np.concatenate([[0], ends[:-1]])
        right = self._splitter.field_counts(block) == len(self._parser.names)
        kept = [block.data[s:e] for s, e in zip(starts[right], ends[right], strict=True)]
        data = b"".join(kept)
        if not data.strip(b"\r\n"):
            return
        for name, values in self._parser.parse_raw(data, quoted=block.quoted).items():
            self._sample.add(name, values)

    def columns(self) -> tuple[Column, ...]:
        """The columns with the kinds that the sample speaks for."""
        return tuple(Column(name, self._sample.kind(name), is_text=True) for name in self._names)


def scan_file(
    header: Header, splitter: RowSplitter, sampler: CsvSampler | None
) -> tuple[CsvFile, list[RejectedRow]]:
    """Scan one file; gives it, and its first rows with a quote that is not closed.

    The sampler is shown every block of good rows.

    Raises:
        DataError: It is cut while it is read, or has a line that is too long.
    """
    row, line = 1, header.first_line
    checkpoints = [(header.data_start, row, line)]
    rejected: list[RejectedRow] = []
    has_data = False
    if sampler:
        sampler.begin_file(header.names)
    with open_data(header.path) as file:
        stream = HashingStream(file)
        stream.read(header.data_start)
        for block in splitter.split(stream, header.data_start, header.size, header.path):
            if block.broken_at is None:
                if sampler:
                    sampler.add(block)
            elif len(rejected) < MAX_SCAN_REJECTED:
                rejected.append(broken_row(block, RowPlace(header.path, row, line)))
            has_data = has_data or bool(block.data.strip(b"\r\n"))
            row, line = row + block.rows, line + block.lines
            checkpoints.append((block.end, row, line))
        if file.read(1) or file_state(file) != header.state:
            raise DataError(
                f"{header.path}: was changed while it was read; start again when it is complete"
            )
    return CsvFile(
        path=header.path,
        names=header.names,
        data_start=header.data_start,
        rows=row - 1,
        has_data=has_data,
        content=stream.content(),
        checkpoints=np.array(checkpoints, np.int64),
    ), rejected
