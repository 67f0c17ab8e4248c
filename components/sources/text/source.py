"""A `Source` of text files with rows, read in byte ranges that begin at row starts.

Each file is scanned once, by one task, which counts rows, computes the digest, and finds places to
cut. For each cell (8 MiB) of the file, the result takes 24 bytes: byte offset, row number and line
number of the start of a row.
"""

import codecs
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np

from penstock.components.errors import DataError
from penstock.components.files.content import (
    EMPTY_ADVICE,
    HashingStream,
    look,
    open_data,
    open_unchanged,
    scanned_content,
)
from penstock.components.files.find import Found
from penstock.components.sources.base import Batch, Piece, RejectedRow
from penstock.components.sources.batches import empty_batch
from penstock.components.sources.files import (
    SNAP_SHARE,
    FileSource,
    RowStart,
    ScannedFile,
    map_files,
)
from penstock.components.sources.spread import Spread
from penstock.components.sources.text.blocks import RowBlock, RowPlace, Splitter, too_long
from penstock.components.sources.text.codec import TextStream, read_head
from penstock.components.tfrecord.compression import Readable
from penstock.components.tfrecord.sharding import MIB

# The scan divides each file into cells of this number of bytes. It stores the place of the first
# row that begins in each cell.
CELL_BYTES = 8 * MIB
# Number of bytes read after a cut to find the end of the row there; a longer row takes more reads.
_ROW_BYTES = 16 << 10
# Maximum number of rejected rows that a scan of all files stores for error messages.
MAX_SCAN_REJECTED = 100
# Minimum number of rows sampled from the beginning of each file, and the size of the blocks in
# which they are read.
_MIN_SAMPLED_ROWS = 64
_SAMPLE_BYTES = 256 << 10
_SNIFFED_BYTES = 512
_FILES_AT_ONCE = 256

SourceT = TypeVar("SourceT", bound="TextSource")


class Header(NamedTuple):
    """The start of a file: column names, if it has any, and byte and line (from 1) of its data."""

    path: str
    names: tuple[str, ...]
    data_start: int
    first_line: int
    size: int
    state: int
    is_compressed: bool


@dataclass(frozen=True, eq=False, kw_only=True)
class TextFile(ScannedFile):
    header: Header
    data_end: int
    has_data: bool  # Whether any row is not blank
    # int64 [n, 3]: byte, row and line of the first row start of each cell that has one; last, those
    # of the end of the data.
    checkpoints: np.ndarray

    @property
    def units(self) -> int:
        return self.data_end - self.header.data_start

    def for_reading(self, start: int, end: int) -> "TextFile":
        return replace(self, checkpoints=self.checkpoints[:0])


