"""Files of lines: a scan in parts that counts and hashes, and the lines of a piece in blocks.

A line ends at LF; a CR before it belongs to the line's end.
"""

import codecs
import math
import pickle
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, groupby
from typing import BinaryIO, NamedTuple, Protocol, TypeVar

from penstock.components.errors import DataError
from penstock.components.files import cells
from penstock.components.files.cells import ByteRange, CellStream, byte_ranges
from penstock.components.files.content import (
    Content,
    file_size,
    look,
    open_data,
    scanned_content,
)
from penstock.components.sources.base import Piece
from penstock.components.sources.cutting import RowStart
from penstock.components.sources.opened_files import OpenedFile
from penstock.components.sources.spread import Spread
from penstock.components.tfrecord.sharding import MIB

_SCAN_BYTES = 4 * MIB
# Empty lines take some forty times their bytes in arrays.
_BLOCK_BYTES = MIB
_SNIFFED_BYTES = 512


@dataclass(frozen=True)
class LineBlock:
    """Whole lines of a file; or one line that is too long, cut.

    Attributes:
        offset: Where `data` begins in the file, in bytes.
        first_line: Number of the first line within the file, counted from 1.
        data: The lines, each with its end.
        is_cut: Whether it is the beginning of one line that is too long.
    """

    offset: int
    first_line: int
    data: bytes
    is_cut: bool = False


@dataclass(frozen=True, eq=False, kw_only=True)
class LineFile(OpenedFile):
    """A file as the scan found it; a row is a line.

    Attributes:
        data_start: First byte after a byte order mark.
        has_data: Whether any line is not blank.
        checkpoints: (byte, number) of lines from 1, ascending; the last is the file's end.
    """

    data_start: int
    has_data: bool
    checkpoints: tuple[tuple[int, int], ...]

    @property
    def units(self) -> int:
        """Bytes of data."""
        return self.content.size - self.data_start

    def for_reading(self) -> "LineFile":
        """See `OpenedFile`."""
        return replace(self, checkpoints=())

    def row_start(self, at: int, before: RowStart | None) -> RowStart:
        """The first line that starts at byte `at` of the data or after it, or the end."""
        wanted = self.data_start + at
        if before and before.position >= wanted:
            return before
        byte, line = self.checkpoints[bisect_right(self.checkpoints, (wanted, math.inf)) - 1]
        if before and before.position > byte:
            byte, line, _ = before
        last = b"\n"
        with open_data(self.path) as stream:
            stream.seek(byte)
            while byte < wanted and (block := stream.read(min(_SCAN_BYTES, wanted - byte))):
                byte, line, last = byte + len(block), line + block.count(b"\n"), block[-1:]
            if last != b"\n":  # Within a line: go to its end.
                while last != b"\n" and (block := stream.readline(_SCAN_BYTES)):
                    byte, last = byte + len(block), block[-1:]
                line += 1
        return RowStart(byte, line, line)


class LineSample(Protocol):
    """Some lines of a part of a file; picklable."""

    def add(self, lines: bytes) -> None:
        """Look at whole lines, those from the beginning of a cell on; cells come in order."""
        ...


SampleT = TypeVar("SampleT", bound=LineSample)


class _Cell(NamedTuple):
    """The lines of a cell of a file, a byte order mark left out.

    Attributes:
        size: Bytes.
        lines: How many lines end in it.
        first: Bytes up to the end of the first of these.
        last: Bytes up to the end of the last.
        has_data: Whether any byte is none of white space.
    """

    size: int
    lines: int
    first: int
    last: int
    has_data: bool


class _ScannedPart(NamedTuple):
    """Cells of a file, their sha256 digests, and the sample of the lines that begin there.

    The sample is pickled: 1 kB instead of 20, of each of a million files.
    """

    cells: list[_Cell]
    digests: tuple[bytes, ...]
    sample: bytes


def scan_lines(
    paths: Sequence[str],
    check_head: Callable[[bytes], str | None],
    spread: Spread,
    *,
    max_row_bytes: int | None = None,
    new_sample: Callable[[ByteRange], SampleT] | None = None,
) -> tuple[list[LineFile], Iterator[SampleT]]:
    """Scan files in parts; gives them, and the samples of the parts, in order.

    Args:
        paths: The files.
        check_head: Says of the first bytes of one what is wrong with them, if anything is.
        spread: Does the tasks.
        max_row_bytes: Longest line that is allowed; None for any.
        new_sample: Makes an empty sample of a part; picklable, as is `check_head`.
    """
    looks = [look(path) for path in paths]
    ranges = map(byte_ranges, paths, (size for size, _ in looks))
    tasks = list(chain.from_iterable(ranges))
    scan = partial(_scan_part, check_head=check_head, new_sample=new_sample)
    found = spread(scan, tasks, sum(size for size, _ in looks))
    by_file = groupby(zip(tasks, found, strict=True), key=lambda one: one[0].path)
    files = []
    for (path, parts), before in zip(by_file, looks, strict=True):
        scanned = [part for _, part in parts]
        content = scanned_content(path, before, [one for part in scanned for one in part.digests])
        files.append(
            _joined(path, content, [c for part in scanned for c in part.cells], max_row_bytes)
        )
    return files, (pickle.loads(part.sample) for part in found)


