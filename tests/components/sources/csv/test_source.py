"""Every kind of damaged delimited text: the resulting rows and the text of the error."""

from pathlib import Path

import pytest
from reading import refusal

from penstock.components.errors import DataError
from penstock.components.sources.base import Column, Piece
from penstock.components.sources.open import open_source
from penstock.components.sources.options import Table
from penstock.components.tfrecord.feature_kind import FeatureKind

INT, FLOAT, BYTES = FeatureKind.INT, FeatureKind.FLOAT, FeatureKind.BYTES


@pytest.fixture
def write(tmp_path):
    """A function that writes a file, with text as UTF-8, and returns its path."""

    def write_file(content, name="data.csv"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    return write_file


@pytest.fixture
def schema(write):
    """The path of a schema of three columns, of which `s` may be missing."""
    return write(
        'feature { name: "i" type: INT presence { min_fraction: 1 } }\n'
        'feature { name: "f" type: FLOAT presence { min_count: 1 } }\n'
        'feature { name: "s" type: BYTES }\n',
        "schema.pbtxt",
    )


def refused(path, **options):
    return refusal(path, Table(**options))


def test_quoted_header_with_delimiter_newline_and_byte_order_mark(write, read_out):
    source = open_source(write('\ufeff"a, b","c\nd",e\n1,2,3\n'))
    assert [column.name for column in source.columns] == ["a, b", "c\nd", "e"]
    assert source.cut(1) == [(Piece(source.files[0], 18, 24, 1, 3),)]
    assert read_out(source).rows == [[1, 2, 3]]


def test_byte_order_mark_inside_the_data_is_kept(write, read_out):
    source = open_source(write("a\n\ufeffx\ny\n"))
    assert read_out(source, parts=2).rows == [["\ufeffx".encode()], [b"y"]]


def test_unbalanced_quote_is_known_before_work_starts_and_costs_one_line(write, read_out):
    source = open_source(write('a,b\n1,x\n2,"open\n3,"y"\n4,z\n'))
    expected = [
        "data.csv: line 3 (row 2): unbalanced quote: the field that opens here is not closed by a "
        "quote that a delimiter or a line end follows; a quote within a quoted field must be "
        "doubled"
    ]
    assert [str(row).rsplit("/", 1)[-1] for row in source.rejected_by_scan] == expected
    out = read_out(source)
    assert out.errors == expected
    assert out.rejected[0].raw == b'2,"open'
    assert out.rows == [[1, b"x"], [3, b"y"], [4, b"z"]]


def test_unbalanced_quote_in_a_row_of_several_lines_is_named_where_it_opens(write, read_out):
    source = open_source(write('a,b\n"one\ntwo","open\n3,x\n'))
    out = read_out(source)
    assert [(row.row, row.line, row.raw) for row in out.rejected] == [(1, 3, b'"one\ntwo","open')]
    assert out.rows == [[3, b"x"]]


def test_rejected_by_scan_is_bounded(write):
    source = open_source(write("a,b\n" + '1,"x\n' * 500))
    assert len(source.rejected_by_scan) == 100
    assert source.rows == 500


def test_blank_lines_are_counted_and_crlf_and_lone_cr_end_rows(write, read_out):
    source = open_source(write("a,b\r\n1,2\r\n\r\n3,4\r5,6\n\n7,8"))
    out = read_out(source)
    assert out.rows == [[1, 2], [3, 4], [5, 6], [7, 8]]
    assert (source.rows, out.blank) == (6, 2)


def test_field_of_megabytes_and_nul_bytes_are_read(write, read_out):
    large = "x" * 3_000_000
    source = open_source(write(f"a,b\n{large},1\nnul\0byte,2\n"))
    assert read_out(source).rows == [[large.encode(), 1], [b"nul\0byte", 2]]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_line_that_is_too_long_is_rejected_by_its_row(write, read_out, end):
    long = "x" * 3_000_000
    lines = ["a,b", "1,2", long, "", f'"{long}",1', "3,4", long[:999]]
    source = open_source(write(end.join(lines)), Table(max_row_bytes=1000))
    for parts in (1, 5):
        out = read_out(source, parts)
        assert out.rows == [[1, 2], [3, 4]]
        assert [text.split(": ", 1)[1][:30] for text in out.errors] == [
            "line 3 (row 2): is longer than",
            "line 5 (row 4): is longer than",
            "line 7 (row 6): 1 field, expec",
        ]
    assert out.blank == 1


def test_bad_utf8_is_rejected_by_line_and_byte(write, read_out):
    out = read_out(open_source(write(b"a,b\nok,1\ncaf\xe9,2\n")))
    assert out.rows == [[b"ok", 1]]
    assert out.errors == [
        "data.csv: line 3 (row 2), column 'a': not UTF-8: byte 0xe9 at byte 12 of the file; "
        "convert the file, from Latin-1: iconv -f LATIN1 -t UTF-8"
    ]


def test_schema_decides_and_bad_numbers_reject_only_their_row(write, schema, read_out):
    rows = ["1,2,007", "x,1,a", "2.5,1,b", "8.0,1,c", "99999999999999999999,1,d", "1,1e39,e"]
    rows += ["1,1.2.3,f", "0x10,1,g", "+5, 2.5 ,NA", "1e400,1,h", "1,-1e400,i"]
    path = write("i,f,s\n" + "\n".join(rows) + "\n")
    source = open_source(path, Table(schema_file=schema))
    assert source.columns == (Column("i", INT), Column("f", FLOAT), Column("s", BYTES))
    out = read_out(source)
    assert out.rows == [[1, 2.0, b"007"], [8, 1.0, b"c"], [5, 2.5, b"NA"]]
    assert out.errors == [
        "data.csv: line 3 (row 2), column 'i': 'x' is not an integer (INT by the schema)",
        "data.csv: line 4 (row 3), column 'i': '2.5' is not an integer; a FLOAT column would hold "
        "it (INT by the schema)",
        "data.csv: line 6 (row 5), column 'i': '99999999999999999999' is beyond int64; as BYTES "
        "it would be kept (INT by the schema)",
        "data.csv: line 7 (row 6), column 'f': '1e39' is beyond float32 (3.4e38); as BYTES it "
        "would be kept (FLOAT by the schema)",
        "data.csv: line 8 (row 7), column 'f': '1.2.3' is not a number (FLOAT by the schema)",
        "data.csv: line 9 (row 8), column 'i': '0x10' is not an integer (INT by the schema)",
        "data.csv: line 11 (row 10), column 'i': '1e400' is not an integer; a FLOAT column would "
        "hold it (INT by the schema)",
        "data.csv: line 12 (row 11), column 'f': '-1e400' is beyond float32 (3.4e38); as BYTES it "
        "would be kept (FLOAT by the schema)",
    ]


def test_neighbours_read_alike_beside_a_bad_row(write, schema, read_out):
    numbers = [f"{n},0.{n}12345678901234567,s{n}" for n in range(300)]
    options = Table(schema_file=schema)
    good = read_out(open_source(write("i,f,s\n" + "\n".join(numbers) + "\n"), options))
    bad = read_out(open_source(write("i,f,s\n" + "\n".join([*numbers, "1,x,s"]) + "\n"), options))
    assert bad.rows == good.rows
    assert len(bad.rejected) == 1


@pytest.mark.parametrize(
    ("values", "policy", "rows", "reason"),
    [
        (["1.5", "NaN", "-Infinity"], "null", [1.5, None, None], None),
        (["1.5", "NaN", "-Infinity"], "keep", [1.5, float("nan"), float("-inf")], None),
        (["1.5", "2", "NaN"], "reject", [1.5, 2.0], "nan is not finite; `non_finite` 'null' or"),
        (["1.5", "2", "-inf"], "reject", [1.5, 2.0], "-inf is not finite; `non_finite` 'null' or"),
        (["1", "NaN", "3"], "null", [1, None, 3], None),
        (["1", "NaN", "3"], "keep", [1, 3], "'NaN' is not an integer (INT by the sample)"),
        (["1.5", "nan(1)", "nan"], "null", [1.5, None], "'nan(1)' is not a number (FLOAT by the s"),
        (["1", "2", "0x10"], "reject", [1, 2], "'0x10' is not an integer (INT by the sample)"),
        (["1", "2", "0XFFFFFFFFFFFFFFFF"], "reject", [1, 2], "'0XFFFFFFFFFFFFFFFF' is not an int"),
        (["1", "2", "x"], "reject", [1, 2], "'x' is not an integer (INT by the sample)"),
    ],
)
def test_numbers_by_policy(write, read_out, values, policy, rows, reason):
    path = write("n,s\n" + "".join(f"{value},0xabc\n" for value in values))
    out = read_out(open_source(path, Table(non_finite=policy)))
    assert repr(out.rows) == repr([[number, b"0xabc"] for number in rows])
    assert len(out.rejected) == (reason is not None)
    assert all(row.reason.startswith(reason) for row in out.rejected)


def test_null_tokens_of_numbers_and_of_text(write, read_out):
    path = write('i,s\n1,NA\n2,NA\nNA,\n ,""\nNULL,x\n-,-\n')
    out = read_out(open_source(path))
    assert out.rows == [[1, b"NA"], [2, b"NA"], [None, None], [None, None], [None, b"x"]]
    assert len(out.rejected) == 1
    options = Table(null_tokens=("NA", "NULL", "", "-"), text_null_tokens=("NA", "-"))
    rows = read_out(open_source(path, options)).rows
    assert rows == [[1, None], [2, None], [None, b""], [None, b""], [None, b"x"], [None, None]]


def test_few_padded_numbers_leave_a_column_numeric_and_are_read_as_numbers(write, read_out):
    rows = ["1", "007", "+5", "-08", "+2.5"] + ["2"] * 4995
    source = open_source(write("n\n" + "\n".join(rows) + "\n"))
    assert source.columns == (Column("n", INT),)
    out = read_out(source)
    assert out.rows == [[1], [7], [5], [-8]] + [[2]] * 4995
    assert out.errors == [
        "data.csv: line 6 (row 5), column 'n': '+2.5' is not an integer; a FLOAT column would hold "
        "it (INT by the sample)"
    ]


def test_empty_files_and_headers_without_rows_are_named_or_allowed(write, tmp_path, read_out):
    write("a,b\n1,2\n", "d/1.csv")
    write("", "d/2.csv")
    folder = str(tmp_path / "d")
    advice = "remove it, or set `allow_empty` to skip such files"
    assert refused(folder) == f"2.csv: is empty (0 bytes); {advice}"
    write("a,b\n", "d/2.csv")
    assert refused(folder) == f"2.csv: has a header and no rows; {advice}"
    write("a,b\n\n\r\n", "d/2.csv")
    assert refused(folder) == f"2.csv: has a header and no rows; {advice}"
    write("\n\n", "d/2.csv")
    assert refused(folder) == f"2.csv: holds only blank lines; {advice}"
    write("a,b\n", "d/2.csv")
    source = open_source(folder, Table(allow_empty=True))
    assert read_out(source, parts=3).rows == [[1, 2]]
    assert source.files == (f"{folder}/1.csv", f"{folder}/2.csv")


def test_nothing_but_empty_files_has_no_columns(write):
    assert refused(write(""), allow_empty=True) == (
        "data.csv: no file has a header, so there are no columns"
    )


@pytest.mark.parametrize(
    ("content", "looks_like"),
    [
        (b"a.csv".ljust(257, b"\0") + b"ustar", "a tar archive; unpack it"),
        (b"PK\x03\x04rest", "a zip archive or an Excel workbook; unpack it"),
        (b"PAR1rest", "Parquet; name it .parquet"),
        ("a,b\n1,2\n".encode("utf-16"), "UTF-16; convert it: iconv -f UTF-16 -t UTF-8"),
        ("a,b\n1,2\n".encode("utf-16-le"), "UTF-16 without a mark; convert it: iconv -f UTF-16LE"),
        ("a,b\n1,2\n".encode("utf-16-be"), "UTF-16 without a mark; convert it: iconv -f UTF-16BE"),
        (b"<!DOCTYPE html><p>404", "HTML or XML, perhaps an error page"),
        (b'{"a": 1}\n', "JSON; say --kind jsonl"),
        (b'[\n {"a": 1}]', "one JSON array; write an object a line"),
        (b"SQLite format 3\0\x10", "an SQLite database; read it as sqlite:///PATH"),
        (b"ORC\x0a\x03", "ORC; name it .orc"),
        (b"\x80\x04\x95", "a Python pickle; reading it may run code"),
    ],
)
def test_what_is_not_text_is_named_by_its_looks(write, content, looks_like):
    assert refused(write(content)).startswith(f"data.csv: looks like {looks_like}")


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("a,b,a,b,c", "duplicate column 'a', 'b'"),
        (" ", "blank, expected the header"),
        ("# made by hand", "a comment ('# made by hand'), expected the header; set `comment`"),
        ("a,,c, ", "blank name of column 2, 4 of 4; name it in the header"),
        (",a,b", "blank name of column 1 of 3; name it in the header, or if it is pandas' index"),
        ("1,2.5,-3", "expected a header, found data ('1', '2.5', '-3')"),
        ("paris,2.5", "expected a header, found data ('paris', '2.5')"),
        ('a,"b', "unbalanced quote in the header"),
    ],
)
def test_headers_that_name_no_columns(write, header, message):
    assert refused(write(f"\n{header}\n1,2\n")).startswith(f"data.csv: line 2: {message}")


