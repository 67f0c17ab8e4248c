"""Lines of text as rows."""

import gzip
import tracemalloc

import pytest

from penstock.components.errors import DataError, UsageError
from penstock.components.sources import plain_text
from penstock.components.sources.base import Column
from penstock.components.sources.open import open_source
from penstock.components.sources.plain_text import Text
from penstock.components.tfrecord.feature_kind import FeatureKind


@pytest.fixture
def write(tmp_path):
    """A function that writes a file and returns its path."""

    def write(data, name="a.txt"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return path

    return write


def open_text(inputs, **options):
    return open_source(str(inputs), Text(**options))


def lines(out):
    return [(row[2], row[0].decode()) for row in out.rows]


def test_rows_are_lines_with_their_file_and_number(write, read_out, tmp_path):
    write("Grüße\nzwei\n".encode(), "d/b.txt")
    write(b"one\ntwo", "d/a.log")
    source = open_text(tmp_path / "d")
    assert source.columns == (
        Column("text", FeatureKind.BYTES),
        Column("filename", FeatureKind.BYTES),
        Column("line", FeatureKind.INT),
    )
    assert (source.kind, source.rows, source.input_bytes) == ("text", 4, 20)
    assert read_out(source, 5).rows == [
        [b"one", b"a.log", 1],
        [b"two", b"a.log", 2],
        ["Grüße".encode(), b"b.txt", 1],
        [b"zwei", b"b.txt", 2],
    ]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"a\r\nb\r\n", ["a", "b"]),
        (b"a\r\nb", ["a", "b"]),
        (b"a\nb\r", ["a", "b"]),
        (b"a\rb\nc\r\r\n", ["a\rb", "c\r"]),
        (b"\xef\xbb\xbfa\nb\n", ["a", "b"]),
        (b"  a \n\tb\n", ["  a ", "\tb"]),
        (b'{"a": 1}\n<html>\n', ['{"a": 1}', "<html>"]),
    ],
)
def test_line_ends_are_lf_or_crlf_and_nothing_else_is_taken_off(write, read_out, data, expected):
    out = read_out(open_text(write(data)))
    assert [text for _, text in lines(out)] == expected


def test_blank_lines_are_counted_or_kept(write, read_out):
    path = write(b"a\n\n  \t\r\nb\n\r\n\n c\n")
    out = read_out(open_text(path))
    assert (lines(out), out.blank) == ([(1, "a"), (4, "b"), (7, " c")], 4)
    out = read_out(open_text(path, skip_blank=False))
    assert lines(out) == [(1, "a"), (2, ""), (3, "  \t"), (4, "b"), (5, ""), (6, ""), (7, " c")]
    assert out.blank == 0


@pytest.mark.parametrize(
    ("encoding", "data", "good", "bad"),
    [
        ("utf-8", b"\xef\xbb\xbfgood\nb\xffd\n\nok\r\n", [(1, "good"), (4, "ok")],
         "2 (row 2): byte 2 of the line (byte 10 of the file) is not utf-8; set `encoding` to the "
         "file's"),
        ("utf-8", b"\xef\xbb\xbfgood\nn\x00l\n", [(1, "good")],
         "2 (row 2): byte 2 of the line (byte 10 of the file) is NUL, which text cannot have"),
        ("windows-1252", b"Gr\xfc\xdfe \x80\r\n\x81\nok\n", [(1, "Grüße €"), (3, "ok")],
         "2 (row 2): byte 1 of the line (byte 10 of the file) is not cp1252; set `encoding` to the "
         "file's"),
        ("shift_jis", "日本\n語\n".encode("shift_jis"), [(1, "日本"), (2, "語")], None),
    ],
)  # fmt: skip
def test_lines_become_utf8_or_are_named_by_line_and_byte(
    write, read_out, encoding, data, good, bad
):
    out = read_out(open_text(write(data), encoding=encoding))
    assert lines(out) == good
    assert out.errors == ([f"a.txt: line {bad}"] if bad else [])
    assert [row.raw for row in out.rejected] == data.splitlines()[1:2] * bool(bad)


