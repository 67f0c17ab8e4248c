"""The spans that each run of a schedule reads: one compiled node runs again as new days arrive."""

import pytest
from tfx.orchestration.pipeline import Pipeline
from tfx.proto import example_gen_pb2

from penstock.components.engine.options import local_beam_args
from penstock.components.example_gen.component import ShardedExampleGen
from penstock.pipelines.kubeflow import ir as irs
from penstock.pipelines.kubeflow.node import launch_node
from penstock.pipelines.kubeflow.notify import notify
from penstock.pipelines.runs.launch import State
from penstock.pipelines.runs.metadata_store import SqliteStore
from penstock.pipelines.terminal.failures import NodeFailedError

pytestmark = pytest.mark.slow


def test_run_reads_newest_day_or_is_served_from_cache(tmp_path):
    def add(day, rows):
        folder = tmp_path / "data" / day
        folder.mkdir(parents=True)
        lines = [f"{day.replace('-', '')},{number}" for number in range(rows)]
        (folder / "trips.csv").write_text("\n".join(["day,number", *lines]))

    def run(run_id):
        result = launch_node(
            ir,
            "ShardedExampleGen",
            run_id=run_id,
            store=SqliteStore(str(tmp_path / "metadata.sqlite")),
            pipeline_root=str(tmp_path / "root"),
        )
        (examples,) = result.outputs["examples"]
        return result.state, examples.get_int_custom_property("span")

    add("2026-11-20", 30)
    split = {"name": "all", "pattern": "{YYYY}-{MM}-{DD}/*.csv"}
    node = ShardedExampleGen(
        str(tmp_path / "data"), input_config=example_gen_pb2.Input(splits=[split])
    ).with_beam_pipeline_args(local_beam_args(1))
    ir = irs.compile_ir(Pipeline("p", str(tmp_path / "x"), components=[node], enable_cache=True))
    first = 20777  # the span: days from 1970-01-01 to 2026-11-20
    assert run("night-1") == (State.DONE, first)
    assert run("night-2") == (State.CACHED, first)
    add("2026-11-22", 40)
    assert run("night-3") == (State.DONE, first + 2)
    assert run("night-4") == (State.CACHED, first + 2)


def test_node_whose_driver_fails_is_failed_and_its_message_says_why(tmp_path, monkeypatch):
    store = SqliteStore(str(tmp_path / "metadata.sqlite"))
    node = ShardedExampleGen(str(tmp_path / "none")).with_beam_pipeline_args(local_beam_args(1))
    ir = irs.compile_ir(Pipeline("p", str(tmp_path / "x"), components=[node]))
    with pytest.raises(NodeFailedError, match="no data file matches"):
        launch_node(ir, "ShardedExampleGen", run_id="r1", store=store)

    asked = {"pipeline": "p", "nodes": [], "link": "", "executor_input": None}
    monkeypatch.setenv("PENSTOCK_WEBHOOK", "http://hook.example")
    monkeypatch.setattr("penstock.pipelines.kubeflow.notify._post", lambda *sent: None)
    line = notify(store, "r1", **asked)
    assert line.startswith(f"p: Failed. ShardedExampleGen: {tmp_path}/none/*: no data file")
