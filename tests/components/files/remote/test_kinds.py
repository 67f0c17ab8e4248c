"""Every kind of files from a real S3 server: the same rows as from the local disk."""

import io
import os

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image
from scipy.io import savemat

from penstock.components.sources.binary import Binary
from penstock.components.sources.images.options import Images
from penstock.components.sources.open import open_source
from penstock.components.sources.options import Table
from penstock.components.sources.plain_text import Text
from penstock.components.sources.tfrecords.source import TFRecord

pytestmark = pytest.mark.slow
SCHEMA = {"type": "record", "name": "r", "fields": [{"name": "x", "type": "long"}]}


def csv(folder):
    (folder / "a.csv").write_text("x\n1\n2\n")
    (folder / "schema.pbtxt").write_text('feature { name: "x" type: FLOAT }')


def parquet(folder):
    pq.write_table(pa.table({"x": [1, 2]}), folder / "a.parquet")


def jsonl(folder):
    (folder / "a.jsonl").write_text('{"x": 1}\n{"x": 2}\n')


def avro(folder):
    with (folder / "a.avro").open("wb") as out:
        fastavro.writer(out, SCHEMA, [{"x": 1}, {"x": 2}])


def tfrecord(folder):
    import tensorflow as tf

    feature = tf.train.Feature(int64_list=tf.train.Int64List(value=[1]))
    example = tf.train.Example(features=tf.train.Features(feature={"x": feature}))
    with tf.io.TFRecordWriter(str(folder / "a.tfrecord.gz"), "GZIP") as out:
        out.write(example.SerializeToString())
        out.write(example.SerializeToString())


def images(folder):
    (folder / "in").mkdir()
    for name, shade in (("a.png", 10), ("b.png", 200)):
        data = io.BytesIO()
        Image.fromarray(np.full((4, 6, 3), shade, np.uint8)).save(data, "PNG")
        (folder / "in" / name).write_bytes(data.getvalue())
    savemat(folder / "labels.mat", {"file": np.array(["a.png", "b.png"], object), "class": [1, 2]})


def text(folder):
    (folder / "a.txt").write_text("one\ntwo\n")


@pytest.mark.parametrize(
    ("write", "below", "options"),
    [
        (csv, "a.csv", lambda root: Table(schema_file=f"{root}/schema.pbtxt")),
        (parquet, "", None),
        (jsonl, "", None),
        (avro, "", None),
        (tfrecord, "*.tfrecord.gz", lambda root: TFRecord()),
        (text, "", lambda root: Text()),
        (text, "", lambda root: Binary()),
        (images, "in", lambda root: Images(labels_file=f"{root}/labels.mat")),
    ],
)
def test_rows_are_those_of_local_files(s3, tmp_path, read_out, write, below, options):
    folder = tmp_path / "data"
    folder.mkdir()
    write(folder)
    for file in folder.rglob("*.*"):
        s3.upload_file(str(file), "bucket", f"data/{file.relative_to(folder)}")

    def opened(root):
        return open_source(f"{root}/{below}".rstrip("/"), options(root) if options else None)

    local, remote = opened(folder), opened("s3://bucket/data")
    rows = read_out(local, 2).rows
    assert len(rows) == 2 or write is text
    assert read_out(remote, 2).rows == rows
    assert remote.columns == local.columns
    assert remote.kind == local.kind
    assert remote.input_bytes == local.input_bytes
    assert remote.fingerprint == local.fingerprint
    # Of the schema and of the labels, which their readers want as paths.
    assert len(os.listdir(os.environ["PENSTOCK_SPOOL"])) == (write in (csv, images))
