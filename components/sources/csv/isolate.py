"""Separates the rows of delimited text that do not fit, with reasons, from those that do.

Used only for rows that `RowParser.parse` refused, so it may cost more per row. Arrow still
converts all columns without faults.
"""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.components.sources.base import Batch, Column, RejectedRow
from penstock.components.sources.batches import RowFault, batch_of, empty_batch, take_rows
from penstock.components.sources.csv.parse import RowParser, first_bad_byte, null_texts
from penstock.components.sources.text.blocks import CR, LF, RowBlock, RowPlace, line_ends
from penstock.components.sources.tokens import SPACES, to_float32, to_int64
from penstock.components.tfrecord.feature_kind import FeatureKind


def isolate(block: RowBlock, place: RowPlace, parser: RowParser) -> Batch:
    """Returns the rows of a block that is not broken, each as good, rejected or blank."""
    return _Isolation(block, parser).batch(place)


class _Isolation:
    """Rows and faults of one block; a row is reported with its first faulty column."""

    def __init__(self, block: RowBlock, parser: RowParser) -> None:
        self._block = block
        self._parser = parser
        self._starts = block.starts
        first = np.frombuffer(block.data, np.uint8)[self._starts]
        blank = (block.ends - self._starts <= 2) & np.isin(first, (LF, CR))
        self._rows: list[int] = np.flatnonzero(~blank).tolist()  # Those that are read.
        self._blank = int(blank.sum())
        self._faults: dict[int, RowFault] = {}

    def batch(self, place: RowPlace) -> Batch:
        table = self._good_rows()
        faulty = sorted(self._faults)
        ends = line_ends(self._block.data, at_cr=True, last=True)
        lines = np.searchsorted(ends, self._starts[faulty], side="right").tolist()
        rejected = [
            RejectedRow(
                place.file,
                place.row + row,
                place.line + line,
                *self._faults[row],
                self._raw(row).rstrip(b"\r\n"),
            )
            for row, line in zip(faulty, lines, strict=True)
        ]
        batch = Batch(table, rejected, self._blank)
        assert batch.rows_read == self._block.rows, (place, batch.rows_read, self._block.rows)
        return batch

    def _raw(self, row: int) -> bytes:
        return self._block.data[self._starts[row] : self._block.ends[row]]

    def _good_rows(self) -> pa.RecordBatch:
        """Parses the rows; records the faults of the others."""
        columns, data = self._parser.columns, b"".join(map(self._raw, self._rows))
        if not data:
            return empty_batch(columns)
        raw = self._parser.parse_raw(
            data, columns, quoted=self._block.quoted, on_invalid=self._reject_width
        )
        self._rows = [row for row in self._rows if row not in self._faults]
        arrays = [self._convert(column, raw.get(column.name)) for column in columns]
        good = [at for at, row in enumerate(self._rows) if row not in self._faults]
        return take_rows(batch_of(columns, arrays), good)

    def _reject_width(self, row: Any) -> None:
        fields = "field" if row.actual_columns == 1 else "fields"
        reason = f"{row.actual_columns} {fields}, expected {row.expected_columns}"
        self._faults[self._rows[row.number - 1]] = (None, reason)

    def _convert(self, column: Column, values: pa.Array | None) -> pa.Array:
        if values is None:
            return pa.nulls(len(self._rows), column.arrow_type)
        if column.kind is FeatureKind.BYTES:
            self._check_utf8(column, values)
            return null_texts(values, self._parser.options.text_null_tokens)
        numbers = self._cast(column, values)
        if numbers is not None:
            return numbers
        texts = [
            self._number_text(column, row, value.decode("utf-8", "backslashreplace"))
            for row, value in zip(self._rows, values.to_pylist(), strict=True)
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

    def _check_utf8(self, column: Column, values: pa.Array) -> None:
        try:
            values.cast(pa.string())
            return
        except pa.ArrowInvalid:
            pass
        for row, value in zip(self._rows, values.to_pylist(), strict=True):
            if first_bad_byte(value) is not None:
                raw = self._raw(row)
                bad = first_bad_byte(raw)
                assert bad is not None, "a field that is not UTF-8 is in a row that is not"
                at = self._block.offset + int(self._starts[row]) + bad
                reason = (
                    f"not UTF-8: byte 0x{raw[bad]:02x} at byte {at} of the file; convert the file, "
                    "from Latin-1: iconv -f LATIN1 -t UTF-8"
                )
                self._faults.setdefault(row, (column.name, reason))
