"""The kinds of a CSV's columns, from rows that the scan comes past anyway."""

import numpy as np

from penstock.components.sources.base import Column
from penstock.components.sources.csv.blocks import RowBlock
from penstock.components.sources.csv.parse import RowParser
from penstock.components.sources.csv.rows import RowSplitter
from penstock.components.sources.infer import TypeSample
from penstock.components.sources.options import SourceOptions
from penstock.components.tfrecord.feature_kind import FeatureKind

# At least as many rows from the beginning of each of many files, and from each later block
# (of 8 MiB: about 1 row in 500, at a tenth of the scan's own cost).
_MIN_ROWS = 64


class CsvSampler:
    """Collects the sample: the beginnings of all files, and a few rows of every later block.

    Args:
        names: The columns' names.
        files: How many files share `options.sample_rows`.
        splitter: Knows the delimiter.
        options: Null tokens and the size of the sample.
    """

    def __init__(
        self, names: tuple[str, ...], files: int, splitter: RowSplitter, options: SourceOptions
    ) -> None:
        self._names = names
        self._first_rows = max(_MIN_ROWS, options.sample_rows // files)
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
        rows = min(block.rows, max(_MIN_ROWS, self._wanted_rows))
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
