"""Converts rows of delimited text to typed Arrow columns with Arrow's CSV reader.

Arrow divides rows into fields and converts whole columns. The values of a column are examined one
by one only if Arrow refuses a number or could misread it (`0x10` as 16), or if text is not UTF-8.
"""

from codecs import BOM_UTF8
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from penstock.components.sources.base import Batch, Column, RejectedRow
from penstock.components.sources.batches import (
    Faults,
    RowFault,
    convert_columns,
    empty_batch,
    rows_without,
)
from penstock.components.sources.options import Csv
from penstock.components.sources.text.blocks import RowBlock, RowPlace
from penstock.components.sources.text.rows import CR, LF, line_ends
from penstock.components.sources.tokens import SPACES, to_float32, to_int64
from penstock.components.tfrecord.feature_kind import FeatureKind


@dataclass(frozen=True)
class RowParser:
    """Parser of rows whose fields are the columns `names`, in that order.

    A column that is in `columns` but not in `names` is null in all rows.
    """

    names: tuple[str, ...]
    columns: tuple[Column, ...]
    options: Csv

    def parse(self, block: RowBlock, place: RowPlace) -> Batch:
        """Parses a block that has no broken row; each of its rows is good, rejected or blank.

        A rejected row is reported with the first column in which it has a fault.
        """
        first = np.frombuffer(block.data, np.uint8)[block.starts]
        is_blank = (block.ends - block.starts <= 2) & np.isin(first, (LF, CR))
        rows = np.flatnonzero(~is_blank)
        table, faults = self._convert(block, rows)
        rejected = [*_rejected(block, place, faults)] if faults else []
        batch = Batch(table, rejected, block.rows - len(rows))
        assert batch.rows_read == block.rows, (place, batch.rows_read, block.rows)
        return batch

    def fields(
        self,
        data: bytes,
        columns: Sequence[Column],
        *,
        quoted: bool,
        on_invalid: Callable[[Any], None] = lambda row: None,
    ) -> tuple[dict[str, pa.Array], bool]:
        """Returns those `columns` that are in `names`, by name, as unconverted binary arrays.

        Also returns whether all of `data` is UTF-8. Rows with another number of fields than `names`
        are left out; `on_invalid` receives Arrow's description of each.
        """

        def skip(row: Any) -> str:
            on_invalid(row)
            return "skip"

        names = [column.name for column in columns if column.name in self.names]
        types = dict.fromkeys(names or self.names[:1], pa.binary())
        is_utf8 = first_bad_byte(data) is None
        # To describe a row with a wrong number of fields, Arrow decodes it as UTF-8, so data that
        # is not UTF-8 is first decoded as Latin-1 and encoded as UTF-8.
        utf8 = data if is_utf8 else data.decode("latin-1").encode()
        if utf8.startswith(BOM_UTF8):
            # `data` never contains the byte order mark of the file, so this mark belongs to the
            # first field. Arrow strips one mark at the start of the data, so a second is added.
            utf8 = BOM_UTF8 + utf8
        # read_csv is not used: in each call, it searches all Python objects for references to its
        # frame, which takes 8-17 ms in a process with Beam (pyarrow 10).
        table = pa.csv.open_csv(
            _arrow_owned(utf8),
            read_options=pa.csv.ReadOptions(
                column_names=self.names, use_threads=False, block_size=len(utf8) + 1
            ),
            parse_options=pa.csv.ParseOptions(
                delimiter=self.options.delimiter,
                quote_char='"' if quoted else False,
                newlines_in_values=quoted,
                invalid_row_handler=skip,
            ),
            convert_options=pa.csv.ConvertOptions(
                column_types=types, include_columns=list(types), include_missing_columns=True
            ),
        ).read_all()
        found = {name: table[name].combine_chunks() for name in names}
        if not is_utf8:
            found = {name: _latin1(values) for name, values in found.items()}
        return found, is_utf8

    def _convert(
        self, block: RowBlock, rows: npt.NDArray[np.int64]
    ) -> tuple[pa.RecordBatch, dict[int, RowFault]]:
        """Returns the good rows among `rows` of a block, and the faults of the others by row."""
        is_whole = len(rows) == block.rows
        data = block.data if is_whole else b"".join(_raw(block, row) for row in rows)
        if not data:
            return empty_batch(self.columns), {}
        wrong_width: dict[int, RowFault] = {}

        def reject(row: Any) -> None:
            fields = "field" if row.actual_columns == 1 else "fields"
            reason = f"{row.actual_columns} {fields}, expected {row.expected_columns}"
            wrong_width[int(rows[row.number - 1])] = (None, reason)

        raw, is_utf8 = self.fields(data, self.columns, quoted=block.quoted, on_invalid=reject)
        kept = np.setdiff1d(rows, [*wrong_width]) if wrong_width else rows
        may_be_hex = b"0x" in data or b"0X" in data

        def convert(column: Column) -> tuple[pa.Array, Faults]:
            values = raw.get(column.name)
            if values is None:
                return pa.nulls(len(kept), column.arrow_type), {}
            if column.kind is not FeatureKind.BYTES:
                numbers = _cast(values, column, self.options, may_be_hex=may_be_hex)
                return (
                    _one_by_one(values, column, self.options) if numbers is None else (numbers, {})
                )
            texts = null_texts(values, self.options.text_null_tokens)
            bytes_of = enumerate([] if is_utf8 else values.to_pylist())
            bad = [at for at, text in bytes_of if first_bad_byte(text) is not None]
            return texts, {at: _not_utf8(block, kept[at]) for at in bad}

        table, faults = convert_columns(self.columns, convert)
        of_rows = {int(kept[at]): fault for at, fault in faults.items()}
        return rows_without(faults, table), wrong_width | of_rows


