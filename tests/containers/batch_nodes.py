"""Runs statistics, analysis and packing in process and on an engine; prints digests of their files.

python batch_nodes.py CSV FOLDER BEAM_ARGUMENT...
"""

import hashlib
import json
import sys
from importlib.resources import as_file, files
from pathlib import Path

from tfx.orchestration.local.local_dag_runner import LocalDagRunner
from tfx.orchestration.metadata import sqlite_metadata_connection_config
from tfx.orchestration.pipeline import Pipeline

from penstock import nodes
from penstock.components.example_gen.options import IngestOptions
from penstock.components.sources.options import Table
from penstock.components.tfrecord.sharding import ShardOptions


def run(data, root, schema, beam_args):
    """Runs the nodes; returns the digest of each file except those of the graph itself."""
    rows = nodes.ShardedExampleGen(
        data,
        source=Table(schema_file=str(schema)),
        ingest=IngestOptions(shards=ShardOptions(shards=2)),
    ).with_beam_pipeline_args(nodes.local_beam_args())
    examples = rows.outputs["examples"]
    curated = nodes.CuratedSchema(str(schema))
    transform = nodes.BatchTransform(
        examples,
        curated.outputs["schema"],
        preprocessing_fn="penstock.pipelines.taxi.preprocessing.preprocessing_fn",
        materialize=False,
    )
    graph = transform.outputs["transform_graph"]
    components = [
        rows,
        nodes.BatchStatisticsGen(examples),
        curated,
        transform,
        nodes.Pack(examples, transform_graph=graph, apply_graph=True),
    ]
    root.mkdir()
    metadata = sqlite_metadata_connection_config(str(root / "metadata.sqlite"))
    LocalDagRunner().run(
        Pipeline("nodes", str(root), metadata, components, beam_pipeline_args=beam_args)
    )
    written = (*root.rglob("Split-*/*"), *root.rglob("assets/*"), *root.rglob("*.pbtxt"))
    return {
        "/".join(file.relative_to(root).parts): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in written
    }


data, folder, *beam_args = sys.argv[1:]
with as_file(files("penstock.schemas.taxi") / "schema.pbtxt") as schema:
    found = [
        run(data, Path(folder) / name, schema, args)
        for name, args in (("here", nodes.local_beam_args()), ("engine", beam_args))
    ]
print(json.dumps(found))
