import json
import math
import os

import pytest
from reading import read_all, rows_of

from penstock.components.errors import DataError
from penstock.components.sources import jsonl
from penstock.components.sources.base import Column
from penstock.components.sources.jsonl import JsonLines
from penstock.components.sources.open import open_source
from penstock.components.tfrecord.feature_kind import FeatureKind

INT, FLOAT, BYTES = FeatureKind.INT, FeatureKind.FLOAT, FeatureKind.BYTES


@pytest.fixture
def write(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write(*lines, name="a.jsonl"):
        texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
        (tmp_path / name).write_text("\n".join(texts) + "\n")
        return name

    return write


def test_types_are_those_of_most_values(write):
    path = write(
        {"id": 1, "fare": 2, "name": "a", "tags": [1, 2], "ok": True},
        {"id": 2, "fare": 2.5, "name": None, "tags": [], "ok": False},
    )
    source = open_source(path)
    assert source.columns == (
        Column("id", INT), Column("fare", FLOAT), Column("name", BYTES),
        Column("tags", INT, is_list=True), Column("ok", INT),
    )  # fmt: skip
    rows, rejected = read_all(source)
    assert rows == [
        {"id": 1, "fare": 2.0, "name": b"a", "tags": [1, 2], "ok": 1},
        {"id": 2, "fare": 2.5, "name": None, "tags": [], "ok": 0},
    ]
    assert rejected == []


def test_every_row_that_does_not_fit_is_named(write):
    good = [{"id": i, "name": "12:30"} for i in range(100)]
    path = write(
        *good, "", '{"id": "x"}', '{"id": 1, "id": 2}', '{"id": 99999999999999999999}', "[1]",
        '{"name": "\\ud800"}', '{"name": {"a": 1}}', '{"id": 1.5}', '{"id": [1]}', "{bad",
    )  # fmt: skip
    rows, rejected = read_all(open_source(path, JsonLines(sample_rows=64)))
    assert len(rows) == 100
    assert rejected == [
        "a.jsonl: line 102 (row 102), column 'id': 'x' is text, expected a whole number",
        "a.jsonl: line 103 (row 103): key 'id' occurs twice",
        "a.jsonl: line 104 (row 104), column 'id': 99999999999999999999 is beyond int64; "
        "as BYTES it would be kept",
        "a.jsonl: line 105 (row 105): expected an object ({...}), got '[1]'",
        "a.jsonl: line 106 (row 106), column 'name': '\\ud800' is not Unicode text "
        "(a lone surrogate)",
        "a.jsonl: line 107 (row 107), column 'name': {'a': 1} is nested, expected text; "
        "`nested='json'` keeps it as JSON text",
        "a.jsonl: line 108 (row 108), column 'id': 1.5 is not a whole number within 2**53; "
        "expected an integer",
        "a.jsonl: line 109 (row 109), column 'id': [1] is a list, expected a whole number",
        "a.jsonl: line 110 (row 110): not JSON: Expecting property name enclosed in double quotes "
        "at character 2",
    ]


def test_bad_utf8_is_named_by_byte(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"a": "x"}\n{"a": "\xff"}\n')
    _, rejected = read_all(open_source(str(path)))
    assert rejected == [f"{path}: line 2 (row 2): byte 8 of the line is not UTF-8"]


def test_a_key_beyond_the_sample_is_no_silent_loss(write):
    lines = [{"a": i} for i in range(100)] + [{"a": 1, "b": 2}]
    path = write(*lines)
    reason = "is not a column of the schema or of the sampled rows"
    _, rejected = read_all(open_source(path, JsonLines(sample_rows=64)))
    assert len(rejected) == 1
    assert f"line 101 (row 101), column 'b': {reason}" in rejected[0]
    rows, rejected = read_all(open_source(path, JsonLines(sample_rows=64, extra_columns="drop")))
    assert (len(rows), rejected) == (101, [])


def test_nested_values_are_refused_or_json_text(write):
    path = write({"a": {"y": 1, "x": [2]}})
    with pytest.raises(DataError, match=r"a\.jsonl: column 'a' holds objects or lists of lists"):
        open_source(path)
    assert rows_of(open_source(path, JsonLines(nested="json"))) == [{"a": b'{"x": [2], "y": 1}'}]


def test_non_finite_numbers_by_policy(write):
    path = write('{"a": 1.5}', '{"a": NaN}', '{"a": -Infinity}')
    assert len(read_all(open_source(path))[1]) == 2
    for policy, values in (("null", [1.5, None, None]), ("keep", [1.5, math.nan, -math.inf])):
        rows, rejected = read_all(open_source(path, JsonLines(non_finite=policy)))
        assert (repr(rows), rejected) == (repr([{"a": value} for value in values]), [])


def test_what_is_no_json_lines(write, tmp_path):
    for text, message in (
        ('[{"a": 1}]', "begins with '[', which is one JSON array; expected one object a line"),
        ("", "is empty (0 bytes); remove it, or set `allow_empty`"),
        ("\n\n", "holds only blank lines; remove it, or set `allow_empty`"),
        ("PAR1....", "looks like Parquet"),
    ):
        (tmp_path / "b.jsonl").write_text(text)
        with pytest.raises(DataError) as error:
            open_source("b.jsonl")
        assert str(error.value).startswith("b.jsonl: ")
        assert message in str(error.value)


@pytest.mark.parametrize("parts", [1, 2, 5])
def test_every_line_beyond_the_limit_is_rejected_in_any_number_of_parts(write, parts):
    path = write(*({"a": "x" * (500 if at % 4 == 1 else 5)} for at in range(40)))
    source = open_source(path, JsonLines(max_row_bytes=100))
    batches = [batch for run in source.cut(parts) for batch in source.read(run)]
    assert sum(batch.table.num_rows for batch in batches) == 30
    rejected = [row for batch in batches for row in batch.rejected]
    assert [row.line for row in rejected] == [*range(2, 41, 4)]
    assert {row.reason.split(";")[0] for row in rejected} == {"is longer than `max_row_bytes` 100"}


def test_a_byte_order_mark_is_no_text(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"a": 1}\n')
    assert rows_of(open_source(str(path))) == [{"a": 1}]


def test_a_file_cut_while_it_is_read_ends_the_read(write, monkeypatch):
    monkeypatch.setattr(jsonl, "LINE_BLOCK_BYTES", 1000)
    path = write(*[{"id": i, "name": "x" * 1000} for i in range(2000)])
    source = open_source(path)
    batches = source.read(source.cut(1)[0])
    next(batches)
    os.truncate(path, 1_300_000)
    with pytest.raises(DataError, match=r"a\.jsonl: ended \d+ bytes early; it was changed"):
        list(batches)


@pytest.mark.parametrize("non_finite", ["reject", "null", "keep"])
def test_a_number_beyond_float64_is_not_taken_for_infinity(write, non_finite):
    path = write('{"x": 0.5}', '{"x": 1e400}', '{"x": 1e39}', '{"x": -12.5E+310}', '{"x": 1e300e}')
    rows, rejected = read_all(open_source(path, JsonLines(non_finite=non_finite)))
    assert rows == [{"x": 0.5}]
    assert rejected == [
        "a.jsonl: line 2 (row 2), column 'x': 1e400 is beyond float32 (3.4e38); as BYTES it would "
        "be kept",
        "a.jsonl: line 3 (row 3), column 'x': 1e+39 is beyond float32 (3.4e38); as BYTES it would "
        "be kept",
        "a.jsonl: line 4 (row 4), column 'x': -12.5E+310 is beyond float32 (3.4e38); as BYTES it "
        "would be kept",
        "a.jsonl: line 5 (row 5): not JSON: Expecting ',' delimiter at character 12",
    ]


@pytest.mark.parametrize(
    "line",
    ["[1e999]", '{"x": 1e999, "y": ', '{"x": {"y": 1e999}}', f'{{"x": {"9" * 310}.5}}',
     f'{{"x": -{"9" * 250}e99}}'],
)  # fmt: skip
def test_a_number_beyond_float64_is_rejected_wherever_it_is(write, line):
    rows, [rejected] = read_all(open_source(write('{"x": 0.5}', line, f'{{"x": {"9" * 38}.0}}')))
    assert rows == [{"x": 0.5}, {"x": pytest.approx(1e38)}]
    assert rejected.startswith("a.jsonl: line 2 (row 2)")
    assert "is beyond float32" in rejected


def test_a_whole_float_that_may_be_rounded_is_no_integer(write):
    path = write('{"i": 1}', '{"i": 2}', '{"i": 9007199254740991.0}', '{"i": 9007199254740993.0}',
                 '{"i": -9007199254740992.0}')  # fmt: skip
    schema = "s.pbtxt"
    with open(schema, "w") as file:
        file.write('feature { name: "i" type: INT }')
    rows, rejected = read_all(open_source(path, JsonLines(schema_file=schema)))
    assert rows == [{"i": 1}, {"i": 2}, {"i": 9007199254740991}]
    assert rejected == [
        "a.jsonl: line 4 (row 4), column 'i': 9007199254740992.0 is not a whole number within "
        "2**53; expected an integer",
        "a.jsonl: line 5 (row 5), column 'i': -9007199254740992.0 is not a whole number within "
        "2**53; expected an integer",
    ]


@pytest.mark.parametrize("number", ["1e39", "-4e38", "NaN", "Infinity"])
def test_a_number_that_is_rejected_does_not_change_the_columns_type(write, number):
    source = open_source(write('{"id": 1}', f'{{"id": {number}}}', '{"id": 9007199254740993}'))
    assert source.columns == (Column("id", INT),)
    rows, rejected = read_all(source)
    assert rows == [{"id": 1}, {"id": 9007199254740993}]
    assert len(rejected) == 1


@pytest.mark.parametrize(
    "line", [b'{"\\ud800": 1}', b'{"id": 1, "\\uDFFF": 1}', b'{"\xed\xa0\x80": 1}']
)
def test_a_key_with_a_lone_surrogate_is_a_bad_row(tmp_path, line):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"id": 1}\n' + line + '\n{"id": 2, "id\\u00e9": 3, "한": 4}\n'.encode())
    source = open_source(str(path))
    assert [column.name for column in source.columns] == ["id", "idé", "한"]
    rows, [rejected] = read_all(source)
    assert [row["id"] for row in rows] == [1, 2]
    assert "is not Unicode text (a lone surrogate)" in rejected
    rejected.encode()
