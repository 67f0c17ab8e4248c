"""Whatever is in the text and however it is cut: the rows that Python's csv module gives."""

import csv as python_csv
import io

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.components.sources import csv as penstock_csv
from penstock.components.sources.open import open_source
from penstock.components.sources.options import SourceOptions

_FEW = settings(
    max_examples=200,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
_CELL = st.text(st.sampled_from('ab,;"\n\r é0.'), max_size=6)
_LINE_END = st.sampled_from(["\n", "\r\n"])


def _write_cell(cell: str, quote: bool) -> str:
    """A quote within a cell stands bare where it may."""
    if quote or cell.startswith('"') or any(mark in cell for mark in ",\r\n"):
        return '"' + cell.replace('"', '""') + '"'
    return cell


@st.composite
def _tables(draw):
    """(text, number of columns) of a table with blank lines, any quoting and line ends."""
    width = draw(st.integers(1, 4))
    rows = draw(st.lists(st.lists(_CELL, min_size=width, max_size=width), min_size=1, max_size=30))
    text = ",".join(f"c{at}" for at in range(width)) + draw(_LINE_END)
    for row in rows:
        text += draw(_LINE_END) * draw(st.sampled_from([0, 0, 0, 1, 2]))
        quotes = draw(st.lists(st.booleans(), min_size=width, max_size=width))
        line = ",".join(_write_cell(*pair) for pair in zip(row, quotes, strict=True))
        text += (line or '""') + draw(_LINE_END)
    if draw(st.booleans()):
        text = text.rstrip("\r\n")
    return text, width


def _read(source, parts):
    rows, rejected, blank, read = [], [], 0, 0
    for run in source.cut(parts):
        for batch in source.read(run):
            columns = [column.to_pylist() for column in batch.table.columns]
            rows += [list(row) for row in zip(*columns, strict=True)]
            rejected += batch.rejected
            blank += batch.blank
            read += batch.rows_read
    assert read == source.rows == len(rows) + len(rejected) + blank
    return rows, rejected, blank


def _oracle(text):
    """Rows by Python's csv module, nothing for a blank line, None for no text."""
    rows = list(python_csv.reader(io.StringIO(text, newline="")))[1:]
    return [[cell.encode() or None for cell in row] for row in rows if row], rows.count([])


@_FEW
@given(table=_tables(), parts=st.integers(1, 6), block_bytes=st.integers(1, 80))
def test_reads_what_python_reads(table, parts, block_bytes, tmp_path, monkeypatch):
    text, width = table
    path = tmp_path / "table.csv"
    path.write_bytes(text.encode())
    expected, blank = _oracle(text)
    monkeypatch.setattr(penstock_csv, "SCAN_BLOCK_BYTES", block_bytes)
    monkeypatch.setattr(penstock_csv, "READ_BLOCK_BYTES", block_bytes + 3)
    schema = tmp_path / "schema.pbtxt"
    schema.write_text("".join(f'feature {{ name: "c{at}" type: BYTES }}' for at in range(width)))
    source = open_source(str(path), SourceOptions(schema_file=str(schema), allow_empty=True))
    rows, rejected, blanks = _read(source, parts)
    assert rejected == []
    assert rows == expected
    assert blanks == blank
