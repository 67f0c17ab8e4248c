"""A scan in ranges: where it takes a row to begin, and what that costs where it is mistaken."""

import hashlib
import io

import pytest

from penstock.components.files import cells
from penstock.components.sources.csv.splitter import CsvSplitter
from penstock.components.sources.open import open_source
from penstock.components.sources.text import scan as scan


@pytest.mark.parametrize(
    ("head", "at"),
    [
        (b"\nab,c\n", 1),
        (b"\r\nab,c\n", 2),
        (b"b,c\nd,e\n", 4),
        (b'b,"x\ny"\nd,e\n', 8),
        (b'b "x\ny",c\nd,"e"\n', 10),
        (b'"x\ny",c\nd,"e"\n', 8),
        (b'"\n"a","b"\n', 2),
        (b'b\n5" pipe,c\nd,e\n', 2),
        (b"b,c", None),
        (b"b,c\r", None),
    ],
)
def test_quotes_tell_where_a_row_begins(head, at):
    splitter = CsvSplitter(",", block_bytes=100, max_row_bytes=100)
    assert splitter.guess_row_start(io.BytesIO(head), 100) == at


@pytest.fixture
def scanned(monkeypatch, tmp_path):
    """Scans a text in cells of 64 bytes, two a range: the source, and whose start was given."""
    monkeypatch.setattr(cells, "CELL_BYTES", 64)
    monkeypatch.setattr(cells, "_RANGE_CELLS", 2)
    starts = []
    scan_from = scan._scan_from

    def counted(start, task, *rest):
        starts.append((task.part.start // 128, task.start is not None))
        return scan_from(start, task, *rest)

    monkeypatch.setattr(scan, "_scan_from", counted)

    def open_text(text):
        (tmp_path / "a.csv").write_bytes(text)
        return open_source(str(tmp_path / "a.csv")), starts

    return open_text


def test_long_quoted_texts_are_scanned_once(scanned, read_out):
    text = b"id,text\n" + b"".join(b'%d,"a, b\nc\n%s"\n' % (i, b"x" * (i % 90)) for i in range(60))
    source, starts = scanned(text)
    assert starts == [(at, at == 0) for at in range(len(text) // 128 + 1)]
    assert source.rows == 60
    assert [row[0] for row in read_out(source, 7).rows] == list(range(60))


def test_a_start_that_was_mistaken_is_scanned_again(scanned, read_out):
    # Within the quotes it looks like rows of their own.
    text = b'id,text\n1,"' + b"2,b\n" * 60 + b'"\n3,c\n'
    source, starts = scanned(text)
    assert starts == [(0, True), (1, False), (2, False), (1, True)]
    assert source.rows == 2
    assert [row[0] for row in read_out(source, 2).rows] == [1, 3]


def test_a_file_of_one_cell_has_its_own_digest(tmp_path):
    (tmp_path / "a").write_bytes(b"x")
    with (tmp_path / "a").open("rb") as file:
        stream = cells.CellStream(file, 0, 1)
        assert cells.tree_digest(stream.digests()) == hashlib.sha256(b"x").digest()
