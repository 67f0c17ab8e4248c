"""Folders as Spark leaves them, made by hand."""

import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf

from penstock.components.errors import DataError
from penstock.components.sources.open import open_source
from penstock.components.sources.spark.source import Spark


def record(**features):
    example = tf.train.Example()
    for name, value in features.items():
        if isinstance(value, int):
            example.features.feature[name].int64_list.value.append(value)
        else:
            example.features.feature[name].float_list.value.append(value)
    return example.SerializeToString()


@pytest.fixture
def folder(tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "_SUCCESS").touch()
    with tf.io.TFRecordWriter(str(out / "part-00000.tfrecord")) as writer:
        for i in range(10):
            writer.write(record(id=i, fare=i / 2))
    return out


def refusal(folder, **options):
    with pytest.raises(DataError) as error:
        open_source(str(folder), Spark(**options))
    return str(error.value).replace(f"{folder}", "out")


def test_a_part_of_no_bytes_is_told(folder):
    (folder / "part-00001.tfrecord").touch()
    source = open_source(str(folder), Spark())
    assert source.rows == 10
    assert source.notes == (
        f"1 part file of 0 bytes, without rows: '{folder}/part-00001.tfrecord'",
    )


def test_a_part_of_parquet_has_bytes(tmp_path):
    (tmp_path / "_SUCCESS").touch()
    pq.write_table(pa.table({"id": [1]}), tmp_path / "part-00000.parquet")
    (tmp_path / "part-00001.parquet").touch()
    assert refusal(tmp_path) == (
        "out/part-00001.parquet: is empty (0 bytes), expected Parquet; copy it again"
    )


@pytest.mark.parametrize("ending", ["._COPYING_", ".tmp"])
def test_a_copy_that_was_not_finished_is_no_part(folder, ending):
    part = folder / "part-00000.tfrecord"
    beside = folder / (part.name + ending)
    beside.write_bytes(part.read_bytes())
    assert open_source(str(folder), Spark()).rows == 10
    os.rename(beside, folder / f"part-00001.tfrecord{ending}")
    assert refusal(folder) == (
        f"out: part-00001.tfrecord{ending} is a copy that was not finished; wait for it, or copy "
        "the file again"
    )


def test_columns_that_are_named_are_held_to_the_records(folder):
    assert refusal(folder, columns=("id bigint", "fair double")) == (
        "out: its records have 'fare', which is none of the columns that were named, 'id', "
        "'fair'; name all columns of the records"
    )
    source = open_source(str(folder), Spark(columns=("id bigint", "fare bigint")))
    [batch] = [batch for run in source.cut(1) for batch in source.read(run)]
    assert len(batch.rejected) == 10
    assert batch.rejected[0].reason.endswith("is FLOAT, expected INT")
