"""Lines of text as a `Source`: byte ranges cut at line ends, a row a line."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.components.files.content import open_unchanged
from penstock.components.sources.base import Batch, Piece
from penstock.components.sources.batches import MAX_BATCH_ROWS, batch_of
from penstock.components.sources.lines.file import LineFile, read_blocks
from penstock.components.sources.lines.text.blocks import Lines, parse_lines
from penstock.components.sources.lines.text.options import TextOptions
from penstock.components.sources.opened_files import OpenedFiles


@dataclass(frozen=True, eq=False, kw_only=True)
class LineSource(OpenedFiles[LineFile]):
    """Files of lines, scanned; a line is looked at when it is read.

    Attributes:
        columns: Those of the line's text, of its file's name and of its number.
        names: Path to path below the input.
    """

    options: TextOptions
    names: Mapping[str, str]

    def read(self, pieces: Sequence[Piece]) -> Iterator[Batch]:
        """The lines of the pieces, at most `MAX_BATCH_ROWS` in a batch.

        Raises:
            DataError: A file has changed since it was scanned.
        """
        options = self.options
        for piece in pieces:
            name = _repeated(os.fsencode(self.names[piece.file]), MAX_BATCH_ROWS)
            with open_unchanged(piece.file, self.scanned[piece.file].content) as stream:
                for block in read_blocks(stream, piece, options.max_row_bytes):
                    lines = parse_lines(
                        block,
                        piece.file,
                        options.encoding,
                        max_row_bytes=options.max_row_bytes,
                        skip_blank=options.skip_blank,
                    )
                    yield from self._batches(lines, name)

    def _batches(self, lines: Lines, name: pa.BinaryArray) -> Iterator[Batch]:
        rejected, blank = lines.rejected, lines.blank
        for start in range(0, max(1, len(lines.text)), MAX_BATCH_ROWS):
            text = lines.text.slice(start, MAX_BATCH_ROWS)
            numbers = pa.array(lines.numbers[start : start + MAX_BATCH_ROWS], pa.int64())
            table = batch_of(self.columns, [text, name.slice(0, len(text)), numbers])
            yield Batch(table, rejected, blank)
            rejected, blank = (), 0


def _repeated(value: bytes, times: int) -> pa.BinaryArray:
    offsets = np.arange(times + 1, dtype=np.int32) * len(value)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(value * times)]
    return pa.Array.from_buffers(pa.binary(), times, buffers)
