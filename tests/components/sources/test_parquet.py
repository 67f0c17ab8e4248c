"""Parquet files: types, values that do not fit, damage, differences between files, batches."""

import dataclasses
import datetime
import json
import os
import pickle
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from reading import refusal

from penstock.components.errors import DataError
from penstock.components.sources.arrow_values import to_feature
from penstock.components.sources.base import Column, Piece
from penstock.components.sources.open import open_source
from penstock.components.sources.options import Parquet, Table
from penstock.components.tfrecord.feature_kind import FeatureKind

INT, FLOAT, BYTES = FeatureKind.INT, FeatureKind.FLOAT, FeatureKind.BYTES
UTC = datetime.timezone.utc


@pytest.fixture
def write(tmp_path):
    """A function that writes a table of arrays and returns its path."""

    def write_table(columns, name="data.parquet", **options):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        pq.write_table(pa.table(columns), path, **options)
        return str(path)

    return write_table


def refused(path, **options):
    return refusal(path, Table(**options))


VALUES = [
    (pa.array([True, None, False]), INT, [1, None, 0]),
    (pa.array([-1, 2], pa.int8()), INT, [-1, 2]),
    (pa.array([2**63 - 1, None], pa.uint64()), INT, [2**63 - 1, None]),
    (pa.array([0.5, None], pa.float32()), FLOAT, [0.5, None]),
    (pa.array([0.1], pa.float64()), FLOAT, [0.10000000149011612]),
    (pa.array([Decimal("1.25"), None]), FLOAT, [1.25, None]),
    (pa.array(["ä", None, ""]), BYTES, ["ä".encode(), None, b""]),
    (pa.array(["x"], pa.large_string()), BYTES, [b"x"]),
    (pa.array([b"\xff\x00"]), BYTES, [b"\xff\x00"]),
    (pa.array([b"ab"], pa.binary(2)), BYTES, [b"ab"]),
    (pa.array(["a", "b", "a"]).dictionary_encode(), BYTES, [b"a", b"b", b"a"]),
    (pa.array([None, None], pa.null()), BYTES, [None, None]),
    (pa.array([datetime.date(1970, 1, 11), None]), INT, [10, None]),
    (pa.array([datetime.datetime(1970, 1, 1, 0, 0, 1)], pa.timestamp("ms")), INT, [10**6]),
    (
        pa.array([datetime.datetime(2000, 1, 1, tzinfo=UTC)], pa.timestamp("us", "Asia/Tokyo")),
        INT,
        [946684800000000],
    ),
    (pa.array([-1, 1999, None], pa.timestamp("ns")), INT, [-1, 1, None]),
    (pa.array([1500], pa.time32("ms")), INT, [1500000]),
    (pa.array([3], pa.duration("s")), INT, [3000000]),
    *((pa.array([1, None], kind), INT, [1, None]) for kind in (pa.int16(), pa.int32(), pa.int64())),
    *((pa.array([1], kind), INT, [1]) for kind in (pa.uint8(), pa.uint16(), pa.uint32())),
    (pa.array([Decimal("1.25")], pa.decimal256(40, 2)), FLOAT, [1.25]),
    (pa.array([b"\xff", None], pa.large_binary()), BYTES, [b"\xff", None]),
    (pa.array([datetime.date(1970, 1, 11)], pa.date64()), INT, [10]),
    (pa.array([7, None], pa.time64("us")), INT, [7, None]),
    (pa.array([[1, 2], [], None, [3]]), INT, [[1, 2], [], None, [3]]),
    (pa.array([[0.5], None], pa.large_list(pa.float64())), FLOAT, [[0.5], None]),
    (pa.array([[1, 2], [3, 4]], pa.list_(pa.int16(), 2)), INT, [[1, 2], [3, 4]]),
    (pa.array([["a", "b"], []]), BYTES, [[b"a", b"b"], []]),
    (pa.array([[True]]), INT, [[1]]),
    (pa.array([["a"], None], pa.large_list(pa.string())), BYTES, [[b"a"], None]),
    (pa.array([[b"ab"] * 2, []], pa.list_(pa.binary(2))), BYTES, [[b"ab"] * 2, []]),
]


def column_of(kind, values):
    return Column("x", kind, is_list=any(isinstance(value, list) for value in values))


@pytest.mark.parametrize(("array", "kind", "values"), VALUES)
def test_types(write, read_out, array, kind, values):
    source = open_source(write({"x": array}, version="2.6"))
    assert source.columns == (column_of(kind, values),)
    assert read_out(source, parts=2).rows == [[value] for value in values]


