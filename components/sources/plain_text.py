"""Text as a `Source`: a row is one line, or one whole document."""

import codecs
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from penstock.components.errors import DataError, UsageError
from penstock.components.files.content import EMPTY_ADVICE
from penstock.components.files.find import find
from penstock.components.files.sniff import not_plain_text
from penstock.components.sources.base import Batch, Column, Source
from penstock.components.sources.batches import batch_of
from penstock.components.sources.files import map_files
from penstock.components.sources.options import check_fields
from penstock.components.sources.spread import Spread
from penstock.components.sources.text.blocks import LINE_BLOCK_BYTES, RowBlock, RowPlace, Splitter
from penstock.components.sources.text.source import TextSource, line_header
from penstock.components.sources.whole_files import (
    FILENAME,
    UnfitFileError,
    WholeFileOptions,
    open_whole_files,
)
from penstock.components.tfrecord.feature_kind import FeatureKind
from penstock.components.tfrecord.sharding import MIB

TEXT = Column("text", FeatureKind.BYTES)
LINE = Column("line", FeatureKind.INT)
UNITS = ("line", "document")
_SNIFFED_BYTES = 512
# ASCII texts: an escape sequence of each of the encodings unicode_escape, raw_unicode_escape, idna,
# utf_7, hz and iso2022, then all ASCII characters. An encoding that decodes one of these texts to
# other characters may also turn bytes other than LF into line ends.
_ASCII_PROBES = (
    rb"a\n", rb"\u000a", b"xn--nxasmq6b", b"+AAo-", b"~{0l~}", b"\x1b$B0l\x1b(B", bytes(range(128)),
)  # fmt: skip


@dataclass(frozen=True)
class Text(WholeFileOptions):
    """Text, with one row per line or one row per file.

    Attributes:
        unit: Content of a row: a `line`, or a `document`, which is a whole file.
        encoding: Python's name of the files' encoding, such as `cp1252`; it must leave ASCII bytes
            as they are. A line or document that is not valid in this encoding is rejected. Rows
            contain UTF-8.
        skip_blank: Whether to skip (and count) lines of white space.
        max_row_bytes: Maximum length of a line or document; a longer one is rejected.
        allow_empty: Whether a file without text is skipped instead of refused; a skipped document
            counts as blank.
        folder_label: For documents: whether to add the feature `label` with the name of the folder
            right below the input.
        shuffle_seed: For documents: seed of their order in the shards.
    """

    kind: str = "text"
    unit: str = "line"
    encoding: str = "utf-8"
    skip_blank: bool = True
    max_row_bytes: int = 64 * MIB

    def __post_init__(self) -> None:
        check_fields(self, unit=UNITS)
        object.__setattr__(self, "encoding", _normal_encoding(self.encoding))
        if self.unit == "line" and self.folder_label:
            raise UsageError("`folder_label` applies to documents; set `unit='document'`")
        if self.unit == "document" and not self.skip_blank:
            raise UsageError("`skip_blank` applies to lines; for documents set `allow_empty`")


def _normal_encoding(name: str) -> str:
    try:
        usual = codecs.lookup(name).name
        is_fit = all(probe.decode(usual) == probe.decode("ascii") for probe in _ASCII_PROBES)
    except UnicodeError:
        is_fit = False
    except (LookupError, TypeError):
        raise UsageError(
            f"`encoding` must be one that Python knows, as utf-8 or cp1252, got {name!r}"
        ) from None
    if not is_fit:
        raise UsageError(
            f"`encoding` must leave ASCII bytes as they are, as utf-8 or cp1252, got {name!r}; "
            "convert the files: iconv -t UTF-8"
        )
    return "utf-8" if usual == "utf-8-sig" else usual


