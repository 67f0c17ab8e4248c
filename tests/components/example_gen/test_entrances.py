"""The command, the function and the TFX node run the same ingest."""

import json

import pytest
from tfx.types import standard_artifacts
from typer.testing import CliRunner

import penstock
from penstock.components.engine.options import local_beam_args
from penstock.components.example_gen.component import Executor, ShardedExampleGen
from penstock.components.example_gen.options import IngestOptions, Split, SplitOptions
from penstock.components.sources.options import Table
from penstock.components.tfrecord.sharding import ShardOptions
from penstock.pipelines.cli.main import app

OPTIONS = IngestOptions(
    ShardOptions(shards=3), "GZIP", on_bad_row="quarantine", max_quarantined_share=0.2
)
SPLITS = SplitOptions((Split("train", 3), Split("eval", 1)), partition_feature="city")
SOURCE = Table(delimiter=";")


def by_command(data, out):
    flags = [
        *("--split", "train=3", "--split", "eval=1", "--partition-feature", "city"),
        *("--delimiter", ";", "--shards", "3", "--compression", "GZIP"),
        *("--on-bad-row", "quarantine", "--max-quarantined-share", "0.2", "--workers", "2"),
    ]
    done = CliRunner().invoke(app, ["ingest", str(data / "*.csv"), str(out), *flags])
    assert done.exit_code == 0, done.output


def by_function(data, out):
    source, pattern = SOURCE, str(data / "*.csv")
    penstock.ingest(pattern, out, source=source, splits=SPLITS, options=OPTIONS)


def by_node(data, out):
    output = {
        "split_config": {
            "splits": [{"name": s.name, "hash_buckets": s.hash_buckets} for s in SPLITS.splits],
            "partition_feature_name": "city",
        }
    }
    node = ShardedExampleGen(str(data), source=SOURCE, ingest=OPTIONS)
    properties = {
        **node.exec_properties,
        "input_config": json.dumps({"splits": [{"name": "all", "pattern": "*.csv"}]}),
        "output_config": json.dumps(output),
    }
    examples = standard_artifacts.Examples()
    examples.uri = str(out)
    context = Executor.Context(beam_pipeline_args=local_beam_args())
    Executor(context).Do({}, {"examples": [examples]}, properties)


@pytest.fixture
def data(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    for at in range(2):
        rows = (f"{i};{'x' if i == 7 else i / 4};city {i % 5}\n" for i in range(at, 90, 2))
        (folder / f"{at}.csv").write_text("id;fare;city\n" + "".join(rows))
    return folder


def test_all_entrances_write_the_same_manifest(data, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = {}
    for entrance in (by_command, by_function, by_node):
        out = tmp_path / entrance.__name__
        entrance(data, out)
        found[entrance.__name__] = (out / "manifest.json").read_bytes()
    assert len(set(found.values())) == 1, found
    manifest = json.loads(found["by_node"])
    assert manifest["account"]["quarantined"] == 1
    assert len(manifest["splits"]["train"]) == 3
