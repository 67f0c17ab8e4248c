"""Text as a `Source`: lines in byte ranges cut at line ends, a row a line, or whole documents."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np
import pyarrow as pa

from penstock.components.errors import DataError
from penstock.components.files.content import EMPTY_ADVICE, open_data
from penstock.components.files.listing import Listing
from penstock.components.sources.base import Batch, Column, Source
from penstock.components.sources.batches import MAX_BATCH_ROWS, batch_of
from penstock.components.sources.csv.blocks import RowBlock
from penstock.components.sources.lines.rows import LineSplitter, read_header
from penstock.components.sources.lines.text.blocks import parse_lines
from penstock.components.sources.lines.text.decoding import check_head, document_text
from penstock.components.sources.lines.text.options import TextOptions
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

    options: TextOptions
    names: Mapping[str, str]

    @property
    def splitter(self) -> LineSplitter:
        """See `TextFiles`."""
        return LineSplitter(self.options.max_row_bytes)

    def batches(self, block: RowBlock, place: RowPlace) -> Iterator[Batch]:
        """See `TextFiles`."""
        options = self.options
        lines = parse_lines(
            block,
            place,
            options.encoding,
            max_row_bytes=options.max_row_bytes,
            skip_blank=options.skip_blank,
        )
        name = _repeated(os.fsencode(self.names[place.file]), MAX_BATCH_ROWS)
        rejected, blank = lines.rejected, lines.blank
        for start in range(0, max(1, len(lines.text)), MAX_BATCH_ROWS):
            text = lines.text.slice(start, MAX_BATCH_ROWS)
            numbers = pa.array(lines.numbers[start : start + MAX_BATCH_ROWS], pa.int64())
            table = batch_of(self.columns, [text, name.slice(0, len(text)), numbers])
            yield Batch(table, rejected, blank)
            rejected, blank = (), 0


@lru_cache(maxsize=1)
def _repeated(value: bytes, times: int) -> pa.BinaryArray:
    offsets = np.arange(times + 1, dtype=np.int32) * len(value)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(value * times)]
    return pa.Array.from_buffers(pa.binary(), times, buffers)


def open_text(inputs: Sequence[str], options: TextOptions, spread: Spread = here) -> Source:
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


def _open_lines(inputs: Sequence[str], options: TextOptions, spread: Spread) -> LineSource:
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


def _check(file: TextFile, options: TextOptions) -> None:
    if not file.has_data and not options.allow_empty:
        what = "holds only blank lines" if file.content.size else "is empty (0 bytes)"
        raise DataError(f"{file.path}: {what}; {EMPTY_ADVICE}")
    if file.rows == 1:
        with open_data(file.path) as stream:
            start = stream.read(MIB)
        if b"\r" in start.rstrip() and b"\n" not in start:
            raise DataError(
                f"{file.path}: its lines end in CR alone, as those of old Macs; convert it: "
                "tr '\\r' '\\n'"
            )
