"""A CSV file as its scan found it, and where it may be cut."""

from dataclasses import dataclass, replace

import numpy as np

from penstock.components.files.content import open_data
from penstock.components.sources.csv.rows import RowSplitter
from penstock.components.sources.cutting import RowStart
from penstock.components.sources.opened_files import OpenedFile


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

    def find_row(
        self, units: int, before: RowStart | None, splitter: RowSplitter, snap_bytes: float
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
                    head = block.slice_rows(0, rows)
                    return RowStart(head.end, row + rows, line + head.lines)
                row, line = row + block.rows, line + block.lines
        raise AssertionError(f"{self.path}: no row start from {byte} to {end}")
