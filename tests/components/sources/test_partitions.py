"""Folders `column=value`, as Spark, pandas and DuckDB write them, become columns."""

import datetime

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lake_tables import read
from pyarrow import orc
from reading import rows_of

from penstock.components.errors import DataError
from penstock.components.sources.base import Column
from penstock.components.sources.open import open_source
from penstock.components.sources.options import Parquet, Table
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
    # Spark writes the value `a/b c` in this form; pyarrow 10 would write two folders.
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
    with pytest.raises(DataError, match=r"more.parquet: lacks 'year', which a folder of"):
        open_source(str(trips))


def test_value_beyond_64_bits_makes_the_column_text(tmp_path):
    for folder in ("id=99999999999999999999", "id=7"):
        write_table(tmp_path / folder / "a.parquet")
    source = open_source(str(tmp_path))
    assert sorted(row["id"] for row in read(source)) == [b"7", b"99999999999999999999"]


@pytest.mark.parametrize("folder", ["id=", "id=__HIVE_DEFAULT_PARTITION__"])
def test_folder_without_a_value_is_no_value(tmp_path, folder):
    for one in (folder, "id=7"):
        write_table(tmp_path / one / "a.parquet")
    source = open_source(str(tmp_path))
    assert source.columns == (Column("fare", FLOAT), Column("id", INT))
    assert {row["id"] for row in rows_of(source)} == {None, 7}


@pytest.mark.parametrize(
    ("folders", "message"),
    [
        (["y=1/y=2"], r"y=1/y=2/a.parquet: two of its folders give 'y' a value"),
        (["y=%ff", "y=%fe"], r"a.parquet: its folder 'y=%f[ef]' is not UTF-8"),
    ],
)
def test_folders_whose_values_would_be_lost_are_refused(tmp_path, folders, message):
    for folder in folders:
        write_table(tmp_path / folder / "a.parquet")
    with pytest.raises(DataError, match=message):
        open_source(str(tmp_path))


def write_table(path, **columns):
    path.parent.mkdir(parents=True, exist_ok=True)
    frame = pd.DataFrame({"fare": [1.5], **columns})
    if path.suffix == ".parquet":
        frame.to_parquet(path)
    elif path.suffix == ".csv":
        frame.to_csv(path, index=False)
    else:
        frame.to_json(path, orient="records", lines=True)


@pytest.mark.parametrize("suffix", ["parquet", "csv", "jsonl"])
@pytest.mark.parametrize("in_files", [False, True])
def test_partitions_are_columns_unless_the_files_have_them(tmp_path, suffix, in_files):
    for year in (2023, 2024):
        write_table(
            tmp_path / f"year={year}" / f"a.{suffix}", **{"year": [year]} if in_files else {}
        )
    source = open_source(str(tmp_path))
    assert source.columns == (Column("fare", FLOAT), Column("year", INT))
    assert read(source) == [{"fare": 1.5, "year": 2023}, {"fare": 1.5, "year": 2024}]


@pytest.mark.parametrize("suffix", ["parquet", "csv", "jsonl"])
def test_folder_that_differs_from_the_column_is_refused(tmp_path, suffix):
    for year in (2023, 2024):
        write_table(tmp_path / f"year={year}" / f"a.{suffix}", year=[2023])
    file = tmp_path / "year=2024" / f"a.{suffix}"
    with pytest.raises(DataError, match=f"{file}: column 'year' holds 2023, .* folder says 2024"):
        read(open_source(str(tmp_path)))


@pytest.mark.parametrize(
    ("texts", "values"),
    [
        (["2023-12-31", "2024-01-01"], [datetime.date(2023, 12, 31), datetime.date(2024, 1, 1)]),
        (
            ["2023-12-31 10%3A00%3A00", "2024-01-01"],
            [datetime.datetime(2023, 12, 31, 10), datetime.datetime(2024, 1, 1)],
        ),
        (["false", "true"], [False, True]),
    ],
)
def test_folder_may_say_a_date_or_truth_value_as_text_that_the_files_hold(tmp_path, texts, values):
    for text, value in zip(texts, values, strict=True):
        (tmp_path / f"at={text}").mkdir()
        table = pa.table({"x": [1], "at": [value]})
        pq.write_table(table, tmp_path / f"at={text}" / "a.parquet")
    in_files = read(open_source([str(path) for path in tmp_path.glob("*/*.parquet")]))
    alone = [read(open_source(str(tmp_path / f"at={text}")))[0] for text in texts]
    assert sorted(in_files, key=lambda row: row["at"]) == alone
    pq.write_table(pa.table({"x": [1], "at": [values[0]]}), tmp_path / f"at={texts[1]}/a.parquet")
    with pytest.raises(DataError, match=r"column 'at' holds .*, and its folder says"):
        read(open_source(str(tmp_path)))


@pytest.mark.parametrize("suffix", ["parquet", "csv", "jsonl"])
def test_schema_decides_the_type_of_partitions(tmp_path, suffix):
    for year in (2023, 2024):
        write_table(tmp_path / f"year={year}" / f"a.{suffix}")
    schema = tmp_path / "schema.pbtxt"

    def opened(kind, **options):
        year = f'feature {{ name: "year" type: {kind} }}' if kind else ""
        schema.write_text(f'feature {{ name: "fare" type: FLOAT }} {year}')
        return open_source(
            str(tmp_path / "year=*" / "*.*"), Table(schema_file=str(schema), **options)
        )

    assert [row["year"] for row in read(opened("BYTES"))] == [b"2023", b"2024"]
    assert [row["year"] for row in read(opened("FLOAT"))] == [2023.0, 2024.0]
    with pytest.raises(DataError, match=r"(has|have) 'year', which the schema does not name"):
        opened("")
    assert read(opened("", extra_columns="drop")) == [{"fare": 1.5}] * 2


def test_folders_beside_data_files_are_named(tmp_path, caplog):
    write_table(tmp_path / "data" / "a.csv")
    write_table(tmp_path / "data" / "more" / "b.csv")
    assert open_source(str(tmp_path / "data")).rows == 1
    assert "data files in its folders, such as " in caplog.text
    assert f"name a glob as '{tmp_path}/data/**/*.csv'" in caplog.text
    with pytest.raises(DataError, match=r"no data file matches; .* in its folders, such as"):
        open_source(str(tmp_path))


def test_data_files_deeper_than_partitions_are_named_once(tmp_path, caplog):
    for name in ("a.csv", "more/b.csv", "more/c.csv", "_temporary/d.csv", ".e/f.csv"):
        write_table(tmp_path / "year=2024" / name)
    assert open_source(str(tmp_path)).rows == 1
    [message] = caplog.messages
    assert f"data files in its folders, such as {tmp_path}/year=2024/more/" in message
    assert message.startswith(f"{tmp_path}: ")
