"""The rows of CSV files that types are inferred from."""

from dataclasses import dataclass

import numpy as np

from penstock.components.files import cells
from penstock.components.sources.base import Column
from penstock.components.sources.csv.blocks import RowBlock
from penstock.components.sources.csv.header import Header
from penstock.components.sources.csv.parse import RowParser
from penstock.components.sources.csv.rows import RowSplitter
from penstock.components.sources.infer import TypeSample
from penstock.components.sources.options import SourceOptions
from penstock.components.tfrecord.feature_kind import FeatureKind

# At least as many rows from the beginning of each of many files, and from each later cell (of
# 8 MiB: about 1 row in 500, at a tenth of the scan's own cost).
_MIN_SAMPLED_ROWS = 64


@dataclass(frozen=True)
class CsvSampler:
    """Looks at the first rows of files, and at a few of every later cell.

    Attributes:
        names: The columns' names.
        files: Number of files.
        options: How the files are understood.
        splitter: Counts the fields of rows.
    """

    names: tuple[str, ...]
    files: int
    options: SourceOptions
    splitter: RowSplitter

    def new_sample(self) -> TypeSample:
        """Of nothing yet."""
        return TypeSample((*self.options.null_tokens, *self.options.text_null_tokens))

    def wanted(self, header: Header, cell: int) -> int:
        """How many rows to look at of those that begin in a cell."""
        rows = self.options.sample_rows // self.files
        if cell != header.data_start // cells.CELL_BYTES:
            rows = rows * cells.CELL_BYTES // header.size
        return max(_MIN_SAMPLED_ROWS, rows)

    def add(self, block: RowBlock, file_names: tuple[str, ...], sample: TypeSample) -> None:
        """Look at a block, whose rows are none of them broken."""
        columns = tuple(Column(name, FeatureKind.BYTES) for name in self.names)
        parser = RowParser(file_names, columns, self.options)
        ends = block.row_ends()
        starts = np.concatenate([[0], ends[:-1]])
        right = self.splitter.field_counts(block) == len(file_names)
        kept = [block.data[s:e] for s, e in zip(starts[right], ends[right], strict=True)]
        data = b"".join(kept)
        if not data.strip(b"\r\n"):
            return
        for name, values in parser.parse_raw(data, quoted=block.quoted).items():
            sample.add(name, values)
