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


INFINITE = "is beyond float32 (3.4e38); as BYTES it would be kept"
SURROGATE = "is not Unicode text (a lone surrogate)"
NO_INTEGER = "is not a whole number within 2**53; expected an integer"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"id": "x"}', ", column 'id': 'x' is text, expected a whole number"),
        (b'{"id": 1, "id": 2}', ": key 'id' occurs twice"),
        (
            b'{"id": 99999999999999999999}',
            ", column 'id': 99999999999999999999 is beyond int64; as BYTES it would be kept",
        ),
        (b"[1]", ": expected an object ({...}), got '[1]'"),
        (b'{"name": "\\ud800"}', f", column 'name': '\\ud800' {SURROGATE}"),
        (b'{"\\ud800": 1}', f": key '\\ud800' {SURROGATE}"),
        (b'{"id": 1, "\\uDFFF": 1}', f": key '\\udfff' {SURROGATE}"),
        (b'{"\xed\xa0\x80": 1}', f": key '\\ud800' {SURROGATE}"),
        (b'{"name": "\xff"}', ": byte 11 of the line is not UTF-8"),
        (
            b'{"name": {"a": 1}}',
            ", column 'name': {'a': 1} is nested, expected text; `nested='json'` keeps it as JSON "
            "text",
        ),
        (b'{"id": 1.5}', f", column 'id': 1.5 {NO_INTEGER}"),
        (b'{"id": 9007199254740993.0}', f", column 'id': 9007199254740992.0 {NO_INTEGER}"),
        (b'{"id": -9007199254740992.0}', f", column 'id': -9007199254740992.0 {NO_INTEGER}"),
        (b'{"id": [1]}', ", column 'id': [1] is a list, expected a whole number"),
        (b"{bad", ": not JSON: Expecting property name enclosed in double quotes at character 2"),
        (b'{"x": 1e39}', f", column 'x': 1e+39 {INFINITE}"),
        (b'{"x": 1e400}', f", column 'x': 1e400 {INFINITE}"),
        (b'{"x": -12.5E+310}', f", column 'x': -12.5E+310 {INFINITE}"),
        (b'{"x": [0, 1e999]}', f", column 'x': 1e999 {INFINITE}"),
        (b'{"x": 1e300e}', ": not JSON: Expecting ',' delimiter at character 12"),
        (b"[1e999]", f": 1e999 {INFINITE}"),
        (b'{"x": 1e999, "y": ', f": 1e999 {INFINITE}"),
        (b'{"x": {"y": 1e999}}', f": 1e999 {INFINITE}"),
        (b'{"x": ' + b"9" * 310 + b".5}", f", column 'x': {'9' * 80} {INFINITE}"),
        (b'{"x": -' + b"9" * 250 + b"e99}", f", column 'x': -{'9' * 79} {INFINITE}"),
    ],
)
@pytest.mark.parametrize("non_finite", ["reject", "keep"])
def test_a_row_that_does_not_fit_is_named(tmp_path, line, reason, non_finite):
    """The columns come from the sampled lines; the bad line comes after these lines."""
    path = tmp_path / "a.jsonl"
    good = b'{"id": 1, "name": "12:30", "x": 0.5}\n'
    path.write_bytes(good * 100 + b"\n" + line + b'\n{"id": 9007199254740991.0}\n')
    source = open_source(str(path), JsonLines(sample_rows=64, non_finite=non_finite))
    rows, rejected = read_all(source)
    assert rejected == [f"{path}: line 102 (row 102){reason}"]
    rejected[0].encode()
    assert rows[:100] == [{"id": 1, "name": b"12:30", "x": 0.5}] * 100
    assert rows[100:] == [{"id": 2**53 - 1, "name": None, "x": None}]


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


def test_a_byte_order_mark_is_no_text_and_keys_are_unicode(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + '{"a": 1, "id\\u00e9": 3, "한": 4}\n'.encode())
    assert rows_of(open_source(str(path))) == [{"a": 1, "idé": 3, "한": 4}]


def test_a_file_cut_while_it_is_read_ends_the_read(write, monkeypatch):
    monkeypatch.setattr(jsonl, "LINE_BLOCK_BYTES", 1000)
    path = write(*[{"id": i, "name": "x" * 1000} for i in range(2000)])
    source = open_source(path)
    batches = source.read(source.cut(1)[0])
    next(batches)
    os.truncate(path, 1_300_000)
    with pytest.raises(DataError, match=r"a\.jsonl: ended \d+ bytes early; it was changed"):
        list(batches)


@pytest.mark.parametrize("number", ["1e39", "-4e38", "NaN", "Infinity"])
def test_a_number_that_is_rejected_does_not_change_the_columns_type(write, number):
    source = open_source(write('{"id": 1}', f'{{"id": {number}}}', '{"id": 9007199254740993}'))
    assert source.columns == (Column("id", INT),)
    rows, rejected = read_all(source)
    assert rows == [{"id": 1}, {"id": 9007199254740993}]
    assert len(rejected) == 1
