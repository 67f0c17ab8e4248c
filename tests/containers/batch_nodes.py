"""Runs the batch nodes in this process and on an engine; prints digests of their outputs.

python batch_nodes.py CSV FOLDER BEAM_ARGUMENT...
"""

import hashlib
import json
import sys
from importlib.resources import as_file, files
from pathlib import Path

import tensorflow as tf
from google.protobuf import text_format
from tensorflow_model_analysis.proto import config_pb2
from tfx.dsl.components.common.importer import Importer
from tfx.orchestration.local.local_dag_runner import LocalDagRunner
from tfx.orchestration.metadata import sqlite_metadata_connection_config
from tfx.orchestration.pipeline import Pipeline
from tfx.types.standard_artifacts import Model

from penstock import nodes
from penstock.components.engine.options import local_beam_args
from penstock.components.example_gen.options import IngestOptions
from penstock.components.sources.options import Table
from penstock.components.tfrecord.sharding import ShardOptions

METRICS = """
model_specs {signature_name: "miles" label_key: "trip_miles"}
slicing_specs {} slicing_specs {feature_keys: "payment_type"}
metrics_specs {metrics {class_name: "ExampleCount"} metrics {class_name: "MeanSquaredError"}}
"""


def save_model(folder):
    spec = {"trip_seconds": tf.io.FixedLenFeature([], tf.int64, 0)}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "examples")])
    def miles(examples):
        seconds = tf.io.parse_example(examples, spec)["trip_seconds"]
        return {"outputs": tf.cast(seconds, tf.float32)[:, None] / 200}

    tf.saved_model.save(tf.Module(), str(folder / "Format-Serving"), signatures={"miles": miles})
    return str(folder)


def run(data, root, schema, beam_args):
    """Runs the nodes; returns the digests of shards, assets, `.pbtxt` and `.tfrecord` files."""
    rows = nodes.ShardedExampleGen(
        data,
        source=Table(schema_file=str(schema)),
        ingest=IngestOptions(shards=ShardOptions(shards=2)),
    ).with_beam_pipeline_args(local_beam_args())
    examples = rows.outputs["examples"]
    curated = nodes.CuratedSchema(str(schema))
    transform = nodes.BatchTransform(
        examples,
        curated.outputs["schema"],
        preprocessing_fn="penstock.pipelines.taxi.preprocessing.preprocessing_fn",
        materialize=False,
    )
    graph = transform.outputs["transform_graph"]
    root.mkdir()
    model = Importer(source_uri=save_model(root / "model"), artifact_type=Model)
    evaluator = nodes.BatchEvaluator(
        examples=examples,
        model=model.outputs["result"],
        eval_config=text_format.Parse(METRICS, config_pb2.EvalConfig()),
    )
    components = [
        rows,
        nodes.BatchStatisticsGen(examples),
        curated,
        transform,
        nodes.Pack(examples, transform_graph=graph, apply_graph=True),
        model,
        evaluator,
    ]
    metadata = sqlite_metadata_connection_config(str(root / "metadata.sqlite"))
    LocalDagRunner().run(
        Pipeline("nodes", str(root), metadata, components, beam_pipeline_args=beam_args)
    )
    patterns = ("Split-*/*", "assets/*", "*.pbtxt", "*.tfrecord")
    written = [file for pattern in patterns for file in root.rglob(pattern)]
    return {
        "/".join(file.relative_to(root).parts): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in written
    }


data, folder, *beam_args = sys.argv[1:]
with as_file(files("penstock.schemas.taxi") / "schema.pbtxt") as schema:
    found = [
        run(data, Path(folder) / name, schema, args)
        for name, args in (("here", local_beam_args()), ("engine", beam_args))
    ]
print(json.dumps(found))
