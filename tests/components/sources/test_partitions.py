"""Folders `column=value`, as Spark, pandas and DuckDB write them, are columns."""

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lake_tables import read
from pyarrow import orc

from penstock.components.errors import DataError
from penstock.components.sources.base import Column
from penstock.components.sources.open import open_source
from penstock.components.sources.options import Parquet
from penstock.components.tfrecord.feature_kind import FeatureKind

INT, FLOAT, BYTES = FeatureKind.INT, FeatureKind.FLOAT, FeatureKind.BYTES


@pytest.fixture
def trips(tmp_path):
    frame = pd.DataFrame(
        {
            "fare": [1.5, 2.5, 3.5, 4.5],
            "year": [2023, 2023, 2024, 2024],
            "city": ["Graz", "a b c", None, "Graz"],
        }
    )
    pq.write_to_dataset(
        pa.Table.from_pandas(frame), tmp_path / "trips", partition_cols=["year", "city"]
    )
    # Spark's form of `a/b c`, for which pyarrow 10 would make two folders.
    [folder] = (tmp_path / "trips/year=2023").glob("city=a*")
    folder.rename(folder.with_name("city=a%2Fb c"))
    (tmp_path / "trips" / "_SUCCESS").touch()
    return tmp_path / "trips"


@pytest.mark.parametrize("parts", [1, 3])
def test_partitions_that_arrow_writes_are_columns(trips, parts):
    source = open_source(str(trips))
    assert source.columns == (Column("fare", FLOAT), Column("year", INT), Column("city", BYTES))
    rows = sorted(read(source, parts), key=lambda row: row["fare"])
    assert rows == [
        {"fare": 1.5, "year": 2023, "city": b"Graz"},
        {"fare": 2.5, "year": 2023, "city": b"a/b c"},
        {"fare": 3.5, "year": 2024, "city": None},
        {"fare": 4.5, "year": 2024, "city": b"Graz"},
    ]


@pytest.mark.parametrize(
    "inputs",
    [
        ["trips/year=*/*/*.parquet"],
        ["trips/**/*.parquet"],
        ["trips/year=2023", "trips/year=2024"],
        ["trips/year=2023/city=Graz", "trips/year=2023/city=a%2Fb c", "trips/year=2024"],
        ["trips/year=2023/*/*.parquet", "trips/year=2024/*/*.parquet"],
    ],
)
def test_partitions_of_globs_and_several_inputs_are_columns(trips, monkeypatch, inputs):
    monkeypatch.chdir(trips.parent)
    source = open_source(inputs)
    assert [column.name for column in source.columns] == ["fare", "year", "city"]
    rows = sorted(read(source), key=lambda row: row["fare"])
    assert [row["year"] for row in rows] == [2023, 2023, 2024, 2024]
    assert [row["city"] for row in rows] == [b"Graz", b"a/b c", None, b"Graz"]


def test_folders_above_the_first_wildcard_are_no_columns(trips, monkeypatch):
    monkeypatch.chdir(trips.parent)
    source = open_source("trips/year=2023/*/*.parquet")
    assert [column.name for column in source.columns] == ["fare", "city"]


def test_a_schema_may_name_partitions_alone(trips, tmp_path):
    (tmp_path / "schema.pbtxt").write_text('feature { name: "year" type: INT }')
    options = Parquet(schema_file=str(tmp_path / "schema.pbtxt"), extra_columns="drop")
    rows = read(open_source(str(trips), options))
    assert sorted(row["year"] for row in rows) == [2023, 2023, 2024, 2024]


def test_another_name_of_a_folder_is_another_input(trips):
    one = open_source(str(trips / "year=2023")).fingerprint
    before = open_source(str(trips)).fingerprint
    (trips / "year=2023").rename(trips / "year=2022")
    assert open_source(str(trips)).fingerprint != before
    assert open_source(str(trips / "year=2022")).fingerprint == one


def test_values_with_leading_zeros_are_text(tmp_path):
    for month in ("01", "12"):
        (tmp_path / f"month={month}").mkdir()
        orc.write_table(pa.table({"x": [int(month)]}), str(tmp_path / f"month={month}" / "a.orc"))
    assert read(open_source(str(tmp_path))) == [{"x": 1, "month": b"01"}, {"x": 12, "month": b"12"}]


def test_a_file_outside_the_partitions_is_named(trips):
    pd.DataFrame({"fare": [1.0]}).to_parquet(trips / "more.parquet")
    with pytest.raises(DataError, match=r"lacks 'year', 'city'|has 'year', 'city' besides"):
        open_source(str(trips))


@pytest.mark.parametrize("value", ["99999999999999999999", ""])
def test_a_value_that_is_no_integer_of_64_bits_makes_the_column_text(tmp_path, value):
    for folder in (f"id={value}", "id=7"):
        (tmp_path / "trips" / folder).mkdir(parents=True)
        pq.write_table(pa.table({"fare": [1.5]}), tmp_path / "trips" / folder / "a.parquet")
    source = open_source(str(tmp_path / "trips"))
    assert sorted(row["id"] for row in read(source)) == sorted([value.encode(), b"7"])
