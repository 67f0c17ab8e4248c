"""Blocks of whole rows of delimited text, and the lines in them.

A line ends at LF, CRLF or a lone CR; a row is a line, or several where quotes hold line ends.
"""

from dataclasses import dataclass

import numpy as np

LF, CR, QUOTE = b'\n\r"'


@dataclass(frozen=True, eq=False)
class RowBlock:
    """Whole rows of a file.

    Attributes:
        offset: Where `data` begins in the file, in bytes.
        data: The rows' bytes, line ends included.
        rows: Number of rows, blank ones included.
        quoted: Whether there is any quote in `data`.
        ends: int64 [rows], where each row ends in `data`, its line end included; None where
            every line is a row and nobody has had to look yet.
        by_parity: Whether the parity of quotes tells what is inside quotes.
        broken_at: Where in `data` a quote opens that is not closed properly; the block then
            is that one row. None for all other blocks.
    """

    offset: int
    data: bytes
    rows: int
    quoted: bool = False
    ends: np.ndarray | None = None
    by_parity: bool = True
    broken_at: int | None = None

    @property
    def end(self) -> int:
        """One past the last byte, in the file."""
        return self.offset + len(self.data)

    @property
    def lines(self) -> int:
        """Number of physical lines."""
        return count_lines(self.data) if self.quoted else self.rows

    def row_ends(self) -> np.ndarray:
        """`ends`, found now if nobody has looked yet."""
        return self.ends if self.ends is not None else with_end(line_ends(self.data), self.data)

    def head(self, rows: int) -> "RowBlock":
        """The first rows, `rows` of them or somewhat fewer, without a look at all the others."""
        if self.ends is not None:
            return self.slice_rows(0, rows)
        ends = line_ends(self.data[: 2 * rows * len(self.data) // self.rows])[:rows]
        if not len(ends):
            return self.slice_rows(0, rows)
        return RowBlock(self.offset, self.data[: int(ends[-1])], len(ends), self.quoted, ends)

    def slice_rows(self, begin: int, end: int) -> "RowBlock":
        """Rows `begin` up to `end` as a block of their own."""
        ends = self.row_ends()
        first = int(ends[begin - 1]) if begin else 0
        data = self.data[first : int(ends[end - 1])]
        return RowBlock(
            self.offset + first,
            data,
            end - begin,
            quoted=self.quoted,
            ends=ends[begin:end] - first,
            by_parity=self.by_parity,
        )


def count_lines(data: bytes) -> int:
    """Number of physical lines, a last one without line end included."""
    lines = data.count(b"\n")
    if b"\r" in data:
        lines += data.count(b"\r") - data.count(b"\r\n")
    return lines + (not data.endswith((b"\n", b"\r")) if data else 0)


def line_breaks(data: bytes) -> int:
    """Number of line ends in `data`, which does not end within a CRLF."""
    return count_lines(data + b"_") - 1


def line_ends(data: bytes) -> np.ndarray:
    """Where the line ends of `data` end: int64, ascending, one past each LF, CRLF or lone CR."""
    values = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(values == LF) + 1
    if b"\r" not in data:
        return ends
    returns = np.flatnonzero(values == CR) + 1
    following = values[np.minimum(returns, len(values) - 1)]  # Of a last CR: itself.
    return np.sort(np.concatenate([ends, returns[following != LF]]))


def with_end(ends: np.ndarray, data: bytes) -> np.ndarray:
    """`ends`, and the end of `data` where its last line has no line end."""
    covered = len(ends) and ends[-1] == len(data)
    return ends if covered or not data else np.append(ends, len(data))
