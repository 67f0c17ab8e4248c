"""Separates the rows of delimited text that do not fit, with reasons, from those that do.

Used only for rows that `RowParser.parse` refused, so it may cost more per row. Arrow still
converts all columns without faults.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.components.sources.base import Batch, Column, RejectedRow
from penstock.components.sources.batches import RowFault, batch_of, empty_batch, take_rows
from penstock.components.sources.csv.parse import Misfit, RowParser, null_texts
from penstock.components.sources.csv.splitter import CsvSplitter
from penstock.components.sources.text.blocks import RowBlock, RowPlace, line_ends
from penstock.components.sources.tokens import SPACES, to_float32, to_int64
from penstock.components.tfrecord.feature_kind import FeatureKind


def isolate(block: RowBlock, place: RowPlace, parser: RowParser, splitter: CsvSplitter) -> Batch:
    """Returns the rows of a block that is not broken, each as good, rejected or blank."""
    return _Isolation(block, parser).batch(place, splitter)


class _Isolation:
    """Good rows and faults of one block; a row is reported with its first faulty column."""

    def __init__(self, block: RowBlock, parser: RowParser) -> None:
        self._block = block
        self._parser = parser
        self._starts, self._ends = block.row_starts(), block.row_ends()
        self._faults: dict[int, RowFault] = {}

    def batch(self, place: RowPlace, splitter: CsvSplitter) -> Batch:
        block = self._block
        values = np.frombuffer(block.data, np.uint8)
        blank = (self._ends - self._starts <= 2) & np.isin(values[self._starts], (0x0A, 0x0D))
        counts, expected = splitter.field_counts(block), len(self._parser.names)
        misfit = (counts != expected) & ~blank
        for row in np.flatnonzero(misfit).tolist():
            fields = "field" if counts[row] == 1 else "fields"
            self._faults[row] = (None, f"{counts[row]} {fields}, expected {expected}")
        table = self._parse(np.flatnonzero(~(blank | misfit)))
        batch = Batch(table, self._rejected(place), int(blank.sum()))
        assert batch.rows_read == block.rows, (place, batch.rows_read, block.rows)
        return batch

    def _rejected(self, place: RowPlace) -> list[RejectedRow]:
        if not self._faults:
            return []
        rows = sorted(self._faults)
        lines = np.searchsorted(line_ends(self._block.data), self._starts[rows], side="right")
        return [
            RejectedRow(
                place.file,
                place.row + row,
                place.line + int(line),
                *self._faults[row],
                self._raw(row).rstrip(b"\r\n"),
            )
            for row, line in zip(rows, lines, strict=True)
        ]

    def _raw(self, row: int) -> bytes:
        return self._block.data[self._starts[row] : self._ends[row]]

    def _parse(self, kept: np.ndarray) -> pa.RecordBatch:
        """Parses the rows `kept`, all of the right width; returns good ones and records faults."""
        columns, quoted = self._parser.columns, self._block.quoted
        if not len(kept):
            return empty_batch(columns)
        data = b"".join([self._raw(row) for row in kept])
        try:
            return self._parser.parse(data, len(kept), quoted=quoted)
        except Misfit:
            raw = self._parser.parse_raw(data, quoted=quoted)
        arrays = [self._convert(column, raw.get(column.name), kept) for column in columns]
        good = [at for at, row in enumerate(kept.tolist()) if row not in self._faults]
        return take_rows(batch_of(columns, arrays), good)

    def _convert(self, column: Column, values: pa.Array | None, kept: np.ndarray) -> pa.Array:
        if values is None:
            return pa.nulls(len(kept), column.arrow_type)
        if column.kind is FeatureKind.BYTES:
            self._check_utf8(column, values, kept)
            return null_texts(values, self._parser.options.text_null_tokens)
        numbers = self._cast(column, values)
        if numbers is not None:
            return numbers
        texts = [
            self._number_text(column, row, value.decode("utf-8", "backslashreplace"))
            for row, value in zip(kept.tolist(), values.to_pylist(), strict=True)
        ]
        return pa.array(texts, pa.string()).cast(column.arrow_type)

    def _cast(self, column: Column, values: pa.Array) -> pa.Array | None:
        """Converts a column of numbers by Arrow; None if values must be examined one by one."""
        nulls = pa.array(self._parser.options.null_tokens, pa.string())
        try:
            texts = values.cast(pa.string())
            no_text = pa.scalar(None, pa.string())
            texts = pc.if_else(pc.is_in(texts, value_set=nulls), no_text, texts)
            numbers = texts.cast(column.arrow_type)
        except pa.ArrowInvalid:
            return None
        if column.kind is FeatureKind.INT:
            odd = pc.match_substring(texts, "0x", ignore_case=True)
        else:
            odd = pc.invert(pc.is_finite(numbers))
        return None if pc.any(odd).as_py() else numbers

    def _number_text(self, column: Column, row: int, text: str) -> str | None:
        """Returns `text` in a form that Arrow reads; None if it means no value or is at fault."""
        options = self._parser.options
        stripped = text.strip(SPACES)
        if text in options.null_tokens or stripped in options.null_tokens:
            return None
        try:
            if column.kind is FeatureKind.INT:
                whole = to_int64(stripped, options.non_finite)
                return None if whole is None else str(whole)
            number = to_float32(stripped, options.non_finite)
        except ValueError as error:
            by = "the sample" if options.schema_file is None else "the schema"
            self._faults.setdefault(row, (column.name, f"{error} ({column.kind.value} by {by})"))
            return None
        return None if number is None else stripped.lstrip("+")

    def _check_utf8(self, column: Column, values: pa.Array, kept: np.ndarray) -> None:
        try:
            values.cast(pa.string())
        except pa.ArrowInvalid:
            for row, value in zip(kept.tolist(), values.to_pylist(), strict=True):
                try:
                    value.decode("utf-8")
                except UnicodeDecodeError:
                    self._faults.setdefault(row, (column.name, self._bad_utf8(row)))

    def _bad_utf8(self, row: int) -> str:
        raw = self._raw(row)
        try:
            raw.decode("utf-8")
        except UnicodeDecodeError as error:
            at = self._block.offset + int(self._starts[row]) + error.start
            return (
                f"not UTF-8: byte 0x{raw[error.start]:02x} at byte {at} of the file; "
                "convert the file, from Latin-1: iconv -f LATIN1 -t UTF-8"
            )
        raise AssertionError("a field that is not UTF-8 is in a row that is")
