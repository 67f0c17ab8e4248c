"""Tables give the rows of Python's csv module; any text gives the same rows however it is cut."""

import csv as python_csv
import io
import re

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from penstock.components.sources.csv import source as penstock_csv
from penstock.components.sources.open import open_source
from penstock.components.sources.options import Table
from penstock.components.sources.text import source as text_scan

_MANY = settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
_CELL = st.text(st.sampled_from('ab,;"\n\r é0.'), max_size=6)
_LINE_END = st.sampled_from(["\n", "\r\n"])


def _write_cell(cell: str, quote: bool) -> str:
    """Writes a cell; a quote within it is left unescaped where CSV allows that."""
    if quote or cell.startswith('"') or any(mark in cell for mark in ",\r\n"):
        return '"' + cell.replace('"', '""') + '"'
    return cell


@st.composite
def _tables(draw):
    """Draws a table with blank lines, any quoting and any line ends, as (text, column count)."""
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


def _set_blocks(monkeypatch, block_bytes):
    monkeypatch.setattr(text_scan, "CELL_BYTES", block_bytes)
    monkeypatch.setattr(penstock_csv, "BLOCK_BYTES", block_bytes + 3)


def _write_schema(tmp_path, **kinds):
    path = tmp_path / "schema.pbtxt"
    path.write_text("".join(f'feature {{ name: "{n}" type: {k} }}\n' for n, k in kinds.items()))
    return str(path)


@_MANY
@given(table=_tables(), parts=st.integers(1, 6), block_bytes=st.integers(1, 80))
def test_reads_what_python_reads(table, parts, block_bytes, tmp_path, monkeypatch, read_out):
    text, width = table
    path = tmp_path / "table.csv"
    path.write_bytes(text.encode())
    expected = list(python_csv.reader(io.StringIO(text, newline="")))[1:]
    _set_blocks(monkeypatch, block_bytes)
    schema = _write_schema(tmp_path, **{f"c{at}": "BYTES" for at in range(width)})
    options = Table(schema_file=schema, allow_empty=True)
    out = read_out(open_source(str(path), options), parts)
    assert out.rejected == []
    assert out.rows == [[cell.encode() or None for cell in row] for row in expected if row]
    assert out.blank == expected.count([])


@_MANY
@given(
    text=st.text(st.sampled_from('aa,,"\n\n\r1'), min_size=1, max_size=60),
    parts=st.integers(1, 6),
    block_bytes=st.integers(1, 40),
    max_row_bytes=st.sampled_from([12, 1000]),
)
@example(text='"111111111\r"1', parts=1, block_bytes=1, max_row_bytes=12)
def test_any_text_reads_alike_however_it_is_cut(
    text, parts, block_bytes, max_row_bytes, tmp_path, monkeypatch, read_out
):
    path = tmp_path / "table.csv"
    path.write_bytes(b"c0,c1\n" + text.encode())
    schema = _write_schema(tmp_path, c0="BYTES", c1="INT")
    options = Table(schema_file=schema, allow_empty=True, max_row_bytes=max_row_bytes)

    def read(block_bytes, parts):
        _set_blocks(monkeypatch, block_bytes)
        return read_out(open_source(str(path), options), parts)

    whole = read(1000, 1)
    assert read(block_bytes, parts) == whole
    lines = re.split("\r\n|\r|\n", "c0,c1\n" + text)
    begins = [0, *(end.end() for end in re.finditer("\r\n|\r|\n", "c0,c1\n" + text))]
    for row in whole.rejected:
        assert row.raw.decode()
        if "is longer than" in row.reason:  # a quoted cell may contain line ends
            assert ("c0,c1\n" + text).startswith(row.raw.decode(), begins[row.line - 1])
        elif row.column is None and "\n" not in row.raw.decode() and "\r" not in row.raw.decode():
            assert lines[row.line - 1] == row.raw.decode()


_GOOD = st.tuples(
    st.integers(-5, 5).map(str),
    st.sampled_from(["1.5", "", "NA", "-2e3"]),
    st.text(st.sampled_from("abé\n,"), min_size=1, max_size=5).map(lambda text: f'"x{text}"'),
).map(lambda cells: ("good", ",".join(cells)))
_BAD = st.sampled_from(
    [
        ("1", None, "1 field, expected 3"),
        ("1,2", None, "2 fields, expected 3"),
        ("1,2,a,b,c", None, "5 fields, expected 3"),
        ("one,2,a", "i", "'one' is not an integer (INT by the schema)"),
        ("9223372036854775808,2,a", "i", "'9223372036854775808' is beyond int64"),
        ("1,1e39,a", "f", "'1e39' is beyond float32 (3.4e38)"),
        ("1,inf,a", "f", "inf is not finite"),
        ("1,2,a\udcff", "t", "not UTF-8: byte 0xff at byte "),
        ('1,2,"open', None, "unbalanced quote"),
    ]
).map(lambda bad: ("bad", *bad))


@_MANY
@given(
    rows=st.lists(_GOOD | _BAD | st.just(("blank", "")), min_size=1, max_size=25),
    parts=st.integers(1, 5),
    block_bytes=st.integers(1, 120),
)
def test_bad_rows_are_named_and_their_neighbours_kept(
    rows, parts, block_bytes, tmp_path, monkeypatch, read_out
):
    path = tmp_path / "table.csv"
    lines = [row[1].encode("utf-8", "surrogateescape") for row in rows]
    path.write_bytes(b"i,f,t\n" + b"".join(line + b"\n" for line in lines))
    _set_blocks(monkeypatch, block_bytes)
    options = Table(
        schema_file=_write_schema(tmp_path, i="INT", f="FLOAT", t="BYTES"), allow_empty=True
    )
    out = read_out(open_source(str(path), options), parts)
    assert [row[2] for row in out.rows] == [
        line.split(b",", 2)[2].strip(b'"')
        for row, line in zip(rows, lines, strict=True)
        if row[0] == "good"
    ]
    line_number, expected = 2, []
    for number, (row, line) in enumerate(zip(rows, lines, strict=True), 1):
        if row[0] == "bad":
            expected.append((number, line_number, row[2], line))
        line_number += 1 + line.count(b"\n")
    assert [(row.row, row.line, row.column, row.raw) for row in out.rejected] == expected
    reasons = [row[3] for row in rows if row[0] == "bad"]
    for rejected, reason in zip(out.rejected, reasons, strict=True):
        assert rejected.reason.startswith(reason)
    assert out.blank == sum(row[0] == "blank" for row in rows)