# Values of types that only some versions of pyarrow write as Parquet.
OF_ARROW = [
    (pa.array([np.float16(0.5), None]), FLOAT, [0.5, None]),
    (pa.array([b"ab", None], pa.binary(2)), BYTES, [b"ab", None]),
    # A slice of one row at an even index is all null, which Arrow 10 cannot flatten.
    (pa.array([None, [1, 2]], pa.list_(pa.int16(), 2)), INT, [None, [1, 2]]),
]


@pytest.mark.parametrize(("array", "kind", "values"), [*VALUES, *OF_ARROW])
def test_a_slice_converts_as_the_whole_does(array, kind, values):
    column = column_of(kind, values)
    for start, size in [(0, 40), (0, 0), (12, 1), (9, 32)]:
        part = pa.concat_arrays([array] * 40).slice(start, size)
        found, faults = to_feature(part, column, "reject")
        assert (found.type, faults) == (column.arrow_type, {})
        assert found.to_pylist() == (values * 40)[start : start + size]


def test_values_that_do_not_fit_reject_their_row(write, read_out):
    path = write(
        {
            "u": pa.array([1, 2**64 - 1, 3, 4, 5], pa.uint64()),
            "f": pa.array([1.0, 1.0, 1e300, float("nan"), 5.0]),
            "v": pa.array([[1.0], [1.0], [1.0], [1.0], [1.0, None]]),
            "t": pa.array(["a", "b", "ç", "d", "e"]),
        }
    )
    out = read_out(open_source(path))
    assert out.rows == [[1, 1.0, [1.0], b"a"]]
    assert out.errors == [
        "data.parquet: row 2, column 'u': 18446744073709551615 is beyond int64; as BYTES it would "
        "be kept",
        "data.parquet: row 3, column 'f': 1e+300 is beyond float32 (3.4e38); as BYTES it would be "
        "kept",
        "data.parquet: row 4, column 'f': nan is not finite; `non_finite` 'null' or 'keep' would "
        "let it in",
        "data.parquet: row 5, column 'v': value 2 of the list: null within a list, which no "
        "feature can hold",
    ]
    assert json.loads(out.rejected[1].raw) == {"u": 3, "f": 1e300, "v": [1.0], "t": "ç"}


def test_timestamps_beyond_int64_in_microseconds_reject_their_row(write, read_out):
    path = write({"t": pa.array([1, 2**60], pa.timestamp("ms"))})
    out = read_out(open_source(path))
    assert out.rows == [[1000]]
    assert out.rejected[0].reason == (
        "1152921504606846976 ms is beyond int64 in microseconds (292,000 years); correct it, or "
        "write the column as whole numbers"
    )
    assert b"1152921504606846976" in out.rejected[0].raw


@pytest.mark.parametrize(
    ("array", "shown"),
    [
        (pa.array([{"a": 1}]), "struct<a: int64>"),
        (pa.array([[[1]]]), "list<item: list<item: int64>>"),
        (pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64())), "map<string, int64"),
    ],
)
def test_nested_types_are_named(write, array, shown):
    message = refused(write({"fine": pa.array([1]), "deep": array}))
    assert message.startswith("data.parquet: column 'deep' has type ")
    assert shown.split("<")[0] in message
    assert message.endswith(
        ", which no feature can hold; flatten it into columns of numbers, text or lists of those, "
        "or set `extra_columns='drop'`, which leaves it out if no schema names it"
    )


def test_nested_columns_are_left_out_on_request(write, read_out, caplog):
    path = write({"a": pa.array([1]), "deep": pa.array([{"b": 1}])})
    options = Table(extra_columns="drop")
    assert read_out(open_source(path, options)).rows == [[1]]
    assert caplog.messages == [f"{path}: left out 'deep', which no feature can hold"]
    with pytest.raises(
        DataError, match=r"no feature can hold any of its columns \('deep'\); flatten"
    ):
        open_source(write({"deep": pa.array([{"b": 1}])}), options)


class _Exploit:
    """Creates a folder when it is unpickled."""

    def __init__(self, path):
        self._path = path

    def __reduce__(self):
        return os.mkdir, (self._path,)


def test_pickled_extension_type_runs_no_code(tmp_path):
    sign = tmp_path / "code_ran"
    metadata = {
        b"ARROW:extension:name": b"arrow.py_extension_type",
        b"ARROW:extension:metadata": pickle.dumps(_Exploit(str(sign))),
    }
    field = pa.field("x", pa.int64(), metadata=metadata)
    path = str(tmp_path / "data.parquet")
    pq.write_table(pa.Table.from_arrays([pa.array([1])], schema=pa.schema([field])), path)
    assert "Disallowed deserialization of 'arrow.py_extension_type'" in refused(path)
    assert not sign.exists()
    pickle.loads(metadata[b"ARROW:extension:metadata"])
    assert sign.exists(), "the payload must be able to do harm, or the test shows nothing"


