"""Stretches of a file of lines to the text of each line.

Almost all blocks are text throughout: one check of all bytes proves it, and the lines become an
Arrow array without any of them being looked at. Only where the check fails, they are.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.components.sources.base import RejectedRow
from penstock.components.sources.csv.blocks import RowBlock
from penstock.components.sources.lines.rows import too_long
from penstock.components.sources.lines.text.decoding import fault_in, to_utf8
from penstock.components.sources.text_files import RowPlace


@dataclass(frozen=True, eq=False)
class Lines:
    """The lines of a block.

    Attributes:
        text: The good ones in UTF-8, without line ends; binary [lines].
        numbers: Their numbers within the file; int64 [lines].
        rejected: Those that are no text, or too long.
        blank: How many were left out.
    """

    text: pa.BinaryArray
    numbers: np.ndarray
    rejected: tuple[RejectedRow, ...] = ()
    blank: int = 0


def parse_lines(
    block: RowBlock, place: RowPlace, encoding: str, *, max_row_bytes: int, skip_blank: bool
) -> Lines:
    """The lines of a block as text; those longer than `max_row_bytes`, bare, are rejected."""
    # What is said of a line's end then holds for a file's last line, too.
    data = block.data if block.data.endswith(b"\n") else block.data + b"\n"
    rejected: dict[int, RejectedRow] = {}
    try:
        text = to_utf8(data, encoding)
        is_odd = b"\0" in data or (
            len(data) > max_row_bytes and max(map(len, data.split(b"\n"))) > max_row_bytes
        )
    except UnicodeError:
        is_odd = True
    if is_odd:
        text, rejected = _isolate(data, block.offset, place, encoding, max_row_bytes)
    lines = pc.split_pattern(pa.array([text[:-1]], pa.binary()), b"\n").flatten()
    if b"\r" in text:
        lines = pc.replace_substring_regex(lines, r"\r\z", "")
    keep = np.ones(len(lines), np.bool_)
    if skip_blank:
        bare = pc.ascii_trim_whitespace(lines.cast(pa.string()))
        keep = pc.binary_length(bare).to_numpy(zero_copy_only=False) > 0
    keep[list(rejected)] = False
    return Lines(
        lines.filter(pa.array(keep)),
        place.line + np.flatnonzero(keep),
        tuple(rejected.values()),
        blank=len(keep) - int(keep.sum()) - len(rejected),
    )


def _isolate(
    data: bytes, offset: int, place: RowPlace, encoding: str, max_row_bytes: int
) -> tuple[bytes, dict[int, RejectedRow]]:
    """The lines in UTF-8, those that are no good made empty, and these by their place."""
    lines: list[bytes] = []
    rejected: dict[int, RejectedRow] = {}
    for at, line in enumerate(data[:-1].split(b"\n")):
        raw = line.removesuffix(b"\r")
        number = place.line + at
        if len(raw) > max_row_bytes:
            rejected[at] = too_long(raw, place.file, number, max_row_bytes)
        elif fault := fault_in(raw, encoding, what="line", offset=offset):
            rejected[at] = RejectedRow(place.file, number, number, None, fault, raw)
        lines.append(b"" if at in rejected else to_utf8(line, encoding))
        offset += len(line) + 1
    return b"\n".join(lines) + b"\n", rejected
