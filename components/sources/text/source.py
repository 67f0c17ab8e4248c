"""Files of rows of text as a `Source`: byte ranges that begin at row starts."""

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from penstock.components.files.content import open_data, open_unchanged
from penstock.components.sources.base import Batch, Piece
from penstock.components.sources.batches import empty_batch
from penstock.components.sources.files import SNAP_SHARE, FileSource, RowStart
from penstock.components.sources.text.blocks import RowBlock, RowPlace, Splitter
from penstock.components.sources.text.codec import TextStream
from penstock.components.sources.text.scan import TextFile
from penstock.components.tfrecord.compression import Readable

# Bytes read beyond a cut, to find the end of its row; a longer row takes further reads.
_ROW_BYTES = 16 << 10


@dataclass(frozen=True, eq=False, kw_only=True)
class TextSource(FileSource[TextFile]):
    """Files of rows of text; each kind has its own `splitter` and `batches`."""

    splitter: Splitter  # Finds the rows.

    @property
    def most_parts(self) -> int:
        files = self.scanned.values()
        return len(files) if all(file.header.is_compressed for file in files) else self.rows

    @abstractmethod
    def batches(self, block: RowBlock, place: RowPlace) -> Iterator[Batch]:
        """Yields the rows of an unbroken block, at most `MAX_BATCH_ROWS` good ones per batch."""

    def row_start(self, file: TextFile, at: int, before: RowStart | None, parts: int) -> RowStart:
        """Returns the start of the first row at byte `at` of the data or after it, or the end.

        If a checkpoint is close enough, returns it instead, without reading. Otherwise searches
        from the checkpoint before `at`, or from `before`. A compressed file is not cut.
        """
        if file.header.is_compressed:
            return RowStart(*map(int, file.checkpoints[-1 if at else 0]))
        byte, checkpoints = file.header.data_start + at, file.checkpoints
        after = int(np.searchsorted(checkpoints[:, 0], byte, side="right"))
        near = [RowStart(*map(int, one)) for one in checkpoints[after - 1 : after + 1]]
        nearest = min(near, key=lambda one: abs(one.position - byte))
        if abs(nearest.position - byte) <= SNAP_SHARE * self.input_bytes / parts:
            return nearest
        start = max(near[0], before or near[0])
        if start.position >= byte:
            return start
        return self._search(file, byte, start, int(checkpoints[after, 0]))

    def _search(self, file: TextFile, byte: int, start: RowStart, end: int) -> RowStart:
        place = RowPlace(file.path, start.row, start.line)
        near = byte - start.position + _ROW_BYTES
        splitter = replace(self.splitter, block_bytes=min(near, self.splitter.block_bytes))
        with open_data(file.path) as stream:
            stream.seek(start.position)
            for block in splitter.split(stream, start.position, end, file.path):
                if block.end >= byte:
                    rows = int(np.searchsorted(block.ends, byte - block.offset)) + 1
                    head = block.slice(0, rows) if rows < block.rows else block
                    return RowStart(head.end, *place.after(head)[1:])
                place = place.after(block)
        raise AssertionError(f"{file.path}: no row start from {byte} to {end}")

    def read_piece(self, file: TextFile, piece: Piece) -> Iterator[Batch]:
        splitter, place = self.splitter, RowPlace(file.path, piece.first_row, piece.first_line)
        with open_unchanged(file.path, file.content) as opened:
            stream: Readable = opened
            if file.header.is_compressed:
                stream = TextStream(opened, file.path)
                stream.read(piece.start)
            else:
                opened.seek(piece.start)
            for block in splitter.split(stream, piece.start, piece.end, file.path):
                if block.broken_at is None:
                    yield from self.batches(block, place)
                else:
                    rejected = splitter.rejected(block, place)
                    yield Batch(empty_batch(self.columns), (rejected,))
                place = place.after(block)