def test_damaged_files_are_named(write, tmp_path):
    whole = Path(write({"a": pa.array(range(1000))})).read_bytes()
    cases = {
        b"": "is empty (0 bytes); expected Parquet",
        whole[:-1]: "damaged Parquet footer (",
        b"PAR1": "damaged Parquet footer (",
        b"a,b\n1,2\n": "is not Parquet; expected Parquet",
        b"\x1f\x8b123": "looks like gzip; decompress it first (gunzip); expected Parquet",
        whole[:100] + whole[-4:]: "damaged Parquet footer (",
    }
    for content, message in cases.items():
        (tmp_path / "bad.parquet").write_bytes(content)
        found = refused(str(tmp_path / "bad.parquet"))
        assert found.startswith(f"bad.parquet: {message}")


def test_damaged_pages_are_named_with_file_and_rows(write, tmp_path, read_out):
    path = write({"a": pa.array([f"text {n}" for n in range(1000)])}, compression="gzip")
    source = open_source(path)
    content = bytearray(Path(path).read_bytes())
    content[60:400] = b"\xff" * 340
    Path(path).write_bytes(content)
    with pytest.raises(DataError, match=r"data.parquet: damaged within rows 1 to 1000 \("):
        read_out(source)


def test_file_without_rows_is_named_or_allowed(write, tmp_path, read_out):
    write({"a": pa.array([1])}, "d/1.parquet")
    write({"a": pa.array([], pa.int64())}, "d/2.parquet")
    folder = str(tmp_path / "d")
    assert refused(folder) == (
        "2.parquet: has no rows; remove it, or set `allow_empty` to skip such files"
    )
    assert read_out(open_source(folder, Table(allow_empty=True)), 2).rows == [[1]]


def test_drift_between_files_is_named(write, tmp_path, read_out):
    write({"a": pa.array([1], pa.int32()), "b": pa.array(["x"])}, "d/1.parquet")
    write({"b": pa.array([None], pa.null()), "a": pa.array([2], pa.int64())}, "d/2.parquet")
    folder = str(tmp_path / "d")
    assert read_out(open_source(folder), 2).rows == [[1, b"x"], [2, None]]
    write({"a": pa.array(["2"]), "b": pa.array(["x"])}, "d/3.parquet")
    assert refused(folder) == (
        "3.parquet: column 'a' has type string, expected INT as 1.parquet has it; convert the "
        "column, or change the schema"
    )
    write({"a": pa.array([1]), "c": pa.array(["x"])}, "d/3.parquet")
    assert refused(folder) == (
        "3.parquet: lacks 'b' and has 'c' besides; expected the columns of 1.parquet in any order. "
        "Give a schema to say which columns count, or ingest the files separately"
    )


def test_a_column_that_only_a_later_file_has_is_dropped_on_request(write, tmp_path, read_out):
    write({"a": pa.array([1])}, "d/1.parquet")
    write({"b": pa.array(["x"]), "a": pa.array([2])}, "d/2.parquet")
    source = open_source(str(tmp_path / "d"), Parquet(extra_columns="drop"))
    assert [column.name for column in source.columns] == ["a"]
    assert read_out(source).rows == [[1], [2]]


def test_duplicate_columns_are_named(tmp_path):
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    pq.write_table(table, tmp_path / "data.parquet")
    assert refused(str(tmp_path / "data.parquet")) == (
        "data.parquet: duplicate column 'a'; names must differ, rename one"
    )


def test_schema_checks_and_decides(write, tmp_path, read_out):
    schema = tmp_path / "schema.pbtxt"
    options = Table(schema_file=str(schema))
    path = write({"i": pa.array([1.0, 2.5, None]), "f": pa.array([1, 2, 3]), "s": ["a", "b", "c"]})
    schema.write_text(
        'feature { name: "s" type: BYTES value_count { max: 1 } } feature { name: "i" type: INT }'
        'feature { name: "f" type: FLOAT } feature { name: "absent" type: INT }'
    )
    out = read_out(open_source(path, options))
    assert out.rows == [[b"a", 1, 1.0, None], [b"c", None, 3.0, None]]
    assert out.errors == [
        "data.parquet: row 2, column 'i': 2.5 is not a whole number within 2**53; expected an "
        "integer"
    ]
    schema.write_text('feature { name: "s" type: INT }')
    assert refused(path, schema_file=str(schema), extra_columns="drop") == (
        "data.parquet: column 's' has type string, expected INT as the schema schema.pbtxt has "
        "it; convert the column, or change the schema"
    )
    schema.write_text('feature { name: "f" type: INT shape { dim { size: 3 } } }')
    assert refused(path, schema_file=str(schema), extra_columns="drop") == (
        "data.parquet: column 'f' has type int64, expected lists of INT as the schema "
        "schema.pbtxt has it; convert the column, or change the schema"
    )