def _scan_part(
    part: ByteRange,
    check_head: Callable[[bytes], str | None],
    new_sample: Callable[[ByteRange], SampleT] | None,
) -> _ScannedPart:
    found, mark, sample = [], 0, new_sample(part) if new_sample else None
    with open_data(part.path) as file:
        is_last = file_size(file) == part.end
        if part.start:
            file.seek(part.start - 1)
            begun = part.start if file.read(1) == b"\n" else None
        else:
            begun = mark = _data_start(part.path, file, check_head)
        stream, at = CellStream(file, part.start, part.end), part.start
        while data := stream.read(min(cells.CELL_BYTES, part.end - at)):
            at += len(data)
            data, mark = data[mark:], 0
            first, last = data.find(b"\n") + 1, data.rfind(b"\n") + 1
            start = at - len(data)
            has_data = bool(data) and not data.isspace()
            found.append(_Cell(len(data), data.count(b"\n"), first, last, has_data))
            if sample and last:
                sample.add(data[0 if begun == start else first : last])
            # Where the line begins that goes on in the next cell; None if it is in no cell so far.
            begun = start + last if last else begun
    if sample and is_last and begun is not None and begun < at:
        sample.add(_tail(part.path, begun))
    return _ScannedPart(found, stream.digests(), pickle.dumps(sample))


def _data_start(path: str, file: BinaryIO, check_head: Callable[[bytes], str | None]) -> int:
    """The length of the byte order mark that a file begins with, which stands there again."""
    head = file.read(_SNIFFED_BYTES)
    file.seek(0)
    if problem := check_head(head):
        raise DataError(f"{path}: {problem}")
    return len(codecs.BOM_UTF8) if head.startswith(codecs.BOM_UTF8) else 0


def _joined(
    path: str, content: Content, found: Sequence[_Cell], max_row_bytes: int | None
) -> LineFile:
    """A file from what was found in its cells, lines counted from its beginning."""
    byte = start = content.size - sum(cell.size for cell in found)
    line, open_line = 1, 0
    checkpoints = [(byte, line)]
    for cell in found:
        # What begins a line here may be the end of one that began in the cell before.
        longest = max(open_line + (cell.first or cell.size), cell.size - cell.last)
        if max_row_bytes is not None and longest > max_row_bytes:
            raise DataError(
                f"{path}: line {line} or one soon after it is longer than `max_row_bytes` "
                f"{max_row_bytes}; set that higher if the line is right"
            )
        if cell.last:
            line += cell.lines
            checkpoints.append((byte + cell.last, line))
            open_line = cell.size - cell.last
        else:
            open_line += cell.size
        byte += cell.size
    line += bool(open_line)
    checkpoints.append((byte, line))
    return LineFile(
        path=path,
        content=content,
        rows=line - 1,
        data_start=start,
        has_data=any(cell.has_data for cell in found),
        checkpoints=tuple(checkpoints),
    )


def _tail(path: str, start: int) -> bytes:
    """All from a byte to the file's end: its last line, which no line end closes."""
    with open_data(path) as stream:
        stream.seek(start)
        return stream.read()


def read_blocks(stream: BinaryIO, piece: Piece, max_row_bytes: int) -> Iterator[LineBlock]:
    """The lines of a piece of an open file; no more than `max_row_bytes` of one is held."""
    byte, line = piece.start, piece.first_line
    stream.seek(byte)
    while byte < piece.end:
        data = stream.read(min(_BLOCK_BYTES, piece.end - byte))
        whole = data.rfind(b"\n") + 1
        is_last = byte + len(data) == piece.end
        if whole < len(data) and not is_last:
            data += stream.readline(max(0, max_row_bytes + 2 - (len(data) - whole)))
            is_last = byte + len(data) == piece.end
        if not data:
            raise DataError(f"{piece.file}: ends at byte {byte}, expected {piece.end} bytes")
        if is_last or data.endswith(b"\n"):
            whole = len(data)
        if whole:
            yield LineBlock(byte, line, data[:whole])
            line += data.count(b"\n", 0, whole)
        if whole < len(data):
            yield LineBlock(byte + whole, line, data[whole:], is_cut=True)
            byte, line = byte + len(data) + _skip_line(stream), line + 1
        else:
            byte += whole


def _skip_line(stream: BinaryIO) -> int:
    """Read to the end of the line; how many bytes that was."""
    size = 0
    while part := stream.readline(_BLOCK_BYTES):
        size += len(part)
        if part.endswith(b"\n"):
            break
    return size
