"""Damaged Examples and pushed models in runs of small nodes.

A node that reads Examples reads all files of a split, as TFX's nodes do.
"""

import os
import shutil
import sqlite3
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from shared_runs import run_nodes, small_pipeline
from tfx.dsl.compiler.compiler import Compiler
from tfx.dsl.component.experimental.annotations import InputArtifact, OutputArtifact, Parameter
from tfx.dsl.component.experimental.decorators import component
from tfx.proto import pusher_pb2
from tfx.types.standard_artifacts import Examples, Model

from penstock.components.errors import PenstockError
from penstock.components.example_gen.ingest import ingest
from penstock.components.example_gen.options import IngestInput, IngestOptions, Split, SplitOptions
from penstock.components.gates import pusher
from penstock.components.gates.pusher import Pusher
from penstock.components.tfrecord.manifest import MANIFEST_PROPERTY, read_manifest
from penstock.components.tfrecord.sharding import ShardOptions
from penstock.pipelines.kubeflow.node import launch_node
from penstock.pipelines.local.runner import NodeFailedError
from penstock.pipelines.runs.launch import State
from penstock.pipelines.runs.metadata_store import SqliteStore, open_store
from penstock.pipelines.runs.run_record import all_runs

pytestmark = pytest.mark.slow

DAY_SECONDS = 24 * 3600
SHARD = "Split-train/data_tfrecord-00001-of-00002"


@component
def Write(examples: OutputArtifact[Examples], source: Parameter[str]):  # noqa: N802
    shutil.copytree(source, examples.uri, dirs_exist_ok=True)
    examples.set_string_custom_property(MANIFEST_PROPERTY, read_manifest(source).sha256)


@component
def Damage(examples: InputArtifact[Examples], how: Parameter[str], done: OutputArtifact[Model]):  # noqa: N802
    shard = Path(examples.uri, SHARD)
    if how == "move":
        shard.unlink()
    if how == "alter":
        shard.write_bytes(shard.read_bytes()[::-1])
    Path(done.uri, "done").touch()


@component
def Read(  # noqa: N802
    examples: InputArtifact[Examples], done: InputArtifact[Model], rows: OutputArtifact[Model]
):
    files = sorted(Path(examples.uri).glob("Split-*/*"))
    Path(rows.uri, "files").write_text(str(len(files)))


@pytest.fixture
def artifact(tmp_path):
    """Examples with two shards of train, made by an ingest."""
    (tmp_path / "a.csv").write_text("id\n" + "".join(f"{i}\n" for i in range(20)))
    options = IngestOptions(shards=ShardOptions(shards=2))
    job = IngestInput(str(tmp_path / "a.csv"), splits=SplitOptions((Split("train"),)))
    ingest([job], tmp_path / "examples", options)
    return tmp_path / "examples"


def small(artifact, how=""):
    write = Write(source=str(artifact))
    damage = Damage(examples=write.outputs["examples"], how=how)
    read = Read(examples=write.outputs["examples"], done=damage.outputs["done"])
    return write, damage, read


def run(root, artifact, how=""):
    return run_nodes("small", root, *small(artifact, how))


DONE = dict.fromkeys(("Write", "Damage", "Read"), "done")
CACHED = dict.fromkeys(DONE, "cached")


@pytest.mark.parametrize(
    ("how", "text"),
    [
        ("move", "shard is missing; the manifest lists it with 8 rows; restore it, or run"),
        ("alter", r"sha256 .*, the manifest says .*; the content was altered, write it again;"),
    ],
)
def test_a_node_does_not_read_a_damaged_input(tmp_path, artifact, how, text):
    with pytest.raises(NodeFailedError, match=rf"^node 'Read' failed: /.*{SHARD}: {text}"):
        run(tmp_path, artifact, how)
    assert run(tmp_path, artifact) == {**DONE}


def test_a_node_by_itself_does_not_read_a_damaged_input(tmp_path, artifact):
    ir = Compiler().compile(small_pipeline("small", tmp_path, *small(artifact, "move")))
    store = SqliteStore(str(tmp_path / "metadata.sqlite"))
    for node in ("Write", "Damage"):
        assert launch_node(ir, node, run_id="1", store=store).state is State.DONE
    text = f"^node 'Read' failed: /.*/{SHARD}: shard is missing; the manifest lists it with 8 rows"
    with pytest.raises(PenstockError, match=text):
        launch_node(ir, "Read", run_id="1", store=store)
    # In the next run, Write does not come from the cache, because its output is damaged.
    assert launch_node(ir, "Write", run_id="2", store=store).state is State.DONE


