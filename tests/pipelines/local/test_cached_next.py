"""What a run that just ended notes, by runs in this process."""

import logging
import os
from dataclasses import replace
from pathlib import Path

import pytest
from tfx.dsl.component.experimental.annotations import InputArtifact, OutputArtifact
from tfx.dsl.component.experimental.decorators import component
from tfx.dsl.components.common.importer import Importer
from tfx.dsl.components.common.resolver import Resolver
from tfx.dsl.input_resolution.strategies.latest_artifact_strategy import LatestArtifactStrategy
from tfx.orchestration.metadata import sqlite_metadata_connection_config
from tfx.orchestration.pipeline import Pipeline
from tfx.proto import example_gen_pb2
from tfx.types import Channel
from tfx.types.standard_artifacts import Examples, Model, Schema

from penstock.components.example_gen.component import ShardedExampleGen
from penstock.pipelines.config.made_from import MadeFrom
from penstock.pipelines.local import cached_next
from penstock.pipelines.local.cached_next import keep_if_cached_next
from penstock.pipelines.local.runner import run_locally
from penstock.pipelines.runs.metadata_store import SqliteStore, open_store
from penstock.pipelines.runs.summary import collect
from penstock.pipelines.runs.unchanged import find_unchanged
from penstock.pipelines.terminal.progress import Progress

SETTLED = MadeFrom(is_settled=True)


@component
def Train(examples: InputArtifact[Examples], model: OutputArtifact[Model]):  # noqa: N802
    Path(model.uri, "model").write_text("a model")


@pytest.fixture
def run(tmp_path, caplog, monkeypatch):
    """Runs a pipeline; what was noted, and in doubt why not."""
    # Penstock's own may have been edited, or checked out, just before the tests began.
    monkeypatch.setattr(cached_next, "module_files", list)
    (tmp_path / "data").mkdir()
    (tmp_path / "data/a.csv").write_text("id\n" + "1\n2\n3\n" * 20)

    def run(*more, name="small", pattern="*", enable_cache=True, made=SETTLED):
        split = example_gen_pb2.Input.Split(name="all", pattern=pattern)
        generate = ShardedExampleGen(
            str(tmp_path / "data"), input_config=example_gen_pb2.Input(splits=[split])
        )
        for node in more:
            generate.add_upstream_node(node)
        train = Train(examples=generate.outputs["examples"])
        pipeline = Pipeline(
            pipeline_name=name,
            pipeline_root=str(tmp_path / "pipeline"),
            components=[*more, generate, train],
            enable_cache=enable_cache,
            metadata_connection_config=sqlite_metadata_connection_config(
                str(tmp_path / "metadata.sqlite")
            ),
        )
        caplog.clear()
        run_locally(pipeline, Progress())
        with (
            open_store(SqliteStore(str(tmp_path / "metadata.sqlite"))) as handle,
            caplog.at_level(logging.WARNING, "penstock"),
        ):
            summary = replace(collect(handle.store, name), report=str(tmp_path / "data/a.csv"))
            keep_if_cached_next("abc", made, pipeline, handle, summary, tmp_path)
        doubts = [text for text in caplog.messages if "made in full" in text]
        return find_unchanged("abc", str(tmp_path)), "".join(doubts)

    return run


def test_what_a_run_rested_on_is_noted(tmp_path, run):
    kept, _ = run()
    assert kept.nodes == ["ShardedExampleGen", "Train"]
    assert "ShardedExampleGen cached, Train cached" in kept.text
    noted = {str(Path(file).relative_to(tmp_path)) for file in kept.states if str(tmp_path) in file}
    assert noted == {
        "metadata.sqlite",
        "data/a.csv",
        "pipeline/ShardedExampleGen/examples/1",
        "pipeline/Train/model/2",
    }
    shards = kept.states[str(tmp_path / "pipeline/ShardedExampleGen/examples/1")]
    assert {"Split-train", "Split-eval", "manifest.json"} <= shards.keys()

    (tmp_path / "data/a.csv").write_text("id\n" + "1\n2\n4\n" * 20)
    assert find_unchanged("abc", str(tmp_path)) is None
    again, _ = run()
    assert again.run_id > kept.run_id


def test_a_damaged_shard_is_seen_whatever_its_time_says(tmp_path, run):
    kept, _ = run()
    shard = next(tmp_path.glob("pipeline/ShardedExampleGen/examples/1/Split-train/*"))
    content, times = shard.read_bytes(), shard.stat()
    shard.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    os.utime(shard, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert find_unchanged("abc", str(tmp_path)) is None
    again, _ = run()
    assert again.states.keys() - kept.states.keys() == {
        str(tmp_path / "pipeline/ShardedExampleGen/examples/3"),
        str(tmp_path / "pipeline/Train/model/4"),
    }


def test_another_pipeline_in_the_same_root_is_a_change(tmp_path, run):
    assert run()[0]
    kept = (tmp_path / "unchanged.json").read_bytes()
    run(name="other")
    (tmp_path / "unchanged.json").write_bytes(kept)
    assert find_unchanged("abc", str(tmp_path)) is None


def latest_model():
    models = Channel(type=Model)
    return Resolver(strategy_class=LatestArtifactStrategy, model=models).with_id("Latest")


def schema_importer(folder):
    return Importer(source_uri=str(folder), artifact_type=Schema).with_id("Schema")


@pytest.mark.parametrize(
    ("options", "doubt"),
    [
        ({"enable_cache": False}, "ShardedExampleGen takes nothing from the cache"),
        ({"made": MadeFrom()}, "the pipeline's modules may look at more than files"),
        (
            {"made": MadeFrom(files={"{tmp_path}/data/a.csv"}, is_settled=True)},
            "edited since the run began: {tmp_path}/data/a.csv",
        ),
    ],
)
def test_what_is_in_doubt_is_not_noted(tmp_path, run, options, doubt):
    made = options.get("made", SETTLED)
    files = {file.format(tmp_path=tmp_path) for file in made.files}
    kept, why = run(**{**options, "made": replace(made, files=files)})
    assert kept is None
    assert why.endswith(f": {doubt.format(tmp_path=tmp_path)}")


def test_nodes_that_look_by_themselves_are_in_doubt(tmp_path, run):
    kept, why = run(schema_importer(tmp_path))
    assert kept is None
    assert why.endswith("Schema looks for its input by itself")


def test_a_resolver_must_give_what_it_gave(tmp_path, run):
    run()
    (tmp_path / "data/a.csv").write_text("id\n" + "1\n2\n4\n" * 20)
    kept, why = run(latest_model())
    assert kept is None
    assert why.endswith("Latest would now be given other artifacts")
    kept, _ = run(latest_model())
    assert kept.nodes == ["Latest", "ShardedExampleGen", "Train"]


def test_a_span_is_looked_for_in_the_ordinary_way(tmp_path, run):
    (tmp_path / "data/1").mkdir()
    (tmp_path / "data/a.csv").rename(tmp_path / "data/1/a.csv")
    kept, why = run(pattern="{SPAN}/*")
    assert kept is None
    assert why.endswith("ShardedExampleGen looks for the newest span")