def test_a_line_that_is_too_long_is_a_bad_row_and_takes_no_memory(write, read_out, monkeypatch):
    monkeypatch.setattr(plain_text, "LINE_BLOCK_BYTES", 64)
    fits = b"f" * 100
    path = write(
        b"a\n" + b"x" * 101 + b"\nb\n" + fits + b"\r\n" + b"y" * 9999 + b"\nc\n" + b"z" * 500
    )
    for parts in (1, 2, 3, 9):
        out = read_out(open_text(path, max_row_bytes=100), parts)
        assert lines(out) == [(1, "a"), (3, "b"), (4, "f" * 100), (6, "c")]
        assert out.errors == [
            f"a.txt: line {line} (row {line}): is longer than `max_row_bytes` 100; "
            "set that higher if the line is right"
            for line in (2, 5, 7)
        ]
    path = write(b"x" * 101 + b"\nb\n")
    monkeypatch.setattr(plain_text, "LINE_BLOCK_BYTES", 1000)
    assert len(read_out(open_text(path, max_row_bytes=100)).rejected) == 1


def test_memory_is_bounded_whatever_the_line(tmp_path, read_out):
    path = tmp_path / "a.txt"
    with path.open("wb") as file:
        file.write(b"a\n")
        for _ in range(64):
            file.write(b"x" * 2**20)
        file.write(b"\nb\n")
    tracemalloc.start()
    out = read_out(open_text(path, max_row_bytes=2**20), 3)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert lines(out) == [(1, "a"), (3, "b")]
    assert len(out.rejected[0].raw) == 4096
    assert peak < 24 * 2**20


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is empty (0 bytes); remove it, or set `allow_empty` to skip such files"),
        (b"\n \r\n", "holds only blank lines; remove it, or set `allow_empty` to skip such files"),
        (gzip.compress(b"a\n", mtime=0)[:-1], "its compressed data cannot be read (Compressed "
         "file ended before the end-of-stream marker was reached); if they are damaged or cut, "
         "copy or write the file again"),
        ("a\n".encode("utf-16"), "looks like UTF-16; convert it: iconv -f UTF-16 -t UTF-8"),
        ("abc\n".encode("utf-16-le"), "looks like UTF-16 without a mark; convert it: iconv -f "
         "UTF-16LE -t UTF-8"),
        (bytes(range(256)), "looks like binary data; read it with `kind='binary'`"),
    ],
)  # fmt: skip
def test_a_file_that_is_no_lines_of_text_is_named(write, data, message):
    path = write(data)
    with pytest.raises(DataError) as error:
        open_text(path)
    assert str(error.value) == f"{path}: {message}"


def test_empty_files_are_passed_over_if_allowed(write, read_out, tmp_path):
    write(b"", "a.txt")
    write(b"\n\n", "b.txt")
    write(b"x\n", "c.txt")
    out = read_out(open_text(tmp_path, allow_empty=True), 4)
    assert (out.rows, out.blank) == ([[b"x", b"c.txt", 1]], 2)


def test_a_mark_of_utf8_in_another_encoding_is_named(write):
    with pytest.raises(
        DataError, match="begins with the mark of UTF-8, and `encoding` is 'cp1252'"
    ):
        open_text(write(b"\xef\xbb\xbfa\n"), encoding="cp1252")


def test_a_link_out_of_the_folder_stops(write, tmp_path):
    write(b"x\n", "d/a.txt")
    (tmp_path / "d" / "b.txt").symlink_to(write(b"secret\n", "key"))
    with pytest.raises(DataError, match=r"b\.txt: is a link to .*key, outside .*; copy the file"):
        open_text(tmp_path / "d")


def test_an_encodings_other_names_are_equal():
    assert Text(encoding="UTF8") == Text(encoding="utf-8-sig") == Text()


@pytest.mark.parametrize(
    "encoding", ["unicode_escape", "raw_unicode_escape", "idna", "punycode", "utf-7", "hz",
                 "iso2022_jp", "iso2022_kr"]
)  # fmt: skip
def test_an_encoding_with_escapes_is_refused(encoding):
    """An escape may stand for a line end, so one line of the file could become two."""
    with pytest.raises(UsageError, match="must leave ASCII bytes as they are"):
        Text(encoding=encoding)