@dataclass(frozen=True, eq=False, kw_only=True)
class TextSource(FileSource[TextFile]):
    """A source of text files with rows; each file kind has its own `splitter` and `batches`."""

    splitter: Splitter

    @classmethod
    def scan(
        cls: type[SourceT],
        kind: str,
        listing: Found,
        headers: Sequence[Header],
        splitter: Splitter,
        spread: Spread,
        **fields: Any,
    ) -> SourceT:
        """Scans files and finds their broken rows; `fields` are other attributes of the source.

        Raises DataError if a file has only blank rows or none, unless the option `allow_empty` is
        set.
        """
        scan = partial(_scan_file, splitter=splitter)
        found = spread(scan, headers, sum(header.size for header in headers))
        for file, _ in found:
            if not (file.has_data or fields["options"].allow_empty):
                what = "has a header and no rows" if file.header.names else "holds only blank lines"
                what = what if file.content.size else "is empty (0 bytes)"
                raise DataError(f"{file.path}: {what}; {EMPTY_ADVICE}")
        rejected = [row for _, rows in found for row in rows]
        fields["rejected_by_scan"] = tuple(rejected[:MAX_SCAN_REJECTED])
        return cls.of(kind, [file for file, _ in found], listing, splitter=splitter, **fields)

    @property
    def most_parts(self) -> int:
        files = self.scanned.values()
        return len(files) if all(file.header.is_compressed for file in files) else self.rows

    @abstractmethod
    def batches(self, block: RowBlock, place: RowPlace) -> Iterator[Batch]:
        """Yields the rows of an unbroken block."""

    def good_lines(
        self,
        block: RowBlock,
        place: RowPlace,
        parse: Callable[[bytes, int], Any],
        *,
        skip_blank: bool = True,
    ) -> tuple[list[tuple[int, bytes, Any]], list[RejectedRow]]:
        """Returns number, bytes and parsed value of each good line, and the rejected lines.

        `parse` gets a line, without its end (LF or CRLF), and the line's offset in the file. For a
        line that it rejects, it raises `ValueError(reason)` or `ValueError(reason, column)`.
        """
        most, offset = self.splitter.max_row_bytes, block.offset
        found, rejected = list[tuple[int, bytes, Any]](), list[RejectedRow]()
        for number, raw in enumerate(block.data.removesuffix(b"\n").split(b"\n"), place.line):
            line = raw.removesuffix(b"\r")
            if len(line) > most:
                rejected.append(too_long(RowPlace(place.file, number, number), line, most))
            elif line.strip() or not skip_blank:
                try:
                    found.append((number, line, parse(line, offset)))
                except ValueError as error:
                    reason, column, *_ = (*error.args, None)
                    rejected.append(RejectedRow(place.file, number, number, column, reason, line))
            offset += len(raw) + 1
        return found, rejected

    def row_start(self, file: TextFile, at: int, before: RowStart | None, parts: int) -> RowStart:
        """Returns the start of the first row at or after byte `at` of the data, or the end.

        If a checkpoint before or after `at` is close enough, it is returned instead, and nothing is
        read. Otherwise the search begins at the last checkpoint before `at`, or at `before` if that
        is later. A compressed file is not cut.
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


def line_header(
    path: str, check_head: Callable[[bytes], str | None], size: int = _SNIFFED_BYTES
) -> tuple[Header, bytes]:
    """Returns a header without column names, and the first bytes of the file.

    The header's `data_start` is after the byte order mark, if there is one. `check_head` returns a
    description of the fault in the first bytes, or None; a fault raises DataError.
    """
    before = look(path)
    head, is_compressed = read_head(path, size)
    if problem := check_head(head):
        raise DataError(f"{path}: {problem}")
    start = len(codecs.BOM_UTF8) if head.startswith(codecs.BOM_UTF8) else 0
    return Header(path, (), start, 1, *before, is_compressed), head


def sample_rows(
    headers: Sequence[Header], splitter: Splitter, rows: int
) -> Iterator[tuple[Header, RowBlock]]:
    """Yields the first rows of each file, without broken rows.

    There are about `rows` rows in all, but at least 64 from each file that has so many.
    """
    some = partial(
        _first_rows,
        splitter=replace(splitter, block_bytes=_SAMPLE_BYTES),
        wanted=max(_MIN_SAMPLED_ROWS, rows // max(1, len(headers))),
    )
    for at in range(0, len(headers), _FILES_AT_ONCE):
        for blocks in map_files(some, headers[at : at + _FILES_AT_ONCE]):
            yield from blocks


def _first_rows(header: Header, splitter: Splitter, wanted: int) -> list[tuple[Header, RowBlock]]:
    found = []
    with open_data(header.path) as file:
        for block in _split(file, header, splitter):
            if block.broken_at is None:
                found.append((header, block.slice(0, min(wanted, block.rows))))
                wanted -= block.rows
            if wanted <= 0:
                break
    return found


def _split(stream: Readable, header: Header, splitter: Splitter) -> Iterator[RowBlock]:
    end: int | None = header.size
    if header.is_compressed:
        stream, end = TextStream(stream, header.path), None
    stream.read(header.data_start)
    return splitter.split(stream, header.data_start, end, header.path)


def _scan_file(header: Header, splitter: Splitter) -> tuple[TextFile, list[RejectedRow]]:
    path, byte, has_data = header.path, header.data_start, False
    blank = None if splitter.delimiter is None else b"\r\n"  # None means any white space.
    place = RowPlace(path, 1, header.first_line)
    checkpoints, rejected = [(byte, place.row, place.line)], list[RejectedRow]()
    with open_data(path) as file:
        hashed = HashingStream(file)
        for block in _split(hashed, header, splitter):
            if block.broken_at is not None and len(rejected) < MAX_SCAN_REJECTED:
                rejected.append(splitter.rejected(block, place))
            has_data = has_data or bool(block.data.strip(blank))
            starts = block.offset + block.starts
            last_cell = checkpoints[-1][0] // CELL_BYTES
            for at in np.flatnonzero(np.diff(starts // CELL_BYTES, prepend=last_cell)):
                _, row, line = place.after(block.slice(0, at))
                checkpoints.append((int(starts[at]), row, line))
            place, byte = place.after(block), block.end
        digest = hashed.read_out().digest
    checkpoints.append((byte, place.row, place.line))
    scanned = TextFile(
        path=path,
        header=header,
        data_end=byte,
        rows=place.row - 1,
        has_data=has_data,
        content=scanned_content(path, (header.size, header.state), digest),
        checkpoints=np.unique(np.array(checkpoints, np.int64), axis=0),
    )
    return scanned, rejected
