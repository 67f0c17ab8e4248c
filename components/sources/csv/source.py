"""Delimited text as a `Source`: byte ranges that begin at row starts, parsed by Arrow.

Opening the source reads every file in full: it checks headers, matches columns by name, counts
rows, hashes the content, and finds quotes that are never closed. It also determines column types.
"""

import csv
import io
import re
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from penstock.components.errors import DataError
from penstock.components.files.find import find
from penstock.components.files.sniff import not_text
from penstock.components.sources.base import Batch, Column
from penstock.components.sources.batches import MAX_BATCH_ROWS
from penstock.components.sources.csv.parse import RowParser
from penstock.components.sources.files import map_files
from penstock.components.sources.options import Csv
from penstock.components.sources.partitions import add_partitions, find_folders
from penstock.components.sources.schema import SchemaColumn, check_layouts, read_schema, shown
from penstock.components.sources.spread import Spread
from penstock.components.sources.text.blocks import RowBlock, RowPlace, Splitter
from penstock.components.sources.text.codec import read_head
from penstock.components.sources.text.rows import count_line_ends
from penstock.components.sources.text.source import Header, TextSource, line_header, sample_rows
from penstock.components.sources.tokens import TypeSample, is_plain_number
from penstock.components.tfrecord.feature_kind import FeatureKind
from penstock.components.tfrecord.sharding import MIB

# A block is large enough that its fixed cost of a few hundred microseconds does not matter. It is
# small enough that a worker uses only a few tens of MiB of memory.
BLOCK_BYTES = 4 * MIB
# The header must end within this number of bytes from the start of the file.
_HEAD_BYTES = 2**20
_TABLE_EXTENSIONS = (".csv", ".tsv", ".psv", ".tab")
_DELIMITERS = ",;\t|"
# The delimiter is guessed from at most this number of bytes, and of rows, at the start of a file.
_GUESS_BYTES, _GUESS_ROWS = 64 * 1024, 100
# A field that suggests a wrong delimiter: it begins with a space or contains another delimiter,
# except for a comma before a space.
_ODD_FIELD = re.compile(r"^ |[;\t|]|,(?! )")
_DECIMAL = re.compile(r"[+-]?\d+,\d+").fullmatch


@dataclass(frozen=True, eq=False, kw_only=True)
class CsvSource(TextSource):
    options: Csv

    def batches(self, block: RowBlock, place: RowPlace) -> Iterator[Batch]:
        parser = RowParser(self.scanned[place.file].header.names, self.columns, self.options)
        batch = parser.parse(block, place)
        yield replace(batch, table=batch.table.slice(0, MAX_BATCH_ROWS))
        for start in range(MAX_BATCH_ROWS, batch.table.num_rows, MAX_BATCH_ROWS):
            yield Batch(batch.table.slice(start, MAX_BATCH_ROWS))


def open_csv(inputs: Sequence[str], options: Csv, spread: Spread) -> CsvSource:
    listing = find(inputs, "csv")
    folders = find_folders(listing.files, inputs)
    if options.delimiter is None:
        options = replace(options, delimiter=find_delimiter(listing.files[0], options.comment))
    splitter = Splitter(BLOCK_BYTES, options.max_row_bytes, options.delimiter)
    schema = read_schema(options.schema_file)
    known = {column.name for column in schema}
    headers = map_files(lambda path: read_header(path, splitter, options, known), listing.files)
    filled = [header for header in headers if header.names]
    check_layouts(filled, schema, options, folders)
    scanned = CsvSource.scan("csv", listing, headers, splitter, spread, options=options, columns=())
    if schema:
        columns = _schema_columns(schema, options)
    else:
        columns = _sampled_columns(filled, splitter, options)
    if not columns:
        raise DataError(f"{listing.files[0]}: no file has a header, so there are no columns")
    return add_partitions(replace(scanned, columns=columns), folders)


def _schema_columns(schema: Sequence[SchemaColumn], options: Csv) -> tuple[Column, ...]:
    for column in schema:
        if column.is_list:
            raise DataError(
                f"{options.schema_file}: feature {column.name!r} holds lists, and a CSV "
                "field one value; give it a shape of one value, or bring the data as Parquet"
            )
    return tuple(Column(column.name, column.kind) for column in schema)


def _sampled_columns(
    headers: Sequence[Header], splitter: Splitter, options: Csv
) -> tuple[Column, ...]:
    names = headers[0].names if headers else ()
    texts = [Column(name, FeatureKind.BYTES) for name in names]
    sample = TypeSample((*options.null_tokens, *options.text_null_tokens))
    for header, block in sample_rows(headers, splitter, options.sample_rows):
        parser = RowParser(header.names, tuple(texts), options)
        if block.data.strip(b"\r\n"):
            found, _ = parser.fields(block.data, texts, quoted=block.quoted)
            for name, values in found.items():
                sample.add(name, values)
    return tuple(Column(name, sample.kind(name)) for name in names)


