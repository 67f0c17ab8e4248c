"""Text as a `Source`: lines in byte ranges cut at line ends, a row a line, or whole documents."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.components.errors import DataError
from penstock.components.files.content import EMPTY_ADVICE, open_data
from penstock.components.files.listing import Listing
from penstock.components.sources.base import Batch, Column, RejectedRow, Source
from penstock.components.sources.batches import MAX_BATCH_ROWS, batch_of
from penstock.components.sources.csv.blocks import RowBlock
from penstock.components.sources.lines.rows import LineSplitter, read_header, too_long
from penstock.components.sources.lines.text.decoding import (
    check_head,
    document_text,
    fault_in,
    to_utf8,
)
from penstock.components.sources.lines.text.options import Text
from penstock.components.sources.spread import Spread, here
from penstock.components.sources.text_files import RowPlace, TextFile, TextFiles
from penstock.components.sources.text_scan import scan_files
from penstock.components.sources.whole_files.scan import for_each_file
from penstock.components.sources.whole_files.source import FILENAME, as_named, open_whole_files
from penstock.components.sources.whole_files.tree import STRAY, find_tree
from penstock.components.tfrecord.feature_kind import FeatureKind
from penstock.components.tfrecord.sharding import MIB

TEXT = Column("text", FeatureKind.BYTES, is_text=True)
LINE = Column("line", FeatureKind.INT)


@dataclass(frozen=True, eq=False, kw_only=True)
class LineSource(TextFiles):
    """Files of lines, scanned, with names below the input; a line is looked at when it is read."""

    options: Text
    names: Mapping[str, str]

    @property
    def splitter(self) -> LineSplitter:
        """See `TextFiles`."""
        return LineSplitter(self.options.max_row_bytes)

    def batches(self, block: RowBlock, place: RowPlace) -> Iterator[Batch]:
        """See `TextFiles`."""
        text, rejected = self._as_utf8(block, place)
        lines = pc.split_pattern(pa.array([text[:-1]], pa.binary()), b"\n").flatten()
        if b"\r" in text:
            lines = pc.replace_substring_regex(lines, r"\r\z", "")
        keep = np.ones(len(lines), np.bool_)
        if self.options.skip_blank:
            bare = pc.ascii_trim_whitespace(lines.cast(pa.string()))
            keep = pc.binary_length(bare).to_numpy(zero_copy_only=False) > 0
        keep[list(rejected)] = False
        lines, numbers = lines.filter(pa.array(keep)), place.line + np.flatnonzero(keep)
        account = (tuple(rejected.values()), len(keep) - len(lines) - len(rejected))
        name = _repeated(os.fsencode(self.names[place.file]), MAX_BATCH_ROWS)
        for start in range(0, max(1, len(lines)), MAX_BATCH_ROWS):
            some = lines.slice(start, MAX_BATCH_ROWS)
            numbered = pa.array(numbers[start : start + MAX_BATCH_ROWS], pa.int64())
            columns = [some, name.slice(0, len(some)), numbered]
            yield Batch(batch_of(self.columns, columns), *account)
            account = ((), 0)

    def _as_utf8(self, block: RowBlock, place: RowPlace) -> tuple[bytes, dict[int, RejectedRow]]:
        """The lines of a block, those that are no good made empty, and these by their place.

        Almost all blocks are text throughout: one check of all bytes proves it, and no line is
        looked at. Only where the check fails, they are.
        """
        most = self.options.max_row_bytes
        # What is said of a line's end then holds for a file's last line, too.
        data = block.data if block.data.endswith(b"\n") else block.data + b"\n"
        try:
            text = to_utf8(data, self.options.encoding)
            is_long = len(data) > most and max(map(len, data.split(b"\n"))) > most
            if b"\0" not in data and not is_long:
                return text, {}
        except UnicodeError:
            pass
        return _isolate(data, block.offset, place, self.options)


def _isolate(
    data: bytes, offset: int, place: RowPlace, options: Text
) -> tuple[bytes, dict[int, RejectedRow]]:
    """As `_as_utf8`, every line looked at."""
    lines: list[bytes] = []
    rejected: dict[int, RejectedRow] = {}
    for at, line in enumerate(data[:-1].split(b"\n")):
        raw = line.removesuffix(b"\r")
        number = place.line + at
        if len(raw) > options.max_row_bytes:
            rejected[at] = too_long(raw, place.file, number, options.max_row_bytes)
        elif fault := fault_in(raw, options.encoding, what="line", offset=offset):
            rejected[at] = RejectedRow(place.file, number, number, None, fault, raw)
        lines.append(b"" if at in rejected else to_utf8(line, options.encoding))
        offset += len(line) + 1
    return b"\n".join(lines) + b"\n", rejected


@lru_cache(maxsize=1)
def _repeated(value: bytes, times: int) -> pa.BinaryArray:
    offsets = np.arange(times + 1, dtype=np.int32) * len(value)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(value * times)]
    return pa.Array.from_buffers(pa.binary(), times, buffers)


def open_text(inputs: Sequence[str], options: Text, spread: Spread = here) -> Source:
    """List and hash text; rows hold `text` and `filename`, of lines also `line`, from 1."""
    if options.unit == "line":
        return _open_lines(inputs, options, spread)
    convert = partial(document_text, encoding=options.encoding, allow_empty=options.allow_empty)
    return open_whole_files(
        "text",
        inputs,
        (TEXT, FILENAME),
        options,
        spread,
        max_bytes=options.max_row_bytes,
        convert=convert,
    )


def _open_lines(inputs: Sequence[str], options: Text, spread: Spread) -> LineSource:
    tree = find_tree(inputs, STRAY, "file")
    for path, reason in sorted(tree.refused.items()):
        raise DataError(f"{path}: {reason}")
    check = partial(check_head, encoding=options.encoding)
    headers = for_each_file(lambda path: read_header(path, check), [f.path for f in tree.files])
    scanned, _, _ = scan_files(headers, LineSplitter(options.max_row_bytes), None, spread)
    for file in scanned:
        _check(file, options)
    return LineSource.of(
        "text",
        scanned,
        Listing(tuple(file.path for file in tree.files), tuple(tree.ignored)),
        columns=as_named((TEXT, FILENAME, LINE), [file.name for file in tree.files]),
        options=options,
        names={file.path: file.name for file in tree.files},
    )


def _check(file: TextFile, options: Text) -> None:
    if not file.has_data and not options.allow_empty:
        what = "holds only blank lines" if file.content.size else "is empty (0 bytes)"
        raise DataError(f"{file.path}: {what}; {EMPTY_ADVICE}")
    if file.rows == 1:
        with open_data(file.path) as stream:
            start = stream.read(MIB)
        if b"\r" in start.rstrip() and b"\n" not in start:
            raise DataError(
                f"{file.path}: its lines end in CR alone, as on classic Mac OS; convert it: "
                "tr '\\r' '\\n'"
            )
