"""Inputs and outputs of BatchTransform compared with those of TFX's Transform, on taxi trips."""

import json
import logging
import os
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_transform as tft
from row_files import artifact
from tfx.components.transform import executor as stock
from tfx.components.util import examples_utils
from tfx.dsl.components.base.base_beam_executor import BaseBeamExecutor
from tfx.examples.chicago_taxi_pipeline import taxi_utils_native_keras
from tfx.proto import example_gen_pb2, transform_pb2
from tfx.types.standard_artifacts import Examples, Schema, TransformGraph
from tfx.utils import proto_utils

from penstock.components.batches.transform import Executor
from penstock.components.engine.options import local_beam_args
from penstock.components.tfrecord.checked import checked_manifest
from penstock.pipelines.taxi.preprocessing import preprocessing_fn

FUNCTION = "penstock.pipelines.taxi.preprocessing.preprocessing_fn"


def tfx_and_ours(inputs):
    """Outputs of the `preprocessing_fn` of TFX's taxi example and of Penstock's taxi pipeline."""
    theirs = taxi_utils_native_keras.preprocessing_fn(inputs)
    return {**preprocessing_fn(inputs), **{f"tfx_{name}": x for name, x in theirs.items()}}


@pytest.fixture(scope="module")
def do(tmp_path_factory, taxi_rows):
    """Runs an executor; returns the artifacts of the graph and of the transformed Examples."""
    schema = tmp_path_factory.mktemp("schema")
    curated = files("penstock.schemas.taxi") / "schema.pbtxt"
    (schema / "schema.pbtxt").write_text(curated.read_text())

    def run(executor, *, workers=1, spans=1, function=FUNCTION, **options):
        raw = [artifact(Examples, taxi_rows) for _ in range(spans)]
        for examples in raw:
            examples.split_names = '["train", "eval"]'
            examples_utils.set_payload_format(examples, example_gen_pb2.FORMAT_TF_EXAMPLE)
        folder = tmp_path_factory.mktemp("out")
        graph = artifact(TransformGraph, folder / "graph")
        transformed = [artifact(Examples, folder / "examples")]
        outputs = {"transform_graph": [graph], "transformed_examples": transformed}
        context = BaseBeamExecutor.Context(beam_pipeline_args=local_beam_args(workers))
        executor(context).Do(
            {"examples": raw, "schema": [artifact(Schema, schema)]},
            outputs,
            {
                "preprocessing_fn": function,
                "disable_statistics": 1,
                "custom_config": "null",
                **options,
            },
        )
        return graph, outputs["transformed_examples"]

    return run


@pytest.fixture(scope="module")
def done(do):
    """The artifacts of a run in one process."""
    return do(Executor)


def rows(graph, examples, split):
    """The transformed rows, sorted by all columns, because Beam decides the order in a shard."""
    spec = tft.TFTransformOutput(graph.uri).transformed_feature_spec()
    found = {}
    folder = f"{examples.uri}/Split-{split}"
    for name in sorted(os.listdir(folder)):
        compression = "GZIP" if name.endswith(".gz") else ""
        data = tf.data.TFRecordDataset(f"{folder}/{name}", compression).batch(10_000)
        for records in data:
            for key, value in tf.io.parse_example(records, spec).items():
                found.setdefault(key, []).append(value.numpy())
    columns = {key: np.concatenate(parts) for key, parts in found.items()}
    keys = [np.round(c.reshape(len(c), -1).T.astype(float), 3) for c in columns.values()]
    order = np.lexsort(np.concatenate(keys))
    return {key: column[order] for key, column in columns.items()}


def of_two_phases(inputs):
    fare, tips = (
        tf.sparse.to_dense(tf.SparseTensor(x.indices, x.values, [x.dense_shape[0], 1]))
        for x in (inputs["fare"], inputs["tips"])
    )
    return {"fare": tft.scale_to_z_score(tft.scale_to_0_1(fare)), "tips": tft.scale_to_0_1(tips)}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("function", "splits"), [(tfx_and_ours, ("train", "eval")), (of_two_phases, ("eval",))]
)
def test_graph_and_examples_equal_those_of_tfx(function, splits, do):
    """Analysis in two phases with TFT 1.16 needs Beam 2.62 or earlier; see docs/upstream.md."""
    path = f"{__name__}.{function.__name__}"
    (ours, [mine]), (theirs, [others]) = (
        do(executor, function=path) for executor in (Executor, stock.Executor)
    )
    assert ours.get_string_custom_property("not_in_batches") == ""
    assert sorted(json.loads(mine.split_names)) == sorted(json.loads(others.split_names))
    names = [path.relative_to(theirs.uri) for path in Path(theirs.uri).rglob("assets/*")]
    for name in ("transformed_metadata/schema.pbtxt", "metadata/schema.pbtxt", *names):
        assert Path(ours.uri, name).read_bytes() == Path(theirs.uri, name).read_bytes()
    for split in splits:
        found, wanted = rows(ours, mine, split), rows(theirs, others, split)
        assert found.keys() == wanted.keys()
        for key, values in wanted.items():
            np.testing.assert_allclose(found[key], values, rtol=1e-5, atol=1e-5, err_msg=key)


def test_transformed_examples_have_a_manifest_with_all_rows(done, taxi_rows):
    _, [transformed] = done
    manifest, raw = checked_manifest(transformed.uri), checked_manifest(taxi_rows)
    assert transformed.get_string_custom_property("manifest_sha256") == manifest.sha256
    assert {s: [x.rows for x in shards] for s, shards in manifest.splits.items()} == {
        s: [x.rows for x in shards] for s, shards in raw.splits.items()
    }


@pytest.mark.slow
def test_two_processes_give_the_bytes_of_one_and_count_all_rows(do, done, counted):
    _, [one] = done
    _, [two] = do(Executor, workers=2)
    assert checked_manifest(one.uri) == checked_manifest(two.uri)
    rows = checked_manifest(one.uri).account.read
    assert counted[-1] == (rows, rows)


def test_several_spans_are_analyzed_together_and_transformed_apart(do, taxi_rows):
    config = transform_pb2.SplitsConfig(analyze=["train", "eval"], transform=["eval"])
    _, transformed = do(Executor, spans=2, splits_config=proto_utils.proto_to_json(config))
    assert len(transformed) == 2
    counts = [checked_manifest(one.uri).account.written for one in transformed]
    [rows] = {shards.account.written["eval"] for shards in [checked_manifest(taxi_rows)]}
    assert counts == [{"eval": rows}] * 2
    assert [json.loads(one.split_names) for one in transformed] == [["eval"]] * 2


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"disable_statistics": 0}, "statistics"),
        ({"force_tf_compat_v1": 1}, "force_tf_compat_v1"),
        (
            {"function": f"{__name__}.by_information"},
            "a vocabulary by weights or mutual information",
        ),
    ],
)
def test_what_only_tft_supports_is_done_by_tfx_with_the_reason(
    options, reason, do, monkeypatch, caplog
):
    caplog.set_level(logging.INFO, logger="penstock")
    done = []
    monkeypatch.setattr(stock.Executor, "Do", lambda self, *of: done.append(of))
    graph, _ = do(Executor, **options)
    assert len(done) == 1
    assert graph.get_string_custom_property("not_in_batches") == reason
    assert f"not transformed in batches but by TFT's own pipeline: {reason}" in caplog.text


def by_information(inputs):
    label = tf.zeros([tf.cast(inputs["company"].dense_shape[0], tf.int32)], tf.int64)
    return {"c": tft.compute_and_apply_vocabulary(inputs["company"], labels=label)}