@dataclass(frozen=True, eq=False, kw_only=True)
class LineSource(TextSource):
    options: Text
    names: Mapping[str, str]

    def batches(self, block: RowBlock, place: RowPlace) -> Iterator[Batch]:
        encoding, skip_blank = self.options.encoding, self.options.skip_blank
        # Almost every block passes this check as a whole, so its lines need no checks of their own.
        is_good = fault_in(block.data, encoding, what="block") is None

        def parse(line: bytes, offset: int) -> bytes:
            if not is_good and (fault := fault_in(line, encoding, what="line", offset=offset)):
                raise ValueError(fault)
            return _to_utf8(line, encoding)

        found, rejected = self.good_lines(block, place, parse, skip_blank=skip_blank)
        name = pa.scalar(os.fsencode(self.names[place.file]), pa.binary())
        arrays = [
            pa.array([text for *_, text in found], pa.binary()),
            pa.repeat(name, len(found)),
            pa.array([number for number, *_ in found], pa.int64()),
        ]
        blank = block.rows - len(found) - len(rejected)
        yield Batch(batch_of(self.columns, arrays), rejected, blank)


def open_text(inputs: Sequence[str], options: Text, spread: Spread) -> Source:
    """Lists and hashes text files.

    Rows have `text`, `filename` and, if they are lines, their number `line`, from 1.
    """
    if options.unit == "line":
        return _open_lines(inputs, options, spread)
    convert = partial(_document, encoding=options.encoding, allow_empty=options.allow_empty)
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
    tree = find(inputs, "text")
    for path, reason in sorted(tree.refused.items()):
        raise DataError(f"{path}: {reason}")
    check = partial(_check_head, encoding=options.encoding)
    headers = map_files(lambda path: line_header(path, check)[0], tree.files)
    splitter = Splitter(LINE_BLOCK_BYTES, options.max_row_bytes)
    columns, names = (TEXT, FILENAME, LINE), {file.path: file.name for file in tree.entries}
    return LineSource.scan(
        "text", tree, headers, splitter, spread, options=options, columns=columns, names=names
    )


def _to_utf8(data: bytes, encoding: str) -> bytes:
    """Converts text to UTF-8; raises UnicodeDecodeError if it is not valid in `encoding`."""
    if encoding == "utf-8" and data.isascii():
        return data
    return data.decode(encoding).encode()


def fault_in(data: bytes, encoding: str, *, what: str, offset: int = 0) -> str | None:
    """Returns the reason why bytes are not valid text, or None; the message calls them `what`."""
    try:
        _to_utf8(data, encoding)
    except UnicodeDecodeError as error:
        return (
            f"{_place(error.start, what, offset)} is not {encoding}; set `encoding` to the file's"
        )
    at = data.find(b"\0")
    return None if at < 0 else f"{_place(at, what, offset)} is NUL, which text cannot have"


def _place(at: int, what: str, offset: int) -> str:
    of_file = f" (byte {offset + at + 1} of the file)" if offset else ""
    return f"byte {at + 1} of the {what}{of_file}"


def _check_head(head: bytes, encoding: str) -> str | None:
    if head.startswith(codecs.BOM_UTF8) and encoding != "utf-8":
        return f"begins with the mark of UTF-8, and `encoding` is {encoding!r}; leave that out"
    return not_plain_text(head)


def _document(data: bytes, path: str, *, encoding: str, allow_empty: bool) -> tuple[bytes] | None:
    """Returns the document in UTF-8 without a byte order mark; None if blank and `allow_empty`."""
    del path
    if problem := _check_head(data[:_SNIFFED_BYTES], encoding):
        raise UnfitFileError(problem)
    if fault := fault_in(data, encoding, what="file"):
        raise UnfitFileError(fault)
    text = _to_utf8(data.removeprefix(codecs.BOM_UTF8), encoding)
    if not text.strip() and not allow_empty:
        what = "holds only white space" if text else "is empty (0 bytes)"
        raise UnfitFileError(f"{what}; {EMPTY_ADVICE}")
    return (text,) if text.strip() else None
