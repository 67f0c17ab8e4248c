from pathlib import Path

import pytest
from google.protobuf import json_format
from tfx.dsl.component.experimental.annotations import Parameter
from tfx.dsl.component.experimental.decorators import component
from tfx.orchestration.data_types import RuntimeParameter
from tfx.orchestration.pipeline import Pipeline

from penstock.components.errors import DataError, UsageError
from penstock.pipelines.kubeflow import ir as irs
from penstock.pipelines.runs.metadata_store import SqliteStore
from tests.pipelines.kubeflow.placements import ir_of


@component
def count(rows: Parameter[int], share: Parameter[float] = 0.5, note: Parameter[str] = ""):
    del rows, share, note


def _count(name="a", default=7, kind=int, node_id="count"):
    return count(rows=RuntimeParameter(name, kind, default)).with_id(node_id)


def test_keeps_defaults_of_zero_which_tfx_drops():
    ir = ir_of(_count(default=0))

    parameter = irs.runtime_parameters(irs.nodes(ir))["a"]
    assert parameter.HasField("default_value")
    assert parameter.default_value.int_value == 0


def test_the_same_parameter_in_two_nodes_must_be_the_same():
    same = ir_of(_count(), _count(node_id="b"))
    assert list(irs.runtime_parameters(irs.nodes(same))) == ["a"]
    other = ir_of(_count(), _count(default=8, node_id="b"))
    with pytest.raises(UsageError, match="'a' is used with different types or defaults"):
        irs.runtime_parameters(irs.nodes(other))


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (int, "12", 12),
        (int, "9007199254740993", 9007199254740993),
        (int, "1e+06", 1000000),
        (float, "3", 3.0),
        (float, "1e-05", 1e-05),
        (str, "7", "7"),
        (str, "", ""),
    ],
)
def test_binds_parameters_by_type(kind, text, value):
    node = {int: "rows", float: "share", str: "note"}[kind]
    made = count(**{"rows": 1, node: RuntimeParameter("p", kind)})

    # `count` needs no value for this parameter of another node.
    other = count(rows=RuntimeParameter("other", int)).with_id("other")

    bound = irs.bind_parameters(ir_of(made, other), "count", {"p": text})

    assert bound == {"p": value}
    assert type(bound["p"]) is kind


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ({"a": "x"}, "parameter 'a': expected a whole number, got 'x'"),
        ({"a": "inf"}, "parameter 'a': expected a whole number, got 'inf'"),
        ({"b": "1"}, "no runtime parameter 'b'; choices: a"),
        ({}, "runtime parameter 'a' has no default and was not given"),
    ],
)
def test_wrong_parameter_is_refused(texts, message):
    with pytest.raises(UsageError) as error:
        irs.bind_parameters(ir_of(_count(default=None)), "count", texts)
    assert str(error.value) == message


def test_written_ir_reads_back_without_the_metadata_store(tmp_path: Path):
    nodes = [_count(), _count("b", node_id="other")]
    store = SqliteStore(str(tmp_path / "metadata.sqlite")).connection_config()
    ir = irs.compile_ir(Pipeline("p", "/r", components=nodes, metadata_connection_config=store))
    assert irs.deployment_config(ir).HasField("metadata_connection_config")

    irs.write_ir(ir, f"{tmp_path}/definitions/ir.pb")
    assert [file.name for file in (tmp_path / "definitions").iterdir()] == ["ir.pb"]
    decoded = irs.read_ir(f"{tmp_path}/definitions/ir.pb")

    assert list(decoded.nodes) == list(ir.nodes)
    deployment = irs.deployment_config(decoded)
    assert set(deployment.executor_specs) == {"count", "other"}
    assert not deployment.HasField("metadata_connection_config")


def test_reads_json(tmp_path: Path):
    ir = ir_of(_count())
    (tmp_path / "ir.json").write_text(json_format.MessageToJson(ir))
    assert irs.read_ir(f"{tmp_path}/ir.json") == ir


@pytest.mark.parametrize("content", [b"", b"\xff\xff", b"{not json", b'{"nobody": 1}'])
def test_file_that_is_no_ir_is_refused(tmp_path: Path, content):
    file = tmp_path / "ir"
    file.write_bytes(content)
    with pytest.raises(DataError, match=f"{file}: damaged"):
        irs.read_ir(str(file))


def test_refuses_missing_definitions_unknown_nodes_and_pipelines_within(tmp_path: Path):
    with pytest.raises(DataError, match=r"no such file; .* start a new run"):
        irs.read_ir(f"{tmp_path}/definitions/ir.pb")
    ir = ir_of(_count())
    with pytest.raises(UsageError, match="no node 'x'; choices: count"):
        irs.find_node(ir, "x")
    ir.nodes.add().sub_pipeline.pipeline_info.id = "inner"
    with pytest.raises(UsageError, match="'inner' is a pipeline within the pipeline"):
        irs.nodes(ir)
