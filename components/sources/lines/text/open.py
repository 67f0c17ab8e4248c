"""Opens text as lines or as documents."""

from collections.abc import Sequence
from functools import partial

from penstock.components.errors import DataError
from penstock.components.files.content import EMPTY_ADVICE, open_data
from penstock.components.files.listing import Listing
from penstock.components.sources.base import Column, Source
from penstock.components.sources.lines.file import LineFile, scan_lines
from penstock.components.sources.lines.text.decoding import check_head
from penstock.components.sources.lines.text.options import TextOptions
from penstock.components.sources.lines.text.source import LineSource
from penstock.components.sources.whole_files.documents import document_text
from penstock.components.sources.whole_files.source import FILENAME, as_named, open_whole_files
from penstock.components.sources.whole_files.tree import STRAY, find_tree
from penstock.components.tfrecord.feature_kind import FeatureKind
from penstock.components.tfrecord.sharding import MIB

TEXT = Column("text", FeatureKind.BYTES, is_text=True)
LINE = Column("line", FeatureKind.INT)


def open_text(inputs: Sequence[str], options: TextOptions) -> Source:
    """List and hash text; rows hold `text` and `filename`, of lines also `line`, from 1.

    Raises:
        DataError: There is none; or a file of lines is no text, or has none. Names it.
    """
    if options.unit == "line":
        return _open_lines(inputs, options)
    convert = partial(document_text, encoding=options.encoding, allow_empty=options.allow_empty)
    return open_whole_files(
        "text",
        inputs,
        (TEXT, FILENAME),
        options,
        max_bytes=options.max_row_bytes,
        convert=convert,
    )


def _open_lines(inputs: Sequence[str], options: TextOptions) -> LineSource:
    tree = find_tree(inputs, STRAY, "file")
    for path, reason in sorted(tree.refused.items()):
        raise DataError(f"{path}: {reason}")
    check = partial(check_head, encoding=options.encoding)
    scanned = [scan_lines(file.path, check) for file in tree.files]
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


def _check(file: LineFile, options: TextOptions) -> None:
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
