"""What PySpark really writes; its session takes seconds to start and serves the whole file."""

import os
import shutil
import sys

import pytest

from penstock.components.errors import DataError, UsageError
from penstock.components.example_gen.spark_writer import write_tfrecords
from penstock.components.example_gen.split_options import Split, SplitOptions
from penstock.components.sources.open import open_source
from penstock.components.sources.spark.source import SparkOptions
from penstock.components.tfrecord.example_proto import parse_example
from penstock.components.tfrecord.manifest import read_manifest
from penstock.components.tfrecord.records import read_records

pytestmark = pytest.mark.ci

ONE_SPLIT = SplitOptions((Split("train"),))


@pytest.fixture(scope="module")
def spark():
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master("local[2,3]")  # two threads, three tries of a task
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    yield session
    session.stop()


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


def table(source):
    rows = [r for run in source.cut(3) for b in source.read(run) for r in b.table.to_pylist()]
    return sorted(rows, key=lambda row: row["id"])


ROW_10 = {"id": 10, "fare": None, "name": b"row 10", "tags": [10, 11], "day": 2, "price": 1.25,
          "even": 1}  # fmt: skip


def test_parquet_as_spark_wrote_it(parquet):
    source = open_source(str(parquet), SparkOptions())
    assert (source.kind, source.rows, len(source.files)) == ("spark", 1000, 3)
    assert table(source)[10] == ROW_10


def test_timestamps_that_spark_writes_as_96_bits_are_read_at_full_width(spark, tmp_path):
    times = ("9999-12-31 23:59:59.999999", "1969-12-31 12:00:00.000001", "1900-01-01 05:00:00")
    columns = [f"timestamp'{time}' as t{at}" for at, time in enumerate(times)]
    spark.range(1).selectExpr("id", *columns).write.parquet(str(tmp_path / "out"))
    [row] = table(open_source(str(tmp_path / "out"), SparkOptions()))
    assert row == {
        "id": 0,
        "t0": 253402300799_999999,
        "t1": -43199_999999,
        "t2": -2208970800_000000,
    }


def test_an_unfinished_or_damaged_folder_is_refused(parquet, tmp_path):
    copy = tmp_path / "trips"
    shutil.copytree(parquet, copy)
    part = sorted(copy.glob("part-*"))[0]
    data = bytearray(part.read_bytes())
    data[600] ^= 1
    part.write_bytes(data)
    with pytest.raises(
        DataError, match=rf"{part.name}: differs from its checksum in .* 512 to 1024"
    ):
        open_source(str(copy), SparkOptions())
    (copy / "_SUCCESS").unlink()
    with pytest.raises(DataError, match="trips: has no _SUCCESS, so Spark's job did not finish"):
        open_source(str(copy), SparkOptions())
    with pytest.raises(DataError, match="no such folder; name the folder that Spark wrote"):
        open_source(str(tmp_path / "no"), SparkOptions())


def test_a_partitioned_folder_is_refused(trips, tmp_path):
    path = tmp_path / "trips"
    trips.write.partitionBy("even").parquet(str(path))
    with pytest.raises(DataError, match=r"is partitioned by folder \(even=false\)"):
        open_source(str(path), SparkOptions())


def test_tfrecords_take_their_types_from_the_parquet_copy(trips, parquet, tmp_path):
    """The layout of spark-tensorflow-connector, whose JAR cannot be had: part files, _SUCCESS."""
    write_tfrecords(trips, str(tmp_path / "out"), splits=ONE_SPLIT, shards=2)
    folder = tmp_path / "records"
    folder.mkdir()
    for at, shard in enumerate(sorted((tmp_path / "out" / "Split-train").iterdir())):
        shard.rename(folder / f"part-r-{at:05d}")
    (folder / "_SUCCESS").touch()
    typed = open_source(str(folder), SparkOptions(schema_from=str(parquet)))
    assert typed.columns == open_source(str(parquet), SparkOptions()).columns
    others = ("fare double", "name string", "tags array<bigint>", "day date",
              "price decimal(6,2)", "even boolean")  # fmt: skip
    listed = open_source(str(folder), SparkOptions(columns=("id bigint", *others)))
    assert listed.columns == typed.columns
    assert table(listed)[10] == ROW_10
    wrong = open_source(str(folder), SparkOptions(columns=("id string", *others)))
    rejected = [row for run in wrong.cut(1) for b in wrong.read(run) for row in b.rejected]
    assert len(rejected) == 1000
    assert "column 'id': record 0 at offset 0: is INT, expected BYTES" in str(rejected[0])


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


def test_rows_are_counted_once_when_tasks_are_tried_again(trips, tmp_path):
    marks = tmp_path / "marks"
    marks.mkdir()

    def fail_once(batches):
        from pyspark import TaskContext

        mark = marks / str(TaskContext.get().partitionId())
        for at, batch in enumerate(batches):
            yield batch
            if at == 0 and not mark.exists():
                mark.touch()
                raise OSError("a disk that fails once")

    flaky = trips.repartition(4).mapInArrow(fail_once, trips.schema)
    manifest = write_tfrecords(flaky, str(tmp_path / "out"), splits=ONE_SPLIT)
    assert len(list(marks.iterdir())) == 4
    assert manifest.account.written == {"train": 1000}
    assert sorted(ids(tmp_path / "out")) == list(range(1000))


def test_a_value_that_does_not_fit_stops_and_leaves_nothing(spark, tmp_path):
    df = spark.range(10).selectExpr("id", "if(id = 7, double('NaN'), 1.0D) as x").coalesce(1)
    with pytest.raises(DataError, match="partition 0, row 8, column 'x': nan is not finite"):
        write_tfrecords(df, str(tmp_path / "out"))
    with pytest.raises(DataError, match="the DataFrame has no rows"):
        write_tfrecords(df.where("id > 10"), str(tmp_path / "out"))
    with pytest.raises(UsageError, match="column 'm' has Spark's type map<string,int>"):
        write_tfrecords(df.selectExpr("map('a', 1) as m"), str(tmp_path / "out"))
    assert list(tmp_path.iterdir()) == []


def test_two_columns_of_one_name_are_refused(trips, tmp_path):
    twice = trips.selectExpr("id", "fare", "name as id")
    with pytest.raises(UsageError) as error:
        write_tfrecords(twice, str(tmp_path / "out"))
    assert str(error.value) == "the DataFrame has several columns 'id'; rename all but one"
    assert list(tmp_path.iterdir()) == []
