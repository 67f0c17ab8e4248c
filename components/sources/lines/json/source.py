"""JSON Lines as a `Source`: byte ranges cut at line ends, one JSON object a line."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from penstock.components.errors import DataError
from penstock.components.files.content import EMPTY_ADVICE
from penstock.components.files.listing import list_files
from penstock.components.sources.base import Batch, Column, RejectedRow
from penstock.components.sources.batches import MAX_BATCH_ROWS, rows_without
from penstock.components.sources.csv.blocks import RowBlock
from penstock.components.sources.lines.json.options import JsonLines
from penstock.components.sources.lines.json.scan import check_head, parse_line
from penstock.components.sources.lines.rows import LineSplitter, read_header
from penstock.components.sources.python_values import Row, RowConverter
from penstock.components.sources.schema import read_schema
from penstock.components.sources.spread import Spread, here
from penstock.components.sources.text_files import Header, RowPlace, TextFiles
from penstock.components.sources.text_scan import MIN_SAMPLED_ROWS, Sampler, scan_files
from penstock.components.sources.value_sample import ValueSample
from penstock.components.sources.whole_files.scan import for_each_file


@dataclass(frozen=True, eq=False, kw_only=True)
class JsonLinesSource(TextFiles):
    """Files of JSON Lines, scanned and typed; a row is parsed when it is read."""

    options: JsonLines

    @property
    def splitter(self) -> LineSplitter:
        """See `TextFiles`."""
        return LineSplitter(self.options.max_row_bytes)

    def batches(self, block: RowBlock, place: RowPlace) -> Iterator[Batch]:
        """See `TextFiles`."""
        converter = RowConverter(self.columns, self.options)
        lines = block.data.removesuffix(b"\n").split(b"\n")
        for at in range(0, len(lines), MAX_BATCH_ROWS):
            some = lines[at : at + MAX_BATCH_ROWS]
            yield _batch(some, place.file, place.line + at, converter)


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
    inputs: Sequence[str], options: JsonLines, spread: Spread = here
) -> JsonLinesSource:
    """Check, scan and type JSON Lines; DataError names a file or column that cannot be read."""
    listing = list_files(inputs, "jsonl")
    headers = for_each_file(lambda path: read_header(path, check_head), listing.files)
    sampler = None if options.schema_file else _Sampler(len(headers), options.sample_rows)
    splitter = LineSplitter(options.max_row_bytes)
    scanned, rejected, sample = scan_files(headers, splitter, sampler, spread)
    for row in rejected:
        raise DataError(str(row))
    for file in scanned:
        if not file.has_data and not options.allow_empty:
            raise DataError(f"{file.path}: has no rows; {EMPTY_ADVICE}")
    schema = read_schema(options.schema_file)
    columns = tuple(Column(c.name, c.kind, bool(c.is_list), is_text=True) for c in schema)
    if sample:
        columns = sample.columns(options.nested)
    if not columns:
        raise DataError(
            f"{listing.files[0]}: no row could be read as a JSON object, so there are no columns; "
            "expected one object a line"
        )
    return JsonLinesSource.of("jsonl", scanned, listing, columns=columns, options=options)


class _Sampler(Sampler[ValueSample]):
    """Counts what the values of rows are."""

    def wanted(self, header: Header, cell: int) -> int:
        """See `Sampler`; few of each later cell, as to parse a line costs as much as to read it."""
        return MIN_SAMPLED_ROWS if cell else super().wanted(header, cell)

    def new_sample(self) -> ValueSample:
        """See `Sampler`."""
        return ValueSample()

    def add(self, block: RowBlock, header: Header, sample: ValueSample) -> None:
        """See `Sampler`."""
        for line in block.data.split(b"\n"):
            if line.strip():
                try:
                    sample.add(parse_line(line), header.path)
                except ValueError:
                    continue  # Rejected by line when it is read.
