"""What PySpark really writes; its session takes seconds to start and serves the whole file."""

import json
import os
import shutil
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
import tensorflow as tf

from penstock.components.doctor.verify import verify
from penstock.components.errors import DataError, UsageError
from penstock.components.example_gen import spark_writer
from penstock.components.example_gen.options import Split, SplitOptions
from penstock.components.example_gen.spark_writer import write_tfrecords
from penstock.components.files.output import _LocalOutput
from penstock.components.sources.open import open_source
from penstock.components.sources.spark.source import Spark
from penstock.components.tfrecord.example_proto import parse_example
from penstock.components.tfrecord.manifest import ManifestColumn, read_manifest
from penstock.components.tfrecord.records import read_records
from penstock.components.trainer.input.input import Input
from penstock.components.trainer.input.options import InputOptions

pytestmark = pytest.mark.slow

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
    source = open_source(str(parquet), Spark())
    assert (source.kind, source.rows, len(source.files)) == ("spark", 1000, 3)
    assert table(source)[10] == ROW_10


def test_timestamps_that_spark_writes_as_96_bits_are_read_at_full_width(spark, tmp_path):
    times = ("9999-12-31 23:59:59.999999", "1969-12-31 12:00:00.000001", "1900-01-01 05:00:00")
    columns = [f"timestamp'{time}' as t{at}" for at, time in enumerate(times)]
    spark.range(1).selectExpr("id", *columns).write.parquet(str(tmp_path / "out"))
    [row] = table(open_source(str(tmp_path / "out"), Spark()))
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
        open_source(str(copy), Spark())
    (copy / "_SUCCESS").unlink()
    with pytest.raises(DataError, match="trips: has no _SUCCESS, so Spark's job did not finish"):
        open_source(str(copy), Spark())
    with pytest.raises(DataError, match="no such folder; name the folder that Spark wrote"):
        open_source(str(tmp_path / "no"), Spark())


def test_a_partitioned_folder_is_refused(trips, tmp_path):
    path = tmp_path / "trips"
    trips.write.partitionBy("even").parquet(str(path))
    with pytest.raises(DataError, match=r"is partitioned by folder \(even=false\)"):
        open_source(str(path), Spark())


def test_tfrecords_take_their_types_from_the_parquet_copy(trips, parquet, tmp_path):
    """The layout of spark-tensorflow-connector, whose JAR cannot be had: part files, _SUCCESS."""
    write_tfrecords(trips, str(tmp_path / "out"), splits=ONE_SPLIT, shards=2)
    folder = tmp_path / "records"
    folder.mkdir()
    for at, shard in enumerate(sorted((tmp_path / "out" / "Split-train").iterdir())):
        shard.rename(folder / f"part-r-{at:05d}")
    (folder / "_SUCCESS").touch()
    typed = open_source(str(folder), Spark(schema_from=str(parquet)))
    assert typed.columns == open_source(str(parquet), Spark()).columns
    others = ("fare double", "name string", "tags array<bigint>", "day date",
              "price decimal(6,2)", "even boolean")  # fmt: skip
    listed = open_source(str(folder), Spark(columns=("id bigint", *others)))
    assert listed.columns == typed.columns
    assert table(listed)[10] == ROW_10
    wrong = open_source(str(folder), Spark(columns=("id string", *others)))
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
    with pytest.raises(DataError, match=r"^partition 0: row 8, column 'x': nan is not finite"):
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


