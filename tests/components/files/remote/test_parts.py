"""Reads input on an S3 server in parts; a task reads only its part and copies nothing to disk."""

import tempfile
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from local_beam import local_pipeline

from penstock.components.example_gen.ingest import plan_input, write_inputs
from penstock.components.example_gen.options import IngestOptions, SplitOptions
from penstock.components.sources import spread
from penstock.components.sources.open import open_source
from penstock.components.sources.spread import Spread
from penstock.components.sources.tfrecords.source import TFRecord
from penstock.components.tfrecord.encoder import encode_examples
from penstock.components.tfrecord.sharding import MIB, ShardOptions
from penstock.components.tfrecord.writer import frame_records

pytestmark = pytest.mark.slow
ROWS = 40_000


def csv(path):
    text = "x" * 200
    path.write_text("id,text\n" + "".join(f'{i},"{text}\n"\n' for i in range(ROWS)))


def table():
    numbers = np.random.default_rng(0).random(ROWS * 25)
    return pa.table(
        {"id": range(ROWS), "x": pa.FixedSizeListArray.from_arrays(numbers.ravel(), 25)}
    )


def parquet(path):
    pq.write_table(table(), path, row_group_size=1000)


def tfrecord(path):
    texts = pa.array([b"x" * 200] * ROWS)
    batch = pa.RecordBatch.from_arrays([pa.array(range(ROWS)), texts], ["id", "text"])
    path.write_bytes(b"".join(frame_records(encode_examples(batch)).to_pylist()))


CASES = {
    "csv": (csv, None),
    "parquet": (parquet, None),
    "tfrecord": (tfrecord, TFRecord()),
}


@pytest.mark.parametrize("kind", CASES)
def test_a_task_reads_its_own_part(s3, proxy, tmp_path, kind):
    write, options = CASES[kind]
    path = tmp_path / f"a.{kind}"
    write(path)
    size = path.stat().st_size
    assert size > 8 * MIB
    s3.upload_file(str(path), "bucket", path.name)
    source = open_source(f"s3://bucket/{path.name}", options)
    source, run = source.part(source.cut(4)[2])
    proxy.asked.clear()
    assert sum(batch.rows_read for batch in source.read(run)) == pytest.approx(ROWS / 4, rel=0.2)
    asked = [headers for headers in proxy.asked if "Range" in headers]
    assert all(headers["If-Match"] for headers in asked)
    parts = [headers["Range"].removeprefix("bytes=").split("-") for headers in asked]
    assert sum(int(end) - int(start) for start, end in parts) < size / 4 + 4 * MIB


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_an_input_larger_than_the_disk(s3, proxy, tmp_path, small_disk, monkeypatch, kind):
    CASES[kind][0](tmp_path / f"a.{kind}")
    for at in range(2):
        s3.upload_file(str(tmp_path / f"a.{kind}"), "bucket", f"in/{at}.{kind}")
    small_disk.leave(4 * MIB)
    monkeypatch.setattr(tempfile, "tempdir", str(small_disk.folder))
    monkeypatch.setenv("PENSTOCK_SPOOL", str(small_disk.folder))
    monkeypatch.setattr(spread, "_WORTH_ENGINE_BYTES", 0)
    pipeline = partial(local_pipeline, 1)
    proxy.faults += ["503", None, None, "short", "reset", None, "break"]
    source = open_source("s3://bucket/in", None, Spread(pipeline, "s3://bucket/out"))
    assert source.input_bytes > 16 * MIB
    options = IngestOptions(shards=ShardOptions(shards=12))
    job = plan_input(source, SplitOptions(), options)
    manifest = write_inputs([job], "s3://bucket/out", options, engine=pipeline)
    assert proxy.faults == []
    assert manifest.account.read == 2 * ROWS
    assert sum(shard.bytes for shard in manifest.shards) > 10 * MIB
    assert list(small_disk.folder.iterdir()) == []
    local = open_source([str(tmp_path / f"a.{kind}")])
    assert source.columns == local.columns
