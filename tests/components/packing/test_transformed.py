"""Packing raw Examples through a TransformGraph gives the bytes of packed transformed Examples."""

import json
import os
import shutil
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf
import tensorflow_transform as tft
from google.protobuf import text_format
from row_files import artifact, example, write_shards
from tensorflow_metadata.proto.v0 import schema_pb2
from tfx.types.standard_artifacts import Examples, TransformGraph

from penstock.components.batches.analysis import analyze
from penstock.components.batches.materialize import materialize
from penstock.components.batches.shards import shard_tasks
from penstock.components.errors import DataError
from penstock.components.files.content import hash_file
from penstock.components.packing import transformed
from penstock.components.packing.component import Executor
from penstock.components.packing.options import PackOptions
from penstock.components.packing.pack import pack
from penstock.components.packing.transformed import (
    TransformedRows,
    stated_columns,
    transformed_schema,
)
from penstock.components.plain import to_json
from penstock.components.tfrecord.manifest import read_manifest

ONE = "presence { min_fraction: 1 } shape { dim { size: 1 } }"
SCHEMA = text_format.Parse(
    f"""
feature {{ name: "x" type: FLOAT {ONE} }}
feature {{ name: "k" type: BYTES {ONE} }}
feature {{ name: "words" type: BYTES }}
""",
    schema_pb2.Schema(),
)


def preprocessing_fn(inputs):
    return {
        "z": tft.scale_to_z_score(inputs["x"]),
        "pair": tf.concat([inputs["x"], inputs["x"] * 2], 1),
        "ids": tft.compute_and_apply_vocabulary(inputs["words"], top_k=4, default_value=4),
        "k": tf.squeeze(inputs["k"], 1),
        "none": tf.sparse.retain(inputs["words"], tf.equal(inputs["words"].values, "no")),
    }


def rows(count, first=0):
    for i in range(first, first + count):
        words = [b"w%d" % (j * i % 7) for j in range(i % 4)]
        yield example(x=[float(i)], k=[b"k%d" % (i % 3)], words=words or None)


@pytest.fixture(scope="module")
def raw(tmp_path_factory):
    folder = tmp_path_factory.mktemp("raw") / "rows"
    write_shards(folder, rows(120))
    return str(write_shards(folder, rows(30, first=120), split="eval"))


@pytest.fixture(scope="module")
def graph(raw, tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("graph"))
    tasks = shard_tasks(raw, "train")
    analyze(preprocessing_fn, SCHEMA, folder, lambda work: map(work, tasks))
    return folder


@pytest.mark.slow
def test_packed_raw_rows_have_the_bytes_of_packed_transformed_examples(raw, graph, tmp_path):
    splits = {split: shard_tasks(raw, split) for split in ("eval", "train")}
    materialize(graph, splits, str(tmp_path / "transformed"), engine=1)
    stated = stated_columns(transformed_schema(graph))
    options = PackOptions(seed=3)
    by_way = pack(str(tmp_path / "transformed"), tmp_path / "a", options, stated=stated)
    straight = pack(raw, tmp_path / "b", options, stated=stated, read=TransformedRows(graph))
    assert straight.splits == by_way.splits
    assert straight.packed == by_way.packed
    assert {c.name for c in straight.columns} >= {"z", "pair", "ids", "k"}


def test_columns_of_a_row_keep_their_own_values(raw, tmp_path):
    """Without `isolated`, all columns would get the values of the first (docs/upstream.md)."""
    graph = str(tmp_path / "graph")
    schema = text_format.Parse(
        "".join(f'feature {{ name: "{name}" type: FLOAT {ONE} }}' for name in "abc"),
        schema_pb2.Schema(),
    )
    analyze(
        lambda i: {n: tf.reduce_max(tf.sqrt(x), 1) for n, x in i.items()},
        *(schema, graph, lambda work: ()),
    )
    folder = write_shards(tmp_path / "rows", [example(a=[1.0], b=[4.0], c=[25.0])], shards=1)
    [task] = shard_tasks(str(folder), "train")
    [batch] = TransformedRows(graph)(task.file, task.shard)
    assert [column.flatten().to_pylist() for column in batch.columns] == [[1.0], [2.0], [5.0]]


def test_a_graph_that_was_replaced_at_its_path_is_loaded_again(raw, tmp_path):
    [task] = shard_tasks(raw, "eval")[:1]
    found = []
    for factor in (1, 10):
        graph = str(tmp_path / "graph")
        shutil.rmtree(graph, ignore_errors=True)
        analyze(lambda inputs, by=factor: {"y": inputs["x"] * by}, SCHEMA, graph, lambda work: ())
        os.utime(f"{graph}/transform_fn/saved_model.pb", (factor, factor))
        [batch] = TransformedRows(graph)(task.file, task.shard)
        found.append(batch.column(0).flatten()[0].as_py())
    assert found == [120, 1200]


def test_the_node_packs_raw_examples_of_several_spans(raw, graph, tmp_path):
    out = artifact(Examples, tmp_path / "out")
    spans = [artifact(Examples, raw), artifact(Examples, raw)]
    Executor().Do(
        {"examples": spans, "transform_graph": [artifact(TransformGraph, graph)]},
        {"packed": [out]},
        {"options": to_json(PackOptions()), "apply_graph": 1},
    )
    manifest = read_manifest(out.uri)
    assert json.loads(out.split_names) == ["eval", "train"]
    assert manifest.account.written == {"eval": 60, "train": 240}
    columns = {c["name"]: (c["storage"], tuple(c["shape"])) for c in manifest.packed["columns"]}
    assert columns["z"] == ("float32", (1,))
    assert columns["pair"] == ("float32", (2,))
    assert columns["ids"][0] == "list"


@pytest.mark.parametrize("row", [{}, {"x": [b"text"]}])
def test_a_row_that_does_not_fit_the_graph_is_placed(row, graph, tmp_path):
    folder = write_shards(tmp_path / "rows", [example(k=[b"k"], **row)], shards=1)
    with pytest.raises(DataError, match=r"data-00000-of-00001\.gz, rows 0 and on: .*: x\b"):
        pack(str(folder), tmp_path / "out", read=TransformedRows(graph))


def test_rows_that_grow_in_the_graph_come_in_smaller_batches(tmp_path, monkeypatch):
    folder = tmp_path / "Split-train"
    folder.mkdir()
    path = folder / "data_tfrecord-00000-of-00001"
    with tf.io.TFRecordWriter(str(path)) as writer:
        for _ in range(700):
            writer.write(tf.train.Example().SerializeToString())

    def widened(records):
        values = pa.array(np.zeros(len(records) * 2**18, np.float32))  # 1 MiB per row
        offsets = np.arange(len(records) + 1) * 2**18
        return pa.RecordBatch.from_arrays([pa.LargeListArray.from_arrays(offsets, values)], ["x"])

    monkeypatch.setattr(transformed, "load_transform", lambda saved_model: None)
    monkeypatch.setattr(transformed, "_loaded", lambda graph, loader: widened)
    shard = SimpleNamespace(rows=700, sha256=hash_file(str(path)).digest.hex())
    batches = transformed.TransformedRows("")(str(path), shard)
    assert [batch.num_rows for batch in batches] == [256, *[63] * 7, 3]