def read_header(
    path: str, splitter: Splitter, options: Csv, known_names: Collection[str]
) -> Header:
    """Reads a header; raises DataError if it looks like data and has none of `known_names`."""
    delimiter = options.delimiter or ","
    header, head = line_header(path, not_text, _HEAD_BYTES)
    is_whole, start = len(head) < _HEAD_BYTES, header.data_start
    if options.comment:
        start = _after_comments(head, start, options.comment.encode())
    if options.column_names is not None:
        line = 1 + count_line_ends(head[:start])
        return header._replace(names=options.column_names, data_start=start, first_line=line)
    while head.startswith((b"\n", b"\r"), start):
        start += 1
    if start == len(head) and is_whole:
        return header._replace(data_start=start)
    line = 1 + count_line_ends(head[:start])
    blocks = splitter.blocks(head[start:], start, last=is_whole)
    if not blocks or blocks[0].broken_at is not None:
        raise DataError(
            f"{path}: line {line}: unbalanced quote in the header, or no line end in "
            f"{_HEAD_BYTES} bytes; is this delimited text?"
        )
    row = blocks[0].slice(0, 1)
    try:
        [names] = map(
            tuple, _rows(row.data.decode("utf-8").rstrip("\r\n"), splitter.delimiter or ",")
        )
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path}: line {line}: the header is not UTF-8 ({error.reason}); "
            "convert the file, from Latin-1: iconv -f LATIN1 -t UTF-8"
        ) from error
    except csv.Error as error:
        raise DataError(f"{path}: line {line}: the header cannot be read ({error})") from error
    if len(names) == 1 and names[0].startswith("#") and names[0] not in known_names:
        raise DataError(
            f"{path}: line {line}: a comment ({names[0][:80]!r}), expected the header; set "
            "`comment` to '#' to skip such lines above it"
        )
    if not any(name.strip() for name in names):
        raise DataError(f"{path}: line {line}: blank, expected the header, names of columns")
    _check_names(names, f"{path}: line {line}", delimiter, known_names)
    # Any text could be a table of one column, so a table of one column must be declared by the
    # option `kind`, by the file's extension or by a known column name.
    is_table = path.lower().endswith(_TABLE_EXTENSIONS) or names[0] in known_names
    if len(names) == 1 and options.kind is None and not is_table:
        raise DataError(
            f"{path}: one column, no delimiter found: say --kind text for lines, or --kind csv"
        )
    return header._replace(names=names, data_start=row.end, first_line=line + row.lines)


def _after_comments(head: bytes, start: int, comment: bytes) -> int:
    """Returns the start of the first line that is neither blank nor a comment."""
    line = re.compile(rb"[\r\n]+|" + re.escape(comment) + rb"[^\r\n]*(\r\n|[\r\n]|\Z)")
    while found := line.match(head, start):
        start = found.end()
    return start


def find_delimiter(path: str, comment: str | None) -> str:
    """Returns the likely delimiter of a file: a comma if its first rows show none.

    The chosen delimiter divides the largest share of the first rows into as many fields as the
    header has. Several delimiters may give the same share: a comma, too, divides both the header
    `price (EUR, net);qty` and the row `1,50;3` into two fields. Of these delimiters, the one with
    the smallest share of odd fields wins, then the one with the most columns. A field is odd if it
    begins with a space or contains another delimiter, except in a decimal number (`1,50`) and for a
    comma before a space (`EUR, net`).
    """
    head, _ = read_head(path, _GUESS_BYTES)
    head = head.removeprefix(BOM_UTF8)
    if comment:
        head = head[_after_comments(head, 0, comment.encode()) :]
    # Latin-1 decodes any byte. Before Python 3.11, `csv` refuses NUL.
    text = head.decode("latin-1").replace("\0", " ")
    if len(head) >= _GUESS_BYTES - len(BOM_UTF8):
        text = text[: text.rfind("\n") + 1] or text

    def likelihood(delimiter: str) -> tuple[float, float, int]:
        rows = _rows(text, delimiter)
        width = len(rows[0]) if rows else 0
        if width < 2:
            return (0, 0, 0)
        fields = [field for row in rows for field in row]
        odd = sum(1 for field in fields if _ODD_FIELD.search(field) and not _DECIMAL(field))
        even = sum(1 for row in rows if len(row) == width)
        return even / len(rows), -odd / len(fields), width

    return max(_DELIMITERS, key=likelihood)


def _rows(text: str, delimiter: str) -> list[list[str]]:
    """Returns the fields of the first rows that are not blank."""
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    return list(islice((row for row in rows if row), _GUESS_ROWS))


def _check_names(
    names: tuple[str, ...], place: str, delimiter: str, known_names: Collection[str]
) -> None:
    others = [other for other in _DELIMITERS if other != delimiter and other in names[0]]
    if len(names) == 1 and names[0] not in known_names and others:
        likely = max(others, key=names[0].count)
        raise DataError(
            f"{place}: one column, {names[0][:80]!r}, with delimiter {delimiter!r}; "
            f"did you mean `delimiter={likely!r}`?"
        )
    if not any(name in known_names for name in names):
        numbers = [name for name in names if is_plain_number(name)]
        all_data = numbers and all(is_plain_number(name) or not name.strip() for name in names)
        if all_data or any(not name.isdecimal() for name in numbers):
            raise DataError(
                f"{place}: expected a header, found data ({shown(names)}); "
                "if the files have none, set `column_names`"
            )
    blank = [str(at) for at, name in enumerate(names, 1) if not name.strip()]
    if blank:
        index = ", or if it is pandas' index, write df.to_csv(..., index=False)"
        raise DataError(
            f"{place}: blank name of column {', '.join(blank)} of {len(names)}; "
            f"name it in the header{index if blank == ['1'] else ''}"
        )
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise DataError(f"{place}: duplicate column {shown(twice)}; names must differ, rename one")
