"""Files to runs of pieces of about equal size: integers only, whatever the kind of file."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple, Protocol, TypeVar

from penstock.components.sources.base import Piece

# Within this share of a part from the place wanted, one to cut at that costs nothing is taken: else
# a row must be searched, or two workers decompress a row group that they share.
SNAP_SHARE = 0.25


class RowStart(NamedTuple):
    """A place in a file at which a row begins, or the end of the file.

    Attributes:
        position: Byte (delimited text) or row (Parquet) that a `Piece` may start at.
        row: Number of the row within the file, counted from 1.
        line: Its physical line, counted from 1; 0 where a file has no lines.
    """

    position: int
    row: int
    line: int = 0


class Rows(NamedTuple):
    """Rows that no file holds, and how many, as `cut_files` takes a file."""

    path: str
    units: int


class _CutFile(Protocol):
    """A file, and how much there is to read in it: bytes or rows."""

    @property
    def path(self) -> str: ...

    @property
    def units(self) -> int: ...


FileT = TypeVar("FileT", bound=_CutFile)


def cut_files(
    files: Sequence[FileT],
    parts: int,
    row_start: Callable[[FileT, int, RowStart | None], RowStart],
) -> list[tuple[Piece, ...]]:
    """All files, in order, as `parts` contiguous runs of pieces.

    Args:
        files: What is to be read.
        parts: Number of runs, at least 1; some are empty where there are fewer rows.
        row_start: A place in a file where a row begins near so many units from its first:
            the first row's for 0, the file's end for all units, ascending in between. Is told what
            it gave for the place before in the file, so that it need not search from further back.
    """
    total = sum(file.units for file in files)
    bounds = [part * total // parts for part in range(parts + 1)]
    runs: list[list[Piece]] = [[] for _ in range(parts)]
    before = 0
    for file in files:
        after = before + file.units
        part = bisect_right(bounds, before) - 1
        inner = bounds[part + 1 : bisect_left(bounds, after)]
        starts: list[RowStart] = []
        for place in (before, *inner, after):
            starts.append(row_start(file, place - before, starts[-1] if starts else None))
        for at, (start, end) in enumerate(pairwise(starts)):
            if start.position < end.position:
                piece = Piece(file.path, start.position, end.position, start.row, start.line)
                runs[part + at].append(piece)
        before = after
    return [tuple(run) for run in runs]