def test_feature_lists_train_as_sequence_examples_with_several_labels(spark, tmp_path):
    df = spark.range(40).selectExpr(
        "id",
        "array_repeat(id, cast(id % 3 as int)) as product",
        "transform(sequence(1, 1 + id % 2), x -> array(cast(x as float), 0.5F)) as prices",
        "cast(id % 2 as float) as bought",
        "cast(id % 5 as float) as rating",
    )
    lists = ("product", "prices")
    out = str(tmp_path / "out")
    manifest = write_tfrecords(df, out, splits=ONE_SPLIT, feature_lists=lists)
    assert [column.name for column in manifest.columns] == ["id", "bought", "rating"]
    one = tf.io.FixedLenFeature([1], tf.float32)
    batches = Input.rows(
        out,
        {"id": tf.io.FixedLenFeature([1], tf.int64), "bought": one, "rating": one},
        label=["bought", "rating"],
        feature_lists={
            "product": tf.io.FixedLenSequenceFeature([], tf.int64),
            "prices": tf.io.RaggedFeature(tf.float32),
        },
        options=InputOptions(batch_size=40),
    ).eval(split="train")
    [(features, labels)] = batches
    row = features["id"].numpy()[:, 0].tolist().index(5)
    assert features["product"][row].numpy().tolist() == [5, 5]
    assert features["prices"][row].numpy().tolist() == [[1.0, 0.5], [2.0, 0.5]]
    assert {name: label[row, 0].numpy() for name, label in labels.items()} == {
        "bought": 1.0,
        "rating": 0.0,
    }
    with pytest.raises(UsageError, match="`feature_lists`: the DataFrame has no column 'price'"):
        write_tfrecords(df, out, feature_lists=("price",))


def test_a_split_for_each_value_of_a_column(spark, tmp_path):
    df = spark.range(90).selectExpr("id", "array('train', 'eval', 'a.b')[id % 3] as `my.set`")
    out = tmp_path / "out"
    manifest = write_tfrecords(df, str(out), partition_by="my.set", shards=2)
    assert manifest.account.written == {"a.b": 30, "eval": 30, "train": 30}
    assert [shard.file for shard in manifest.splits["a.b"]] == [
        "Split-a.b/data_tfrecord-00000-of-00002",
        "Split-a.b/data_tfrecord-00001-of-00002",
    ]
    assert [column.name for column in manifest.columns] == ["id"]
    assert verify(str(out)).faults == ()
    found = {file.parent.name: [] for file in out.glob("Split-*/*")}
    for file in out.glob("Split-*/*"):
        for record in read_records(file):
            context = parse_example(record.payload).context
            found[file.parent.name] += context.feature["id"].int64_list.value
    assert {name: sorted(rows) for name, rows in found.items()} == {
        "Split-train": list(range(0, 90, 3)),
        "Split-eval": list(range(1, 90, 3)),
        "Split-a.b": list(range(2, 90, 3)),
    }
    holes = df.selectExpr("id", "nullif(`my.set`, 'eval') as s")
    at = "^partition 0: row {}, column 's' of `partition_by`: {}"
    with pytest.raises(
        DataError, match=at.format(1, "has no value; fill it or leave the row out$")
    ):
        write_tfrecords(holes.coalesce(1), str(tmp_path / "no"), partition_by="s")
    for value, message in (("z/", "must be a folder's, got 'z/'$"), ("z" * 250, "has at most 249")):
        names = df.selectExpr("id", f"if(id < 88, 'a', '{value}') as s").coalesce(1)
        with pytest.raises(DataError, match=at.format(89, f"a split's name {message}")):
            write_tfrecords(names, str(tmp_path / "no"), partition_by="s")
    with pytest.raises(UsageError, match="`partition_by` and `splits` both divide the rows"):
        write_tfrecords(df, str(tmp_path / "no"), partition_by="id", splits=ONE_SPLIT)


def test_vectors_are_refused_by_name(spark, tmp_path):
    from pyspark.ml.functions import array_to_vector, vector_to_array

    df = spark.range(10).selectExpr("id", "array(1.5D, 2.5D) as v")
    vectors = df.withColumn("v", array_to_vector("v"))
    with pytest.raises(UsageError, match=r"'v' is a vector of Spark ML.*vector_to_array\('v'\)"):
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
    """A folder that another machine has."""
    yield _LocalOutput(Path(path).parent / "not-mounted")
