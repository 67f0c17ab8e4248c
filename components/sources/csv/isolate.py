"""Rows of delimited text some of which do not fit: which ones, why, and all the others.

Entered only with rows that `RowParser.parse` refused, so it may cost more a row; still all
columns but those at fault are converted by Arrow. Good, rejected and blank rows come out,
and add up to the rows that went in.
"""

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.components.sources.base import Batch, Column, RejectedRow
from penstock.components.sources.batches import batch_of, empty_batch, take_rows
from penstock.components.sources.csv.blocks import RowBlock, line_ends
from penstock.components.sources.csv.parse import Misfit, RowParser, null_texts
from penstock.components.sources.csv.rows import RowSplitter
from penstock.components.sources.text_files import RowPlace
from penstock.components.sources.tokens import SPACES, to_float32, to_int64
from penstock.components.tfrecord.feature_kind import FeatureKind


def isolate(block: RowBlock, place: RowPlace, parser: RowParser, splitter: RowSplitter) -> Batch:
    """Every row of a block that is not broken, as a good, a rejected or a blank one."""
    return _Isolation(block, place, parser, splitter).batch()


@dataclass
class _Isolation:
    """One run of `isolate`.

    Attributes:
        faults: By row of the block: the column at fault, or None for the row as a whole,
            and the reason. The first column at fault counts.
    """

    block: RowBlock
    place: RowPlace
    parser: RowParser
    splitter: RowSplitter
    faults: dict[int, tuple[str | None, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.ends = self.block.row_ends()
        self.starts = np.concatenate([[0], self.ends[:-1]])

    def batch(self) -> Batch:
        values = np.frombuffer(self.block.data, np.uint8)
        blank = (self.ends - self.starts <= 2) & np.isin(values[self.starts], (0x0A, 0x0D))
        self._check_widths(blank)
        ragged = np.zeros(self.block.rows, np.bool_)
        ragged[list(self.faults)] = True
        table = self._parse(np.flatnonzero(~(blank | ragged)))
        rejected = self._rejected(sorted(self.faults))
        batch = Batch(table, rejected, int(blank.sum()))
        assert batch.rows_read == self.block.rows, (self.place, batch.rows_read, self.block.rows)
        return batch

    def _rejected(self, rows: list[int]) -> list[RejectedRow]:
        if not rows:
            return []
        place = self.place
        lines = np.searchsorted(line_ends(self.block.data), self.starts[rows], side="right")
        return [
            RejectedRow(
                place.file,
                place.row + row,
                place.line + int(line),
                *self.faults[row],
                self._raw(row).rstrip(b"\r\n"),
            )
            for row, line in zip(rows, lines, strict=True)
        ]

    def _raw(self, row: int) -> bytes:
        return self.block.data[self.starts[row] : self.ends[row]]

    def _check_widths(self, blank: np.ndarray) -> None:
        counts = self.splitter.field_counts(self.block)
        expected = len(self.parser.names)
        for row in np.flatnonzero((counts != expected) & ~blank).tolist():
            fields = "field" if counts[row] == 1 else "fields"
            self.faults[row] = (None, f"{counts[row]} {fields}, expected {expected}")

    def _parse(self, kept: np.ndarray) -> pa.RecordBatch:
        """The good ones of the rows `kept`, all of the right width; the others become faults."""
        if not len(kept):
            return empty_batch(self.parser.columns)
        data = b"".join([self._raw(row) for row in kept])
        quoted = self.block.quoted
        try:
            return self.parser.parse(data, len(kept), quoted=quoted)
        except Misfit:
            raw = self.parser.parse_raw(data, quoted=quoted)
        columns = self.parser.columns
        arrays = [self._convert(column, raw.get(column.name), kept) for column in columns]
        good = [at for at, row in enumerate(kept.tolist()) if row not in self.faults]
        return take_rows(batch_of(columns, arrays), good)

    def _convert(self, column: Column, values: pa.Array | None, kept: np.ndarray) -> pa.Array:
        """One column's values (binary [kept]) as its kind; null where it is at fault."""
        if values is None:
            return pa.nulls(len(kept), column.arrow_type)
        if column.kind is FeatureKind.BYTES:
            self._check_utf8(column, values, kept)
            return null_texts(values, self.parser.options.text_null_tokens)
        numbers = self._cast(column, values)
        if numbers is not None:
            return numbers
        texts = [
            self._number_text(column, row, value.decode("utf-8", "backslashreplace"))
            for row, value in zip(kept.tolist(), values.to_pylist(), strict=True)
        ]
        return pa.array(texts, pa.string()).cast(column.arrow_type)

    def _cast(self, column: Column, values: pa.Array) -> pa.Array | None:
        """A column of numbers by Arrow if nothing in it needs a closer look, else None."""
        nulls = pa.array(self.parser.options.null_tokens, pa.string())
        no_text = pa.scalar(None, pa.string())
        try:
            texts = values.cast(pa.string())
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
        """`text` as Arrow reads it; None where it is no value or at fault."""
        options = self.parser.options
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
            reason = f"{error} ({column.kind.value} by {by})"
            self.faults.setdefault(row, (column.name, reason))
            return None
        return None if number is None else stripped.lstrip("+")

    def _check_utf8(self, column: Column, values: pa.Array, kept: np.ndarray) -> None:
        try:
            values.cast(pa.string())
            return
        except pa.ArrowInvalid:
            pass
        for row, value in zip(kept.tolist(), values.to_pylist(), strict=True):
            try:
                value.decode("utf-8")
            except UnicodeDecodeError:
                self.faults.setdefault(row, (column.name, self._bad_utf8(row)))

    def _bad_utf8(self, row: int) -> str:
        raw = self._raw(row)
        try:
            raw.decode("utf-8")
        except UnicodeDecodeError as error:
            at = self.block.offset + int(self.starts[row]) + error.start
            return (
                f"not UTF-8: byte 0x{raw[error.start]:02x} at byte {at} of the file; "
                "convert the file, from Latin-1: iconv -f LATIN1 -t UTF-8"
            )
        raise AssertionError("a field that is not UTF-8 is in a row that is")
