"""Reads files that PySpark writes, and writes a DataFrame as shards, all in one Spark session."""

import json
from contextlib import contextmanager
from pathlib import Path

import pytest
from lake_tables import read

from penstock.components.errors import DataError, UsageError
from penstock.components.example_gen import spark_writer
from penstock.components.example_gen.options import Split, SplitOptions
from penstock.components.example_gen.spark_writer import write_tfrecords
from penstock.components.files.output import _LocalOutput
from penstock.components.sources.open import open_source
from penstock.components.sources.options import Parquet
from penstock.components.tfrecord.example_proto import parse_example
from penstock.components.tfrecord.manifest import ManifestColumn, read_manifest
from penstock.components.tfrecord.records import read_records

pytestmark = pytest.mark.slow

ONE_SPLIT = SplitOptions((Split("train"),))


@pytest.fixture(scope="module")
def trips(spark):
    return spark.range(1000).selectExpr(
        "id",
        "if(id % 10 = 0, null, cast(id / 2 as double)) as fare",
        "concat('row ', id) as name",
        "array(id, id + 1) as tags",
        "date'1970-01-03' as day",
        "cast(1.25 as decimal(6, 2)) as price",
        "id % 2 = 0 as even",
    )


@pytest.fixture(scope="module")
def parquet(trips, tmp_path_factory):
    path = tmp_path_factory.mktemp("spark") / "trips"
    trips.repartition(3, "id").write.parquet(str(path))
    return path


ROW_10 = {"id": 10, "fare": None, "name": b"row 10", "tags": [10, 11], "day": 2, "price": 1.25,
          "even": 1}  # fmt: skip


def test_parquet_as_spark_wrote_it(parquet):
    source = open_source(str(parquet))
    assert (source.kind, source.rows, len(source.files)) == ("parquet", 1000, 3)
    assert read(source, 3)[10] == ROW_10


def test_timestamps_that_spark_writes_as_96_bits_are_read_at_full_width(spark, tmp_path):
    times = ("9999-12-31 23:59:59.999999", "1969-12-31 12:00:00.000001", "1900-01-01 05:00:00")
    columns = [f"timestamp'{time}' as t{at}" for at, time in enumerate(times)]
    spark.range(1).selectExpr("id", *columns).write.parquet(str(tmp_path / "out"))
    # One of the two tasks has no rows, but still writes a file.
    [row] = read(open_source(str(tmp_path / "out"), Parquet(allow_empty=True)))
    assert row == {
        "id": 0,
        "t0": 253402300799_999999,
        "t1": -43199_999999,
        "t2": -2208970800_000000,
    }


def test_a_folder_whose_job_did_not_finish_is_refused(trips, tmp_path):
    trips.write.partitionBy("even").parquet(str(tmp_path / "parts"))
    assert open_source(str(tmp_path / "parts")).rows == 1000
    assert open_source(str(tmp_path / "parts" / "even=true")).rows == 500
    (tmp_path / "parts" / "_SUCCESS").unlink()
    with pytest.raises(DataError, match="parts: holds part files of Spark but no _SUCCESS"):
        open_source(str(tmp_path / "parts"))


def ids(folder):
    for path in sorted(folder.glob("Split-*/*")):
        for record in read_records(path):
            yield parse_example(record.payload).context.feature["id"].int64_list.value[0]


def test_the_way_out_of_spark(trips, tmp_path):
    manifest = write_tfrecords(trips, str(tmp_path / "out"), shards=3, compression="GZIP")
    assert manifest.account.read == sum(manifest.account.written.values()) == 1000
    assert {name: len(shards) for name, shards in manifest.splits.items()} == {
        "train": 3,
        "eval": 3,
    }
    assert read_manifest(tmp_path / "out") == manifest
    assert sorted(ids(tmp_path / "out")) == list(range(1000))
    left = {path.name for path in tmp_path.iterdir()} | {
        p.name for p in (tmp_path / "out").iterdir()
    }
    assert left == {"out", "Split-train", "Split-eval", "manifest.json"}


def test_a_value_that_does_not_fit_stops_and_leaves_nothing(spark, tmp_path):
    df = spark.range(10).selectExpr("id", "if(id = 7, double('NaN'), 1.0D) as x").coalesce(1)
    with pytest.raises(DataError, match=r"^partition 0: row 8, column 'x': nan is not finite"):
        write_tfrecords(df, str(tmp_path / "out"))
    with pytest.raises(DataError, match="the DataFrame has no rows"):
        write_tfrecords(df.where("id > 10"), str(tmp_path / "out"))
    with pytest.raises(UsageError, match="column 'm' has Spark's type map<string,int>, which no"):
        write_tfrecords(df.selectExpr("map('a', 1) as m"), str(tmp_path / "out"))
    assert list(tmp_path.iterdir()) == []


def test_two_columns_of_one_name_are_refused(trips, tmp_path):
    twice = trips.selectExpr("id", "fare", "name as id")
    with pytest.raises(UsageError) as error:
        write_tfrecords(twice, str(tmp_path / "out"))
    assert str(error.value) == "the DataFrame has several columns 'id'; rename all but one"
    assert list(tmp_path.iterdir()) == []


def test_rows_that_do_not_fit_are_kept_aside(spark, tmp_path):
    df = spark.range(200).selectExpr("id", "if(id % 100 = 7, double('NaN'), 1.0D) as x")
    out = tmp_path / "out"
    manifest = write_tfrecords(df.coalesce(1), str(out), on_bad_row="quarantine")
    assert (manifest.account.read, manifest.account.quarantined) == (200, 2)
    assert sorted(set(range(200)) - set(ids(out))) == [7, 107]
    first, _ = (out / manifest.quarantine / "rejected-00000.jsonl").read_text().splitlines()
    assert json.loads(first) == {
        "file": "partition 0",
        "line": 0,
        "row": 8,
        "column": "x",
        "reason": "nan is not finite; `non_finite` 'null' or 'keep' would let it in",
        "raw": '{"id": 7, "x": NaN}',
    }


def test_vectors_are_refused_by_name(spark, tmp_path):
    from pyspark.ml.functions import array_to_vector, vector_to_array

    df = spark.range(10).selectExpr("id", "array(1.5D, 2.5D) as v")
    vectors = df.withColumn("v", array_to_vector("v"))
    with pytest.raises(UsageError, match=r"'v' has Spark's type vector, .* vector_to_array\('v'\)"):
        write_tfrecords(vectors, str(tmp_path / "out"))
    arrays = vectors.withColumn("v", vector_to_array("v"))
    manifest = write_tfrecords(arrays, str(tmp_path / "out"))
    assert manifest.columns[1] == ManifestColumn("v", "FLOAT", is_list=True)


def test_a_path_that_executors_do_not_see_is_named(spark, tmp_path, monkeypatch):
    monkeypatch.setattr(spark_writer, "open_output", private_output)
    with pytest.raises(DataError) as error:
        write_tfrecords(spark.range(10), str(tmp_path / "out"))
    assert str(error.value).startswith(f"{tmp_path}/not-mounted/.work/")
    assert str(error.value).endswith(
        "; name a path that the driver and all executors share, or an s3a:// or gs:// address"
    )


@contextmanager
def private_output(path, *, overwrite):
    """Simulates an output in a folder on another machine."""
    yield _LocalOutput(Path(path).parent / "not-mounted")
