"""Whole files as rows: documents and binary files."""

import os
import tempfile
from pathlib import Path

import pytest

from penstock.components.sources.base import Column
from penstock.components.sources.binary import Binary
from penstock.components.sources.open import open_source
from penstock.components.sources.plain_text import Text
from penstock.components.tfrecord.feature_kind import FeatureKind

INT, BYTES = FeatureKind.INT, FeatureKind.BYTES
ADVICE = "remove it, or set `allow_empty` to skip such files"


@pytest.mark.parametrize("kind", ["binary", "text"])
def test_rows_are_the_files_of_a_tree_with_their_folders(put, read_out, kind):
    mark, is_binary = b"\xef\xbb\xbf", kind == "binary"
    for name, data in (
        ("2.html", b"<html>"),
        ("neg/deep/1.txt", mark + b"{b}"),
        ("pos/1.txt", "schön\r\ngut".encode()),
    ):
        root = put(name, data)
    options = Binary(folder_label=True) if is_binary else Text(unit="document", folder_label=True)
    source = open_source(str(root), options)
    content, size = Column("content" if is_binary else "text", BYTES), Column("size", INT)
    assert source.columns == (
        content, Column("filename", BYTES), *([size] if is_binary else []), Column("label", BYTES)
    )  # fmt: skip
    assert (source.kind, source.rows, source.input_bytes) == (kind, 3, 23)
    assert sorted(read_out(source, 2).rows, key=lambda row: row[1]) == [
        [b"<html>", b"2.html", *([6] if is_binary else []), None],
        [mark * is_binary + b"{b}", b"neg/deep/1.txt", *([6] if is_binary else []), b"neg"],
        ["schön\r\ngut".encode(), b"pos/1.txt", *([11] if is_binary else []), b"pos"],
    ]
    assert sorted(source.files) == [
        f"{root}/{name}" for name in ("2.html", "neg/deep/1.txt", "pos/1.txt")
    ]


def test_the_order_is_the_seeds_and_a_new_file_moves_no_other(put, read_out):
    for number in range(30):
        root = put(f"{number:02}", bytes([number, 1]))

    def order(**options):
        return [row[1] for row in read_out(open_source(str(root), Binary(**options))).rows]

    first = order()
    assert first != sorted(first)
    assert sorted(first) == [b"%02d" % number for number in range(30)]
    assert order() == first
    assert order(shuffle_seed=1) != first
    put("30")
    assert [name for name in order() if name != b"30"] == first


BAD_DOCUMENTS = {
    "b": (b"\xef\xbb\xbfx\n\xff", "byte 6 of the file is not utf-8; set `encoding` to the file's"),
    "c": (b"text then \x00 and more", "byte 11 of the file is NUL, which text cannot have"),
    "d": (b"\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR",
          "looks like a PNG image; read it with --kind images"),
    "e": (b"x" * 101, "has 101 bytes, more than 100; not read"),
    "f": (b"", f"is empty (0 bytes); {ADVICE}"),
    "g": (b" \n", f"holds only white space; {ADVICE}"),
}  # fmt: skip
BAD_BINARIES = {
    "b": (bytes(2**20 + 1), "has 1,048,577 bytes, more than 1,048,576; not read"),
    "c": (b"", f"is empty (0 bytes); {ADVICE}"),
}


@pytest.mark.parametrize(
    ("kind", "limit", "bad", "blank"),
    [
        (Binary, {"max_mib": 1}, BAD_BINARIES, 1),
        (Text, {"unit": "document", "max_row_bytes": 100}, BAD_DOCUMENTS, 2),
    ],
)
def test_unfit_files_are_rejected_rows_and_empty_ones_may_be_blank(
    put, read_out, kind, limit, bad, blank
):
    root = put("a", b"good")
    for name, (data, _) in bad.items():
        put(name, data)
    source = open_source(str(root), kind(**limit))
    [too_large] = [f"{root}/{name}: {text}" for name, (_, text) in bad.items() if "more" in text]
    assert [str(row) for row in source.rejected_by_scan] == [too_large]
    out = read_out(source, 2)
    assert [row[0] for row in out.rows] == [b"good"]
    assert sorted(out.errors) == [f"{name}: {reason}" for name, (_, reason) in bad.items()]
    out = read_out(open_source(str(root), kind(allow_empty=True, **limit)), 2)
    assert (out.blank, len(out.rejected)) == (blank, len(bad) - blank)


def test_documents_in_other_encodings_become_utf8(put, read_out):
    root = put("a", "Grüße\n".encode("latin-1"))
    (row,) = read_out(open_source(str(root), Text(unit="document", encoding="latin-1"))).rows
    assert row[0] == "Grüße\n".encode()


@pytest.fixture
def as_nobody():
    """A folder that everybody may read.

    At the end, the fixture restores the user, which the test changes.
    """
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        before = os.geteuid()
        yield Path(folder)
        os.seteuid(before)


def test_a_file_that_may_not_be_read_is_a_bad_row(as_nobody, read_out):
    for name in ("a", "b"):
        (as_nobody / name).write_bytes(b"x")
        (as_nobody / name).chmod(0o644)
    (as_nobody / "b").chmod(0)
    if os.geteuid() == 0:
        os.seteuid(65534)
    out = read_out(open_source(str(as_nobody), Binary()), 2)
    assert [row[1] for row in out.rows] == [b"a"]
    assert out.errors == ["b: cannot be opened (Permission denied); grant read permission"]


@pytest.mark.parametrize("options", [Binary(folder_label=True), Text(), Text(unit="document")])
@pytest.mark.parametrize("name", [b"caf\xe9", "café".encode()])
def test_names_are_the_bytes_of_the_file_system(put, options, name, read_out):
    put("a/plain.txt")
    root = put(f"{os.fsdecode(name)}/b.txt")
    source = open_source(str(root), options)
    assert sorted(row[1] for row in read_out(source).rows) == [b"a/plain.txt", name + b"/b.txt"]
