import gzip
from pathlib import Path

import pytest
from google.protobuf import json_format
from tfx.dsl.component.experimental.annotations import Parameter
from tfx.dsl.component.experimental.decorators import component
from tfx.orchestration.data_types import RuntimeParameter
from tfx.orchestration.pipeline import Pipeline

from penstock.components.errors import DataError, UsageError
from penstock.pipelines.kubeflow import ir as irs


@component
def count(rows: Parameter[int], share: Parameter[float] = 0.5, note: Parameter[str] = ""):
    del rows, share, note


def _compile(*counts):
    pipeline = Pipeline("counts", "/root", components=list(counts))
    return irs.compile_ir(pipeline)


def _count(name="a", default=7, kind=int, node_id="count"):
    return count(rows=RuntimeParameter(name, kind, default)).with_id(node_id)


def test_keeps_defaults_of_zero_which_tfx_drops():
    ir = _compile(_count(default=0))

    parameter = irs.runtime_parameters(ir)["a"]
    assert parameter.HasField("default_value")
    assert parameter.default_value.int_value == 0


def test_the_same_parameter_in_two_nodes_must_be_the_same():
    assert list(irs.runtime_parameters(_compile(_count(), _count(node_id="b")))) == ["a"]
    with pytest.raises(UsageError, match="'a' is used with different types or defaults"):
        irs.runtime_parameters(_compile(_count(), _count(default=8, node_id="b")))


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

    bound = irs.bind_parameters(_compile(made), "count", {"p": text})

    assert bound == {"p": value}
    assert type(bound["p"]) is kind


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ({"a": "x"}, "runtime parameter 'a': expected a whole number, got 'x'"),
        ({"a": "inf"}, "runtime parameter 'a': expected a whole number, got 'inf'"),
        ({"b": "1"}, "no runtime parameter 'b'; choices: a"),
        ({}, "runtime parameter 'a' has no default and was not given"),
    ],
)
def test_refuses_parameters_that_do_not_fit(texts, message):
    with pytest.raises(UsageError) as error:
        irs.bind_parameters(_compile(_count(default=None)), "count", texts)
    assert str(error.value) == message


def test_a_node_needs_only_its_own_parameters():
    ir = _compile(_count("a", None), _count("b", None, node_id="other"))

    assert irs.bind_parameters(ir, "count", {"a": "1"}) == {"a": 1}


def test_a_cut_pipeline_has_one_node_its_executor_and_no_metadata_store():
    ir = _compile(_count(), _count("b", node_id="other"))

    cut = irs.cut_to_node(ir, "other")

    assert [node.node_info.id for node in irs.nodes(cut)] == ["other"]
    assert list(irs.deployment_config(cut).executor_specs) == ["other"]
    assert not irs.deployment_config(cut).HasField("metadata_connection_config")
    assert cut.pipeline_info == ir.pipeline_info
    assert irs.decode(irs.encode(cut)) == cut


@pytest.mark.parametrize("text", ["", "x", "AAAA", "%%%"])
def test_refuses_a_damaged_argument(text):
    with pytest.raises(DataError, match="the pipeline in the arguments is damaged"):
        irs.decode(text)


def test_refuses_a_cut_argument():
    text = irs.encode(_compile(_count()))
    with pytest.raises(DataError, match="the pipeline in the arguments is damaged"):
        irs.decode(text[: len(text) // 2])


def test_reads_files_of_all_forms(tmp_path: Path):
    ir = _compile(_count())
    forms = {
        "ir.pb": ir.SerializeToString(),
        "ir.pb.gz": gzip.compress(ir.SerializeToString()),
        "ir.json": json_format.MessageToJson(ir).encode(),
    }
    for name, content in forms.items():
        (tmp_path / name).write_bytes(content)
        assert irs.read_ir(tmp_path / name) == ir


@pytest.mark.parametrize("content", [b"", b"\xff\xff", b"{not json", b'{"nobody": 1}'])
def test_refuses_files_that_are_no_ir(tmp_path: Path, content):
    file = tmp_path / "ir"
    file.write_bytes(content)
    with pytest.raises(DataError, match=str(file)):
        irs.read_ir(file)


def test_refuses_unknown_nodes_and_pipelines_within():
    ir = _compile(_count())
    with pytest.raises(UsageError, match="no node 'x'; choices: count"):
        irs.find_node(ir, "x")
    ir.nodes.add().sub_pipeline.pipeline_info.id = "inner"
    with pytest.raises(UsageError, match="'inner' is a pipeline within the pipeline"):
        irs.nodes(ir)
