"""Whole files of text as rows."""

import pytest

from penstock.components.sources.base import Column
from penstock.components.sources.open import open_source
from penstock.components.sources.plain_text import Text
from penstock.components.tfrecord.feature_kind import FeatureKind


@pytest.fixture
def put(tmp_path):
    """Writes a document below `notes/`, and says where that is."""

    def write(name, data):
        path = tmp_path / "notes" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return tmp_path / "notes"

    return write


def open_documents(inputs, **options):
    return open_source(str(inputs), Text(unit="document", **options))


def test_rows_are_files_with_their_names_and_labels(put, read_out):
    put("pos/1.txt", "schön\r\nund gut\n".encode())
    put("neg/1.txt", b"\xef\xbb\xbf{bad}")
    root = put("2.html", b"<html>")
    source = open_documents(root, folder_label=True)
    assert source.columns == tuple(
        Column(name, FeatureKind.BYTES) for name in ("text", "filename", "label")
    )
    assert (source.kind, source.rows) == ("text", 3)
    for parts in (1, 3):
        assert sorted(read_out(source, parts).rows) == [
            [b"<html>", b"2.html", None],
            ["schön\r\nund gut\n".encode(), b"pos/1.txt", b"pos"],
            [b"{bad}", b"neg/1.txt", b"neg"],
        ]
    assert read_out(open_documents(root)).rows[0][2:] == []


def test_what_is_no_text_is_a_bad_row(put, read_out):
    put("a", b"good")
    put("b", b"\xef\xbb\xbfx\n\xff")
    put("c", b"text then \x00 and more text")
    put("d", b"")
    put("e", b" \n")
    put("f", b"\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR")
    root = put("g", b"x" * 101)
    out = read_out(open_documents(root, max_row_bytes=100), 2)
    assert [row[0] for row in out.rows] == [b"good"]
    advice = "remove it, or set `allow_empty` to skip such files"
    assert sorted(out.errors) == [
        "b: byte 6 of the file is not utf-8; set `encoding` to the file's",
        "c: byte 11 of the file is NUL, which text cannot have",
        f"d: is empty (0 bytes); {advice}",
        f"e: holds only white space; {advice}",
        "f: looks like a PNG image; read it with --kind images",
        "g: has 101 bytes, more than 100; not read",
    ]
    out = read_out(open_documents(root, allow_empty=True), 2)
    assert out.blank == 2
    assert len(out.rejected) == 3


def test_other_encodings_become_utf8(put, read_out):
    root = put("a", "Grüße\n".encode("latin-1"))
    (row,) = read_out(open_documents(root, encoding="latin-1")).rows
    assert row[0] == "Grüße\n".encode()