def test_cuts_go_to_row_groups_that_begin_nearby(write):
    path = write({"a": pa.array(range(1000))}, row_group_size=260)
    assert [run[0].start for run in open_source(path).cut(4)] == [0, 260, 520, 780]
    assert [run[0].start for run in open_source(path).cut(10)][:4] == [0, 100, 200, 300]
    assert open_source(path).cut(2)[1] == (Piece(path, 520, 1000, 521),)


@pytest.mark.parametrize(
    "array",
    [
        pa.array(["x" * 100_000] * 1500),
        pa.array(["x" * 100_000] * 1500).dictionary_encode(),
        pa.array([[0] * 100_000] * 200),
    ],
    ids=["text", "dictionary", "lists"],
)
def test_batches_are_bounded_by_decoded_bytes(write, array):
    source = open_source(write({"a": array}))
    for pieces, rows in ((source.cut(1)[0], len(array)), (source.cut(2)[1], len(array) // 2)):
        tables = [batch.table for batch in source.read(pieces)]
        assert tables[0].num_rows == 16
        assert tables[1].num_rows <= 64
        assert sum(table.num_rows for table in tables) == rows
        assert max(table.nbytes for table in tables) < 65 * 2**20


DAY = datetime.date(1970, 1, 2)
MOMENT = datetime.datetime(1970, 1, 2)


@pytest.mark.parametrize(("part", "most_batches"), [(0, 10), (7, 20)])
def test_a_part_of_a_row_group_skips_the_other_rows_in_large_batches(write, part, most_batches):
    source = open_source(write({"n": pa.array(range(40_000))}), Table())
    assert [piece for pieces in source.cut(8) for piece in pieces][part].start == 5_000 * part
    batches = []

    def read_groups(*arguments):
        for batch in source.read_groups(*arguments):
            batches.append(batch.num_rows)
            yield batch

    counted = dataclasses.replace(source, read_groups=read_groups)
    rows = [row for batch in counted.read(source.cut(8)[part]) for row in batch.table["n"]]
    assert [row.as_py() for row in rows] == list(range(5_000 * part, 5_000 * part + 5_000))
    assert len(batches) < most_batches


@pytest.mark.parametrize(
    ("one", "two", "said"),
    [
        ([DAY], [MOMENT], "timestamps, in 1.parquet dates"),
        ([MOMENT], [86_400], "numbers, in 1.parquet timestamps"),
        ([[MOMENT]], [[86_400]], "numbers, in 1.parquet timestamps"),
        ([datetime.time(1)], [datetime.timedelta(hours=1)], "durations, in 1.parquet times"),
    ],
)
def test_files_whose_units_differ_are_not_mixed(write, tmp_path, one, two, said):
    write({"t": one}, "1.parquet")
    write({"t": two}, "2.parquet")
    message = f"2.parquet: column 't' holds {said}, which are counted in different units; "
    assert refused(str(tmp_path)).startswith(message)
    schema = tmp_path / "schema.pbtxt"
    schema.write_text('feature { name: "t" type: INT }')
    assert refused(str(tmp_path), schema_file=str(schema)).startswith(message)


def test_units_of_one_sort_and_nulls_go_together(write, tmp_path):
    write({"t": pa.array([MOMENT], pa.timestamp("s"))}, "1.parquet")
    write({"t": pa.array([MOMENT], pa.timestamp("ns", "UTC"))}, "2.parquet")
    write({"t": pa.nulls(1)}, "3.parquet")
    source = open_source(str(tmp_path))
    values = [b.table.column(0).to_pylist() for b in source.read(source.cut(1)[0])]
    assert values == [[86_400_000_000], [86_400_000_000], [None]]


def test_timestamps_of_96_bits_are_read_at_full_width(write):
    times = [
        datetime.datetime(9999, 12, 31, 23, 59, 59, 999999),
        None,
        datetime.datetime(2024, 2, 29, 1, 2, 3, 456789),
        datetime.datetime(2544, 1, 1),
    ]
    columns = {"t": pa.array(times, pa.timestamp("us"))}
    path = Path(write(columns, use_deprecated_int96_timestamps=True, row_group_size=3))
    with pytest.raises(DataError, match="column 't' has 96-bit timestamps that Arrow wrote"):
        open_source(str(path))
    path.write_bytes(path.read_bytes().replace(b"parquet-cpp", b"parquet-mr-"))
    source = open_source(str(path))
    batches = [b.table for run in source.cut(2) for b in source.read(run)]
    epoch, us = datetime.datetime(1970, 1, 1), datetime.timedelta(microseconds=1)
    assert [row["t"] for batch in batches for row in batch.to_pylist()] == [
        None if time is None else (time - epoch) // us for time in times
    ]
