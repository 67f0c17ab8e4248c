import datetime
import decimal
import uuid
from importlib.resources import files

import fastavro
import pytest
from reading import read_all, rows_of

from penstock.components.errors import DataError
from penstock.components.sources import avro
from penstock.components.sources.avro import Avro
from penstock.components.sources.base import Column
from penstock.components.sources.open import open_source
from penstock.components.tfrecord.feature_kind import FeatureKind

INT, FLOAT, BYTES = FeatureKind.INT, FeatureKind.FLOAT, FeatureKind.BYTES


def write(path, fields, rows, **options):
    with open(path, "wb") as file:
        schema = {"type": "record", "name": "Row", "fields": fields}
        fastavro.writer(file, schema, rows, **options)
    return str(path)


def test_real_trips_of_tfx():
    path = files("tfx") / "components/testdata/external/avro/data.avro"
    source = open_source(str(path))
    assert source.kind == "avro"
    rows, rejected = read_all(source, 3)
    assert len(rows) == source.rows == 10_000
    assert rejected == []
    assert {column.name: column.kind for column in source.columns}["fare"] is FLOAT


def test_logical_types(tmp_path):
    path = write(
        tmp_path / "a.avro",
        [
            {"name": "day", "type": {"type": "int", "logicalType": "date"}},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
            {"name": "price", "type": {"type": "bytes", "logicalType": "decimal",
                                       "precision": 6, "scale": 2}},
            {"name": "key", "type": {"type": "string", "logicalType": "uuid"}},
            {"name": "tags", "type": {"type": "array", "items": "string"}},
            {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
            {"name": "maybe", "type": ["null", "long", "double"]},
        ],
        [{"day": datetime.date(1970, 1, 3), "at": datetime.datetime(
              1970, 1, 1, 0, 0, 1, tzinfo=datetime.timezone.utc),
          "price": decimal.Decimal("1.25"), "key": uuid.UUID(int=1), "tags": ["a", "b"],
          "kind": "B", "maybe": None}],
    )  # fmt: skip
    rows, rejected = read_all(open_source(path))
    assert rejected == []
    assert rows == [{
        "day": 2, "at": 1_000_000, "price": 1.25, "key": b"00000000-0000-0000-0000-000000000001",
        "tags": [b"a", b"b"], "kind": b"B", "maybe": None,
    }]  # fmt: skip


def test_a_row_that_does_not_fit_is_named(tmp_path):
    lists = {"type": "array", "items": ["null", "int"]}
    good, bad = {"x": 1.0, "v": [1]}, {"x": 1.0, "v": [1, None]}
    fields = [{"name": "x", "type": "double"}, {"name": "v", "type": lists}]
    misfits = [{"x": float("nan"), "v": []}, {"x": 1e300, "v": []}, bad]
    path = write(tmp_path / "a.avro", fields, [good, *misfits, good])
    rows, rejected = read_all(open_source(path))
    assert rows == [good, good]
    assert rejected[0].startswith(f"{path}: row 2, column 'x': nan is not finite")
    assert rejected[1].startswith(f"{path}: row 3, column 'x': 1e+300 is beyond float32")
    assert rejected[2].startswith(f"{path}: row 4, column 'v': value 2 of the list: null within")


def test_an_edit_in_the_midst_of_the_reading_is_seen(tmp_path, monkeypatch):
    path = write(tmp_path / "a.avro", [{"name": "id", "type": "long"}], [{"id": 1}])

    def edited(*given):
        (tmp_path / "a.avro").write_bytes(b"other")
        return []

    monkeypatch.setattr(avro, "stage", edited)
    with pytest.raises(DataError, match=r"a\.avro: was changed while it was read; start again"):
        open_source(path, Avro(allow_empty=True))


def test_nested_types_are_json_text_on_request(tmp_path):
    path = write(
        tmp_path / "a.avro",
        [{"name": "m", "type": {"type": "map", "values": "long"}}],
        [{"m": {"b": 1, "a": 2}}],
    )
    assert rows_of(open_source(path, Avro(nested="json"))) == [{"m": b'{"a": 2, "b": 1}'}]


@pytest.mark.parametrize(
    ("avro_type", "column"),
    [
        ("null", Column("n", BYTES)),
        (["null", "int"], Column("n", INT)),
        (["int", "double"], Column("n", FLOAT)),
        (["boolean", "long"], Column("n", INT)),
        (["string", "bytes"], Column("n", BYTES)),
        ({"type": "array", "items": ["null", "float"]}, Column("n", FLOAT, is_list=True)),
        (["null", {"type": "array", "items": "int"}], Column("n", INT, is_list=True)),
        (["int", "string"], "dense_union<int32: int32=0, string: string=1>"),
        ({"type": "array", "items": {"type": "array", "items": "int"}}, "list<item: list"),
        ({"type": "map", "values": "long"}, "map<string, int64"),
    ],
)  # fmt: skip
def test_columns_are_typed(tmp_path, avro_type, column):
    path = write(tmp_path / "a.avro", [{"name": "n", "type": avro_type}], [])
    if isinstance(column, Column):
        assert open_source(path, Avro(allow_empty=True)).columns == (column,)
        return
    with pytest.raises(DataError, match="which no feature can hold") as error:
        open_source(path, Avro(allow_empty=True))
    assert column in str(error.value)
    assert open_source(path, Avro(allow_empty=True, nested="json")).columns == (Column("n", BYTES),)


DATE = {"type": "int", "logicalType": "date"}
MICROS = {"type": "long", "logicalType": "timestamp-micros"}
MILLIS = {"type": "long", "logicalType": "timestamp-millis"}


@pytest.mark.parametrize(
    ("avro_type", "units"),
    [
        ([DATE, MICROS], "date and timestamp"),
        (["null", "long", MICROS], "number and timestamp"),
        ([{"type": "array", "items": DATE}, {"type": "array", "items": MICROS}],
         "date and timestamp"),
        ([{"type": "long", "logicalType": "time-micros"}, "double"], "number and time"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("with_schema", [False, True])
def test_a_union_of_different_units_is_refused(tmp_path, avro_type, units, with_schema):
    path = write(tmp_path / "a.avro", [{"name": "at", "type": avro_type}], [])
    schema = tmp_path / "schema.pbtxt"
    schema.write_text('feature { name: "at" type: INT }')
    with pytest.raises(DataError) as error:
        open_source(path, Avro(allow_empty=True, schema_file=str(schema) * with_schema))
    assert str(error.value) == (
        f"{path}: column 'at' is a union of {units}, which count different units; write one "
        "column per unit"
    )


def test_a_union_of_one_unit_is_read(tmp_path):
    at = datetime.datetime(1970, 1, 1, 0, 0, 1, tzinfo=datetime.timezone.utc)
    path = write(tmp_path / "a.avro", [{"name": "at", "type": ["null", MICROS, MILLIS]}],
                 [{"at": at}, {"at": None}])  # fmt: skip
    assert read_all(open_source(path)) == ([{"at": 1_000_000}, {"at": None}], [])


@pytest.mark.parametrize("codec", ["deflate", "bzip2", "xz", "snappy"])
def test_a_damaged_block_is_named(tmp_path, codec):
    fields = [{"name": "id", "type": "long"}, {"name": "name", "type": "string"}]
    rows = [{"id": i, "name": f"row {i * 7919}"} for i in range(5000)]
    path = write(tmp_path / "a.avro", fields, rows, codec=codec)
    assert rows_of(open_source(path))[4999] == {"id": 4999, "name": b"row 39587081"}
    data = bytearray((tmp_path / "a.avro").read_bytes())
    middle = len(data) // 2
    data[middle : middle + 8] = bytes(255 - byte for byte in data[middle : middle + 8])
    (tmp_path / "a.avro").write_bytes(data)
    with pytest.raises(DataError, match=r"a\.avro: damaged .* row \d+ .*\(.*\); copy or write"):
        open_source(path)


def test_a_flipped_bit_in_a_block_of_snappy_is_noticed(tmp_path):
    """Snappy does not compress this text, so only the checksum can show a changed byte of it."""
    text = bytes(range(256)).decode("latin-1")
    path = write(tmp_path / "a.avro", [{"name": "name", "type": "string"}], [{"name": text}],
                 codec="snappy")  # fmt: skip
    data = (tmp_path / "a.avro").read_bytes()
    at = data.index(b"abcdef")
    (tmp_path / "a.avro").write_bytes(data[:at] + b"X" + data[at + 1 :])
    with pytest.raises(DataError) as error:
        open_source(path)
    assert str(error.value).startswith(f"{path}: damaged or cut after row 0 (the block at byte ")
    assert str(error.value).endswith(" differs from its checksum); copy or write it again")
