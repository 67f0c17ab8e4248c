"""Lines of text as a `Source`: byte ranges cut at line ends, a row a line."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.components.files.content import check_size, open_data
from penstock.components.sources.base import Batch, Column, Piece, RejectedRow
from penstock.components.sources.batches import MAX_BATCH_ROWS, batch_of
from penstock.components.sources.cutting import cut_files
from penstock.components.sources.lines.file import LineFile
from penstock.components.sources.lines.text.blocks import Lines, parse_lines, read_blocks
from penstock.components.sources.lines.text.options import TextOptions


@dataclass(frozen=True, eq=False)
class LineSource:
    """Files of lines, scanned; see `Source` for its other attributes.

    Attributes:
        columns: Those of the line's text, of its file's name and of its number.
        ignored: Stray files beside the data, left out.
        rejected_by_scan: None; a line is looked at when it is read.
        options: How the files are understood.
        scanned: The files that have lines.
        names: Path to path below the input.
    """

    columns: tuple[Column, ...]
    fingerprint: str
    rows: int
    files: tuple[str, ...]
    input_bytes: int
    ignored: tuple[str, ...]
    options: TextOptions
    scanned: tuple[LineFile, ...]
    names: Mapping[str, str]
    rejected_by_scan: tuple[RejectedRow, ...] = ()
    kind: str = "text"

    def cut(self, parts: int) -> list[tuple[Piece, ...]]:
        """The whole input as `parts` runs of byte ranges of about equal size, in order."""
        return cut_files(self.scanned, parts, lambda file, at: file.row_start(at))

    def read(self, pieces: Sequence[Piece]) -> Iterator[Batch]:
        """The lines of the pieces, at most `MAX_BATCH_ROWS` in a batch.

        Raises:
            DataError: A file has changed since it was scanned.
        """
        options = self.options
        sizes = {file.path: file.size for file in self.scanned}
        for piece in pieces:
            name = _repeated(os.fsencode(self.names[piece.file]), MAX_BATCH_ROWS)
            with open_data(piece.file) as stream:
                check_size(stream, sizes[piece.file], piece.file)
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