@pytest.mark.parametrize("delimiter", [";", "\t", "|"])
def test_a_delimiter_is_found_in_a_header_without_commas(write, read_out, delimiter):
    file = write(f"\na b{delimiter}c\n1{delimiter}2,5\n")
    assert read_out(open_source(file)).rows == [[1, b"2,5"]]
    names = f"a b{delimiter}c"
    assert refused(file, delimiter=",") == (
        f"data.csv: line 2: one column, {names!r}, with delimiter ','; did you mean "
        f"`delimiter={delimiter!r}`?"
    )


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("price (EUR, net);qty\n1,50;3\n", ["price (EUR, net)", "qty"]),
        ('"last, first";age\n"Doe, A.";4\n', ["last, first", "age"]),
        ("a (x, y);b (z, w)\n1,50;2,50\n", ["a (x, y)", "b (z, w)"]),
        ("a|b, c\tx, y\n1\t2\n3\t4\n", ["a|b, c", "x, y"]),
        ("id,tags\n1,a|b;c\n2,c|d;e\n", ["id", "tags"]),
        ("a, b, c\n1, 2, 3\n", ["a", " b", " c"]),
        ("a;b,c\n1,2\n1;2,3,4\n", ["a;b", "c"]),
        ("country,2019,2020\nde,1,2\n", ["country", "2019", "2020"]),
    ],
)
def test_the_delimiter_gives_the_first_rows_equal_widths(write, text, columns):
    path = write(text)
    try:
        found = [column.name for column in open_source(path).columns]
    except DataError as error:
        found = str(error)
    assert found == columns