@pytest.mark.parametrize("how", ["move", "alter", "add", "no manifest", "another manifest"])
def test_the_cache_does_not_serve_damaged_examples(tmp_path, artifact, how):
    assert run(tmp_path, artifact) == DONE
    assert run(tmp_path, artifact) == CACHED
    [written] = (tmp_path / "pipeline/Write/examples").iterdir()
    if how == "move":
        (written / SHARD).rename(tmp_path / "elsewhere")
    elif how == "alter":
        (written / SHARD).write_bytes((artifact / SHARD).read_bytes()[::-1])
    elif how == "no manifest":
        (written / "manifest.json").unlink()
    elif how == "another manifest":
        text = (written / "manifest.json").read_text()
        (written / "manifest.json").write_text(text.replace('"csv"', '"sql"'))
    else:
        shutil.copy(artifact / SHARD, written / "Split-train/data_tfrecord-00000-of-00003")
    assert run(tmp_path, artifact) == DONE
    assert run(tmp_path, artifact) == CACHED


@component
def Make(words: Parameter[str], model: OutputArtifact[Model]):  # noqa: N802
    folder = Path(model.uri, "Format-Serving")
    folder.mkdir()
    (folder / "saved_model.pb").write_text(words)


def push(root, words):
    """Runs a Pusher; returns its state, the model that a server loads, and this model's folder."""
    make = Make(words=words)
    destination = pusher_pb2.PushDestination.Filesystem(base_directory=str(root / "serving"))
    node = Pusher(
        model=make.outputs["model"],
        push_destination=pusher_pb2.PushDestination(filesystem=destination),
    )
    ended = run_nodes("push", root, make, node)
    newest = max((root / "serving").iterdir(), key=lambda version: int(version.name))
    return ended["Pusher"], (newest / "saved_model.pb").read_text(), newest


def test_the_model_pushed_last_is_the_one_that_is_served(tmp_path):
    assert [push(tmp_path, words)[:2] for words in ("A", "B", "A", "B", "B")] == [
        ("done", "A"), ("done", "B"), ("done", "A"), ("done", "B"), ("cached", "B"),
    ]  # fmt: skip


def test_a_clock_that_goes_back_a_day_changes_nothing(tmp_path, monkeypatch):
    """The first pushes are dated tomorrow, as if the clock went back a day after them."""
    now = time.time()
    with monkeypatch.context() as tomorrow:
        tomorrow.setattr(pusher, "time", SimpleNamespace(time=lambda: now + DAY_SECONDS))
        assert [push(tmp_path, words)[:2] for words in "AB"] == [("done", "A"), ("done", "B")]
    with sqlite3.connect(tmp_path / "metadata.sqlite") as store:
        for table in ("Execution", "Context"):  # not Artifact: its times are in TFX's cache keys
            for moment in ("create_time_since_epoch", "last_update_time_since_epoch"):
                store.execute(f"update {table} set {moment} = {moment} + {1000 * DAY_SECONDS}")
    store.close()
    for path in tmp_path.rglob("*"):
        os.utime(path, (now + DAY_SECONDS,) * 2)
    assert [push(tmp_path, words)[:2] for words in "BABB"] == [
        ("cached", "B"), ("done", "A"), ("done", "B"), ("done", "B"),
    ]  # fmt: skip
    # For the last Pusher, TFX's cache has the push of B that is dated tomorrow, but the served
    # model is from a later push, so this Pusher ran. It found B already pushed, so there are only
    # four versions.
    versions = sorted(int(version.name) for version in (tmp_path / "serving").iterdir())
    assert versions == list(range(versions[0], versions[0] + 4))
    with open_store(SqliteStore(str(tmp_path / "metadata.sqlite"))) as handle:
        runs = [run.run_id for run in all_runs(handle.store)]
        assert runs[0] == max(runs)


@pytest.mark.parametrize(
    "damage", [shutil.rmtree, lambda version: (version / "saved_model.pb").write_text("half")]
)
def test_a_pushed_model_that_is_gone_or_altered_is_pushed_again(tmp_path, damage):
    _, _, version = push(tmp_path, "A")
    (tmp_path / "serving/1").mkdir()
    (tmp_path / "serving/1/saved_model.pb").write_text("older")
    assert push(tmp_path, "A")[0] == "cached"
    damage(version)
    assert push(tmp_path, "A")[:2] == ("done", "A")
    assert push(tmp_path, "A")[0] == "cached"
