"""Events of a real pipeline of two nodes, written and sent by OpenLineage's own client."""

import json
import logging
import sys

import pytest
from shared_runs import Record, small_pipeline
from tfx.dsl.component.experimental.annotations import InputArtifact, Parameter
from tfx.dsl.component.experimental.decorators import component
from tfx.dsl.components.common.resolver import Resolver
from tfx.dsl.input_resolution.strategies.latest_artifact_strategy import LatestArtifactStrategy
from tfx.types.channel import Channel
from tfx.types.standard_artifacts import Examples

from penstock.components.errors import DataError, UsageError
from penstock.components.example_gen.component import ShardedExampleGen
from penstock.pipelines.blocks.config import LineageOptions
from penstock.pipelines.local.runner import run_locally
from penstock.pipelines.runs import lineage
from penstock.pipelines.terminal.failures import NodeFailedError


@component
def Look(examples: InputArtifact[Examples], fault: Parameter[str]):  # noqa: N802
    if fault:
        raise DataError("postgresql://me:secret@db/x: no answer")


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A function that runs the pipeline with environment variables, and returns the events."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data/trips.csv").write_text("fare,paid\n" + "1.5,cash\n" * 30)
    monkeypatch.setattr(lineage._Events, "_is_silent", False)
    events = tmp_path / "events.jsonl"

    def run(fault="", variables=None):
        for name, value in (variables or LineageOptions(file=str(events)).variables).items():
            monkeypatch.setenv(name, value)
        gen = ShardedExampleGen(str(tmp_path / "data"))
        look = Look(examples=gen.outputs["examples"], fault=fault)
        try:
            run_locally(small_pipeline("trips", tmp_path / "root", gen, look), Record())
        except NodeFailedError:
            assert fault
        lines = events.read_text().splitlines() if events.exists() else ()
        return [json.loads(line) for line in lines]

    return run


def test_events_name_data_with_rows_schema_and_digest(run, tmp_path):
    found = run()
    assert [(one["job"]["name"], one["eventType"]) for one in found] == [
        ("trips.ShardedExampleGen", "START"),
        ("trips.ShardedExampleGen", "COMPLETE"),
        ("trips.Look", "START"),
        ("trips.Look", "COMPLETE"),
    ]
    _, read, _, looked = found
    assert {one["run"]["facets"]["parent"]["job"]["name"] for one in found} == {"trips"}
    assert len({one["run"]["facets"]["parent"]["run"]["runId"] for one in found}) == 1
    [source] = read["inputs"]
    assert (source["namespace"], source["name"]) == ("file", str(tmp_path / "data"))
    [examples] = read["outputs"]
    assert examples["outputFacets"]["outputStatistics"]["rowCount"] == 30
    assert [(f["name"], f["type"]) for f in examples["facets"]["schema"]["fields"]] == [
        ("fare", "float"), ("paid", "bytes"),
    ]  # fmt: skip
    [seen] = looked["inputs"]
    assert seen["name"] == examples["name"]
    assert seen["facets"]["version"] == examples["facets"]["version"]


def test_failed_node_says_why_without_secrets(run):
    *_, last = run("yes")
    assert (last["job"]["name"], last["eventType"]) == ("trips.Look", "FAIL")
    message = last["run"]["facets"]["errorMessage"]["message"]
    assert "no answer" in message
    assert "secret@" not in message


def test_node_that_finds_no_input_fails(tmp_path, monkeypatch):
    monkeypatch.setattr(lineage._Events, "_is_silent", False)
    for name, value in LineageOptions(file=str(tmp_path / "events")).variables.items():
        monkeypatch.setenv(name, value)
    earlier = Resolver(strategy_class=LatestArtifactStrategy, examples=Channel(type=Examples))
    look = Look(examples=earlier.outputs["examples"], fault="")
    with pytest.raises(NodeFailedError, match="'Resolver' failed"):
        run_locally(small_pipeline("trips", tmp_path / "root", earlier, look), Record())
    last = json.loads((tmp_path / "events").read_text().splitlines()[-1])
    assert (last["job"]["name"], last["eventType"]) == ("trips.Resolver", "FAIL")


def test_a_server_that_does_not_answer_is_one_warning(run, caplog, monkeypatch):
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__RETRY__TOTAL", "0")
    with caplog.at_level(logging.WARNING, logger=lineage.logger.name):
        assert run(variables={"OPENLINEAGE_URL": "http://127.0.0.1:9"}) == []
    assert len([one for one in caplog.messages if "no OpenLineage events are sent" in one]) == 1


def test_a_client_that_is_not_installed_is_one_warning(run, caplog, monkeypatch):
    monkeypatch.setitem(sys.modules, "openlineage.client", None)
    with caplog.at_level(logging.WARNING, logger=lineage.logger.name):
        assert run() == []
    assert len([one for one in caplog.messages if "no OpenLineage events are sent" in one]) == 1


def test_url_and_file_exclude_each_other():
    with pytest.raises(UsageError, match="set url or file, not both"):
        LineageOptions(url="http://x", file="y.jsonl")