def test_names_that_begin_like_other_formats_are_names(write):
    source = open_source(write("ORCID,PK,Object\n1,2,3\n"))
    assert [column.name for column in source.columns] == ["ORCID", "PK", "Object"]


def test_header_in_latin1_is_named(write):
    assert refused(write("größe,b\n1,2\n".encode("latin1"))) == (
        "data.csv: line 1: the header is not UTF-8 (invalid start byte); "
        "convert the file, from Latin-1: iconv -f LATIN1 -t UTF-8"
    )


def test_column_names_for_files_without_header(write, read_out):
    options = Table(column_names=("x", "y"), delimiter=";")
    source = open_source(write("\ufeff1;2\n3;4\n"), options)
    assert source.columns == (Column("x", INT), Column("y", INT))
    assert read_out(source).rows == [[1, 2], [3, 4]]


def test_reordered_columns_are_mapped_by_name(write, tmp_path, read_out):
    write("a,b\n1,x\n", "d/1.csv")
    write("b,a\ny,2\n", "d/2.csv")
    assert read_out(open_source(str(tmp_path / "d"))).rows == [[1, b"x"], [2, b"y"]]


def test_schema_names_what_is_missing_and_what_is_unknown(write, schema, read_out):
    assert refused(write("i,s\n1,x\n"), schema_file=schema) == (
        "data.csv: lacks 'f', which the schema requires; it has 'i', 's'"
    )
    path = write("f,x,i\n1.5,drop me,3\n")
    assert refused(path, schema_file=schema) == (
        "data.csv: has 'x', which the schema does not name; add to the schema, or set "
        "`extra_columns='drop'`"
    )
    source = open_source(path, Table(schema_file=schema, extra_columns="drop"))
    assert read_out(source).rows == [[3, 1.5, None]]


def test_schema_with_lists_is_refused(write):
    schema = write('feature { name: "v" type: FLOAT shape { dim { size: 3 } } }', "s.pbtxt")
    assert refused(write("v\n1\n"), schema_file=schema) == (
        "s.pbtxt: feature 'v' holds lists, and a CSV field one value; give it a shape of one "
        "value, or bring the data as Parquet"
    )


def test_lines_of_text_are_no_table_unless_it_is_said(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("notes.txt").write_text("first\nsecond\n")
    with pytest.raises(DataError) as error:
        open_source("notes.txt")
    assert str(error.value) == (
        "notes.txt: one column, no delimiter found: say --kind text for lines, or --kind csv"
    )
    assert open_source("notes.txt", Table(kind="csv")).rows == 1
    Path("notes.txt").rename("notes.csv")
    assert open_source("notes.csv").rows == 1