def _rejected(
    block: RowBlock, place: RowPlace, faults: Mapping[int, RowFault]
) -> Iterator[RejectedRow]:
    ends = line_ends(block.data, at_cr=True, last=True)
    for row in sorted(faults):
        line = int(np.searchsorted(ends, block.starts[row], side="right"))
        raw = _raw(block, row).rstrip(b"\r\n")
        yield RejectedRow(place.file, place.row + row, place.line + line, *faults[row], raw)


def _raw(block: RowBlock, row: int) -> bytes:
    return block.data[block.starts[row] : block.ends[row]]


def _cast(values: pa.Array, column: Column, options: Csv, *, may_be_hex: bool) -> pa.Array | None:
    """Converts a number column with Arrow; returns None if values must be examined one by one."""
    try:
        texts = pc.ascii_trim(values.cast(pa.string()), SPACES)
        texts = null_texts(texts, options.null_tokens)
        numbers = texts.cast(column.arrow_type)
    except pa.ArrowInvalid:
        return None
    if column.kind is FeatureKind.INT:
        # Arrow reads "0x10" as 16.
        odd = may_be_hex and pc.any(pc.match_substring(texts, "0x", ignore_case=True)).as_py()
        return None if odd else numbers
    found = numbers.fill_null(0).to_numpy(zero_copy_only=False)
    if np.isfinite(found).all():
        return numbers
    # Infinity may come from a finite number beyond float32; NaN comes only from a text for NaN,
    # including "nan(1)", which Arrow also accepts.
    if options.non_finite == "reject" or np.isinf(found).any():
        return None
    if pc.any(pc.match_substring(texts, "(")).as_py():
        return None
    if options.non_finite == "keep":
        return numbers
    return pc.if_else(pa.array(np.isnan(found)), pa.scalar(None, pa.float32()), numbers)


def _one_by_one(values: pa.Array, column: Column, options: Csv) -> tuple[pa.Array, Faults]:
    texts, faults = [], Faults()
    by = "the sample" if options.schema_file is None else "the schema"
    for at, value in enumerate(values.to_pylist()):
        text: str | None = value.decode("utf-8", "backslashreplace")
        try:
            text = _number_text(str(text), column, options)
        except ValueError as error:
            text, faults[at] = None, f"{error} ({column.kind.value} by {by})"
        texts.append(text)
    return pa.array(texts, pa.string()).cast(column.arrow_type), faults


def _number_text(text: str, column: Column, options: Csv) -> str | None:
    """Returns `text` in a form that Arrow can cast, or None for a null.

    Raises ValueError if `text` is no number.
    """
    stripped = text.strip(SPACES)
    if text in options.null_tokens or stripped in options.null_tokens:
        return None
    if column.kind is FeatureKind.INT:
        whole = to_int64(stripped, options.non_finite)
        return None if whole is None else str(whole)
    number = to_float32(stripped, options.non_finite)
    return None if number is None else stripped.lstrip("+")


def _not_utf8(block: RowBlock, row: int) -> str:
    raw = _raw(block, row)
    bad = first_bad_byte(raw)
    assert bad is not None, "a field that is not UTF-8 is in a row that is not"
    return (
        f"not UTF-8: byte 0x{raw[bad]:02x} at byte {block.offset + int(block.starts[row]) + bad} "
        "of the file; convert the file, from Latin-1: iconv -f LATIN1 -t UTF-8"
    )


def first_bad_byte(data: bytes) -> int | None:
    """Returns the index of the first byte that is not UTF-8."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        return error.start
    return None


def _latin1(values: pa.Array) -> pa.Array:
    texts = values.cast(pa.string()).to_pylist()
    return pa.array([text.encode("latin-1") for text in texts], pa.binary())


def _arrow_owned(data: bytes) -> pa.Buffer:
    """Returns a copy of `data` in memory that Python does not own.

    A thread of Arrow's reader may be the last to release the buffer while the interpreter ends. If
    Python owned the memory, the process would then abort ("terminate called without an active
    exception", Arrow issue 34314; seen here in one run of twenty). The copy costs 0.02 us per row.
    """
    buffer = pa.allocate_buffer(len(data))
    memoryview(buffer).cast("B")[:] = data
    return buffer


def null_texts(array: pa.Array, tokens: tuple[str, ...]) -> pa.Array:
    """Returns an array of texts, with null for each value that is one of `tokens`."""
    hit = pc.is_in(array, value_set=pa.array(tokens, pa.string()).cast(array.type))
    return pc.if_else(hit, pa.scalar(None, array.type), array)
