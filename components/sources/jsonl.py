"""JSON Lines as a `Source`: byte ranges cut at line ends, one JSON object per line."""

import codecs
import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from penstock.components.errors import DataError
from penstock.components.files.find import find
from penstock.components.files.sniff import not_text
from penstock.components.sources.base import Batch, RejectedRow
from penstock.components.sources.batches import rows_without
from penstock.components.sources.files import map_files
from penstock.components.sources.options import RowFileOptions
from penstock.components.sources.partitions import add_partitions, find_folders
from penstock.components.sources.python_values import Row, convert_rows, row_columns
from penstock.components.sources.spread import Spread
from penstock.components.sources.text.blocks import LINE_BLOCK_BYTES, RowBlock, RowPlace, Splitter
from penstock.components.sources.text.source import TextSource, line_header, sample_rows
from penstock.components.sources.tokens import beyond_float32
from penstock.components.tfrecord.sharding import MIB

# A number beyond float64, which the parser reads as infinity, has an exponent of at least three
# digits, or at least 200 consecutive digits. Only a line that matches needs the slower hook
# `parse_float=_finite`.
_LARGE = re.compile(rb"[eE]\+?\d{3}|\d{200}")
_SHOWN_CHARACTERS = 80


@dataclass(frozen=True)
class JsonLines(RowFileOptions):
    """One JSON object per line.

    Attributes:
        sample_rows: Approximate number of rows from which columns are inferred; each file gives an
            equal share of them, from its start.
        max_row_bytes: Maximum length of a line, which bounds the memory of a row.
    """

    kind: str = "jsonl"
    sample_rows: int = 10_000
    max_row_bytes: int = 64 * MIB


@dataclass(frozen=True, eq=False, kw_only=True)
class JsonLinesSource(TextSource):
    options: JsonLines

    def batches(self, block: RowBlock, place: RowPlace) -> Iterator[Batch]:
        found, rejected = self.good_lines(block, place, lambda line, _: parse_line(line))
        blank = block.rows - len(found) - len(rejected)
        table, faults = convert_rows([row for *_, row in found], self.columns, self.options)
        for at, fault in faults.items():
            number, line, _ = found[at]
            rejected.append(RejectedRow(place.file, number, number, *fault, line))
        rejected.sort(key=lambda row: row.line)
        yield Batch(rows_without(faults, table), rejected, blank)


def open_json_lines(inputs: Sequence[str], options: JsonLines, spread: Spread) -> JsonLinesSource:
    listing = find(inputs, "jsonl")
    headers = map_files(lambda path: line_header(path, check_head)[0], listing.files)
    splitter = Splitter(LINE_BLOCK_BYTES, options.max_row_bytes)
    source = JsonLinesSource.scan(
        "jsonl", listing, headers, splitter, spread, options=options, columns=()
    )
    sample = sample_rows(headers, splitter, options.sample_rows)
    rows = ((row, header.path) for header, block in sample for row in _readable(block.data))
    columns = row_columns(rows, options)
    if not columns and source.rejected_by_scan:
        raise DataError(str(source.rejected_by_scan[0]))
    if not columns:
        raise DataError(
            f"{listing.files[0]}: no row could be read as a JSON object, so there are no columns; "
            "expected one object a line"
        )
    source = replace(source, columns=columns)
    return add_partitions(source, find_folders(listing.files, inputs))


def _readable(data: bytes) -> Iterator[Row]:
    """Yields the rows of the readable lines.

    The source's `batches` later rejects the other lines, with their line numbers.
    """
    for line in data.split(b"\n"):
        if line.strip():
            with suppress(ValueError):
                yield parse_line(line)


def parse_line(line: bytes) -> dict[str, object]:
    """Parses the object on one line.

    If the line is not valid, raises ValueError with the reason and, for an infinite number, the
    column.
    """
    try:
        row = json.loads(line, parse_float=_finite if _LARGE.search(line) else None)
    except UnicodeDecodeError as error:
        raise ValueError(f"byte {error.start + 1} of the line is not UTF-8") from error
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg} at character {error.pos + 1}") from error
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    except ValueError as error:  # by `_finite`
        raise ValueError(str(error), _infinite_column(line)) from error
    if not isinstance(row, dict):
        raise ValueError(
            f"expected an object ({{...}}), got {line[:40].decode(errors='replace')!r}"
        )
    # Only a hook detects a duplicate key, and it costs as much as the parsing. A colon follows each
    # key, so a line has no duplicate key if it has no more colons than `row` has keys.
    if line.count(b":") > len(row):
        json.loads(line, object_pairs_hook=no_duplicates)
    if b"\\u" in line or b"\xed" in line:  # Only these bytes can encode a surrogate.
        for key in row:
            try:
                key.encode()
            except UnicodeEncodeError as error:
                raise ValueError(f"key {key!r} is not Unicode text (a lone surrogate)") from error
    return row


def _infinite_column(line: bytes) -> str | None:
    """Returns the first column with an infinite number; None if the line has another fault."""
    with suppress(ValueError, RecursionError, AttributeError):
        for name, value in json.loads(line).items():
            values = value if isinstance(value, list) else [value]
            if math.inf in values or -math.inf in values:
                return str(name)
    return None


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(beyond_float32(text[:_SHOWN_CHARACTERS]))
    return number


def no_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """A hook of `json.loads` that makes an object; raises ValueError for a duplicate key."""
    row = dict(pairs)
    if len(row) < len(pairs):
        twice = next(name for name, times in Counter(n for n, _ in pairs).items() if times > 1)
        raise ValueError(f"key {twice!r} occurs twice")
    return row


def check_head(head: bytes) -> str | None:
    start = head.removeprefix(codecs.BOM_UTF8).lstrip()
    if start.startswith(b"["):
        return (
            "begins with '[', which is one JSON array; expected one object a line, as "
            "`jq -c '.[]'` writes it"
        )
    return None if start.startswith(b"{") else not_text(head)
