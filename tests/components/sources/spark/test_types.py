import struct
import zlib

import pyarrow as pa
import pytest

from penstock.components.errors import DataError, UsageError
from penstock.components.sources.base import Column
from penstock.components.sources.open import open_source
from penstock.components.sources.spark.source import Spark, check_crc
from penstock.components.sources.spark.types import (
    StepColumn,
    parse_columns,
    spark_column,
    spark_feature,
    spark_steps,
)
from penstock.components.tfrecord.encoder import encode_examples
from penstock.components.tfrecord.feature_kind import FeatureKind
from penstock.components.tfrecord.writer import ShardWriter, frame_records

INT, FLOAT, BYTES = FeatureKind.INT, FeatureKind.FLOAT, FeatureKind.BYTES


@pytest.mark.parametrize(
    ("name", "feature"),
    [
        ("int", (INT, False)), ("BIGINT", (INT, False)), ("boolean", (INT, False)),
        ("date", (INT, False)), ("timestamp", (INT, False)), ("float", (FLOAT, False)),
        ("double", (FLOAT, False)), ("decimal(10,2)", (FLOAT, False)), ("string", (BYTES, False)),
        ("varchar(20)", (BYTES, False)), ("binary", (BYTES, False)),
        ("array<double>", (FLOAT, True)), ("array<decimal(6, 2)>", (FLOAT, True)),
        ("array<array<int>>", None), ("map<string,int>", None), ("struct<a:int>", None),
    ],
)  # fmt: skip
def test_types(name, feature):
    assert spark_feature(name) == feature


def test_columns():
    assert parse_columns(["id bigint", " tags array<string> "]) == (
        Column("id", INT), Column("tags", BYTES, is_list=True),
    )  # fmt: skip
    with pytest.raises(UsageError, match="a column is a name and a Spark type, as 'fare double'"):
        parse_columns(["fare"])
    with pytest.raises(UsageError, match="column 'a' has Spark's type long long, which no feature"):
        parse_columns(["a long long"])
    with pytest.raises(UsageError, match="column 'a' is given 2 times"):
        parse_columns(["a int", "a int"])


def test_a_vector_is_refused_with_what_makes_an_array_of_it():
    with pytest.raises(UsageError) as error:
        spark_column("features", "vector")
    assert str(error.value) == (
        "column 'features' is a vector of Spark ML, which no feature can hold; make it an array, "
        "df.withColumn('features', vector_to_array('features')) of pyspark.ml.functions"
    )


def test_feature_lists():
    steps = spark_steps("tags", "array<array<string>>")
    assert steps == StepColumn("tags", BYTES, is_list=True)
    assert steps.arrow_type == pa.list_(pa.list_(pa.binary()))
    assert spark_steps("ids", "array<int>").arrow_type == pa.list_(pa.int64())
    with pytest.raises(UsageError) as error:
        spark_steps("id", "int")
    assert str(error.value) == (
        "`feature_lists`: column 'id' has Spark's type int, expected array<...>, a value or an "
        "array of values for each step"
    )
    with pytest.raises(UsageError, match="in `feature_lists` of write_tfrecords also array<array"):
        spark_column("tags", "array<array<string>>")


def test_checksums(tmp_path):
    path = tmp_path / "part-00000"
    path.write_bytes(b"x" * 700)
    sums = struct.pack(">4siII", b"crc\0", 512, zlib.crc32(b"x" * 512), zlib.crc32(b"x" * 188))
    beside = tmp_path / ".part-00000.crc"
    beside.write_bytes(sums)
    check_crc(str(path), str(beside))
    path.write_bytes(b"x" * 699 + b"y")
    with pytest.raises(DataError, match=r"differs from its checksum .* at offset 512 to 1024"):
        check_crc(str(path), str(beside))
    path.write_bytes(b"x" * 400)
    with pytest.raises(DataError, match="at offset 0 to 512"):
        check_crc(str(path), str(beside))
    path.write_bytes(b"x" * 512)
    with pytest.raises(DataError, match="at offset 512 to 1024"):
        check_crc(str(path), str(beside))
    beside.write_bytes(b"no")
    with pytest.raises(DataError, match="not a Hadoop checksum file"):
        check_crc(str(path), str(beside))


def spark_folder(path, *, parts=2):
    """A folder as Spark writes it through Hadoop's file system: a file of checksums beside each."""
    path.mkdir()
    (path / "_SUCCESS").touch()
    for part in range(parts):
        name = f"part-r-{part:05d}"
        ids = pa.RecordBatch.from_arrays([pa.array([part])], names=["id"])
        with ShardWriter(path, name, compression="") as writer:
            writer.write(frame_records(encode_examples(ids)))
            writer.finish()
        data = (path / name).read_bytes()
        sums = b"crc\0" + struct.pack(">iI", 512, zlib.crc32(data))
        (path / f".{name}.crc").write_bytes(sums)
    return path


def test_a_part_file_that_is_gone_is_noticed(tmp_path):
    folder = spark_folder(tmp_path / "out")
    (folder / "._SUCCESS.crc").write_bytes(b"crc\0" + struct.pack(">i", 512))
    assert open_source(str(folder), Spark()).rows == 2
    (folder / "part-r-00001").unlink()
    with pytest.raises(DataError) as error:
        open_source(str(folder), Spark())
    assert str(error.value) == (
        f"{folder}: has the checksums .part-r-00001.crc, but not the file part-r-00001; copy it "
        "from where Spark wrote it, or remove both"
    )
    assert open_source(str(folder), Spark(check_sums=False)).rows == 1


def test_bytes_of_records_are_no_sure_text(tmp_path):
    folder = str(spark_folder(tmp_path / "out"))
    (column,) = open_source(folder, Spark(columns=("id string",))).columns
    assert (column.kind, column.is_text) == (BYTES, False)


def test_other_columns_are_another_fingerprint(tmp_path):
    folder = str(spark_folder(tmp_path / "out"))
    columns = [(), ("id bigint",), ("id double",), ("id array<bigint>",)]
    found = [open_source(folder, Spark(columns=one)).fingerprint for one in columns]
    assert len(set(found)) == 4
    assert open_source(folder, Spark(columns=("id bigint",))).fingerprint == found[1]
