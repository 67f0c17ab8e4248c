"""JSON Lines as a `Source`: byte ranges cut at line ends, one JSON object a line."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from penstock.components.errors import DataError
from penstock.components.files.cells import ByteRange
from penstock.components.files.content import EMPTY_ADVICE, open_unchanged
from penstock.components.files.listing import list_files
from penstock.components.sources.base import Batch, Column, Piece, RejectedRow
from penstock.components.sources.batches import MAX_BATCH_ROWS, rows_without
from penstock.components.sources.lines.file import LineFile, read_blocks, scan_lines
from penstock.components.sources.lines.json.options import JsonLinesOptions
from penstock.components.sources.lines.json.scan import check_head, parse_line
from penstock.components.sources.opened_files import OpenedFiles
from penstock.components.sources.python_values import Row, RowConverter
from penstock.components.sources.schema import read_schema
from penstock.components.sources.spread import Spread, here
from penstock.components.sources.value_sample import ValueSample

# At least as many rows from the beginning of each of many files, and from each later block.
_MIN_SAMPLED_ROWS = 64


@dataclass(frozen=True, eq=False, kw_only=True)
class JsonLinesSource(OpenedFiles[LineFile]):
    """Files of JSON Lines, scanned and typed; a row is parsed when it is read."""

    options: JsonLinesOptions

    def read(self, pieces: Sequence[Piece]) -> Iterator[Batch]:
        """The rows of the pieces, at most `MAX_BATCH_ROWS` in a batch."""
        converter = RowConverter(self.columns, self.options)
        for piece in pieces:
            with open_unchanged(piece.file, self.scanned[piece.file].content) as stream:
                for block in read_blocks(stream, piece, self.options.max_row_bytes):
                    lines = block.data.removesuffix(b"\n").split(b"\n")
                    for at in range(0, len(lines), MAX_BATCH_ROWS):
                        some = lines[at : at + MAX_BATCH_ROWS]
                        yield _batch(some, piece.file, block.first_line + at, converter)


def _batch(lines: Sequence[bytes], path: str, first_line: int, converter: RowConverter) -> Batch:
    rows: list[Row] = []
    numbers: list[int] = []
    unread: list[RejectedRow] = []
    for number, line in enumerate(lines, first_line):
        if not line.strip():
            continue
        try:
            rows.append(parse_line(line))
            numbers.append(number)
        except ValueError as error:
            unread.append(_rejected(path, number, None, str(error), line))
    table, faults = converter.convert(rows)
    rejected = unread + [
        _rejected(path, numbers[at], *fault, lines[numbers[at] - first_line])
        for at, fault in faults.items()
    ]
    rejected.sort(key=lambda row: row.line)
    blank = len(lines) - len(rows) - len(unread)
    return Batch(rows_without(faults, table), rejected, blank)


def _rejected(path: str, line: int, column: str | None, reason: str, raw: bytes) -> RejectedRow:
    return RejectedRow(path, line, line, column, reason, raw.rstrip(b"\r\n"))


def open_json_lines(
    inputs: Sequence[str], options: JsonLinesOptions, spread: Spread = here
) -> JsonLinesSource:
    """Check, scan and type JSON Lines; DataError names a file or column that cannot be read."""
    listing = list_files(inputs, "jsonl")
    first_rows = max(_MIN_SAMPLED_ROWS, options.sample_rows // len(listing.files))
    scanned, samples = scan_lines(
        listing.files,
        check_head,
        spread,
        max_row_bytes=options.max_row_bytes,
        new_sample=partial(_Sample, first_rows=first_rows),
    )
    for file in scanned:
        if not file.has_data and not options.allow_empty:
            raise DataError(f"{file.path}: has no rows; {EMPTY_ADVICE}")
    if options.schema_file:
        schema = read_schema(options.schema_file)
        columns = tuple(Column(c.name, c.kind, bool(c.is_list), is_text=True) for c in schema)
    else:
        sample = ValueSample()
        for part in samples:
            sample.merge(part.values)
        columns = sample.columns(options.nested)
    if not columns:
        raise DataError(
            f"{listing.files[0]}: no row could be read as a JSON object, so there are no columns; "
            "expected one object a line"
        )
    return JsonLinesSource.of("jsonl", scanned, listing, columns=columns, options=options)


class _Sample:
    """The first rows of a part of a file, and a few of each later cell of it."""

    def __init__(self, part: ByteRange, first_rows: int) -> None:
        self.values = ValueSample()
        self._path = part.path
        self._wanted = 0 if part.start else first_rows

    def add(self, lines: bytes) -> None:
        """See `LineSample`."""
        wanted = max(_MIN_SAMPLED_ROWS, self._wanted)
        some = lines.split(b"\n", wanted)[:wanted]
        self._wanted -= len(some)
        for line in some:
            if line.strip():
                try:
                    self.values.add(parse_line(line), self._path)
                except ValueError:
                    continue  # Rejected by line when it is read.
