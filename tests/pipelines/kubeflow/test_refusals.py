import json

import pytest
from google.protobuf import wrappers_pb2
from ml_metadata.proto import metadata_store_pb2
from tfx.components import CsvExampleGen
from tfx.dsl.component.experimental.annotations import Parameter
from tfx.dsl.component.experimental.decorators import component
from tfx.proto import example_gen_pb2
from tfx.proto.orchestration import executable_spec_pb2, pipeline_pb2

from penstock.components.errors import UsageError
from penstock.pipelines.kubeflow.placement import Placement
from penstock.pipelines.kubeflow.refusals import check_no_secrets, check_paths
from tests.pipelines.kubeflow.placements import ir_of, on


def _ir(options=None, beam_args=(), importer_uri=""):
    ir = pipeline_pb2.Pipeline()
    node = ir.nodes.add().pipeline_node
    node.node_info.id = "Query.Gen"
    for key, value in (options or {}).items():
        node.parameters.parameters[key].field_value.string_value = value
    if importer_uri:
        node.outputs.outputs["x"].artifact_spec.external_artifact_uris.append(importer_uri)
    deployment = pipeline_pb2.IntermediateDeploymentConfig()
    beam = executable_spec_pb2.BeamExecutableSpec(beam_pipeline_args=beam_args)
    deployment.executor_specs["Query.Gen"].Pack(beam)
    ir.deployment_config.Pack(deployment)
    return ir


def _refusal(ir):
    with pytest.raises(UsageError) as error:
        check_no_secrets(ir)
    return str(error.value)


# tests/components/files/test_secrets.py tests the forms of secrets; this file tests the fields in
# which they can occur.
@pytest.mark.parametrize(
    ("given", "field", "kind"),
    [
        ({"query": "SELECT 1 -- password=hunter22"}, "query: ", "the value of 'password'"),
        ({"source": "jdbc:mysql://db/x?password=hunter22"}, "source: ", "the value of 'password'"),
        ({"password": "hunter22"}, "password: ", "the value of 'password'"),
        ({"header": "Authorization: Bearer hunter22345678901"}, "header: ", "a bearer token"),
        (
            {"custom_config": json.dumps({"inner": json.dumps({"token": "hunter22"})})},
            "custom_config.inner.token: ",
            "the value of 'token'",
        ),
        (
            {"custom_config": json.dumps({"aws": [{"Api_Key": "hunter22"}]})},
            "custom_config.aws.Api_Key: ",
            "the value of 'Api_Key'",
        ),
        (["--runner=X", "--jdbc_password=hunter22"], "executor.beam_pipeline_args", "the value of"),
        (["--jdbc_password", "hunter22"], "executor.beam_pipeline_args", "the value of"),
        ("ftp://bob:hunter22@host/x", "", "a password in an address"),
    ],
)
def test_finds_a_secret_and_names_node_and_field_but_not_the_value(given, field, kind):
    places = {dict: "options", list: "beam_args", str: "importer_uri"}
    message = _refusal(_ir(**{places[type(given)]: given}))

    assert message.startswith(f"node 'Query.Gen', {field}")
    assert f"looks like {kind}" in message
    assert "hunter22" not in message


def test_finds_a_secret_in_protos_within_protos():
    config = example_gen_pb2.CustomConfig()
    config.custom_config.Pack(wrappers_pb2.StringValue(value="pwd=hunter22"))
    ir = _ir()
    parameters = ir.nodes[0].pipeline_node.parameters.parameters
    parameters["custom"].field_value.proto_value.Pack(config)

    expected = "node 'Query.Gen', custom.custom_config.value: looks like the value of 'pwd'"
    assert _refusal(ir).startswith(expected)


def test_finds_a_secret_in_the_default_of_a_runtime_parameter():
    ir = _ir()
    value = ir.nodes[0].pipeline_node.parameters.parameters["login"]
    value.runtime_parameter.name = "db-password"
    value.runtime_parameter.default_value.CopyFrom(
        metadata_store_pb2.Value(string_value="hunter22")
    )

    assert "looks like the value of 'db-password'" in _refusal(ir)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT token, password FROM users",
        "--password=<from the secret>",
        "postgresql://bob:${DB_PASSWORD}@db/x",
        json.dumps({"password": "", "secret": None, "num_tokens": 512, "pad_token": "<pad>"}),
        json.dumps({"password_env": "DB_PASSWORD", "tokenizer": "wordpiece"}),
        "an open [bracket",
    ],
)
def test_name_of_a_secret_is_accepted(text):
    check_no_secrets(_ir({"option": text}, beam_args=["--temp_location", "gs://b/t", text]))


@component
def read(path: Parameter[str]):
    del path


@pytest.fixture
def data(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "span-1").mkdir()
    return folder


def test_a_folder_of_this_machine_is_refused(data):
    expected = (
        rf"^node 'CsvExampleGen', input_base: {data} is a path of this machine, which containers "
        r"do not see; put it on the volume, into a bucket or into the pipeline's package, or name "
        r"it in the placement's image_paths if the image has it too$"
    )
    with pytest.raises(UsageError, match=expected):
        check_paths(ir_of(CsvExampleGen(input_base=str(data))), Placement(), "penstock")


@pytest.mark.parametrize(
    "text",
    [
        "{data}/span-*/x.csv",
        "{data}/span-{{SPAN}}/*",
        "file://{data}",
        "--temp_location={data}",
        "trips@{data}/span-1",
        '{{"deep": ["{data}"]}}',
    ],
)
def test_path_within_a_text_is_refused(data, text):
    with pytest.raises(UsageError, match=r"node 'read', path"):
        check_paths(ir_of(read(path=text.format(data=data))), Placement(), "penstock")


def test_path_on_the_volume_or_in_the_image_is_accepted(data):
    ir = ir_of(read(path=f"{data}/span-1"))

    check_paths(ir, on(data), "penstock")
    check_paths(ir, on(data.parent), "penstock")
    check_paths(ir, Placement(image_paths=(str(data),)), "penstock")
    with pytest.raises(UsageError):
        check_paths(ir, on(f"{data}/span"), "penstock")


@pytest.mark.parametrize(
    "text", ["/no/such/folder", "gs://bucket/data", "/", "/tmp", "SELECT a /* b */ FROM c", "a/usr"]
)
def test_path_missing_here_or_common_to_all_is_accepted(text):
    check_paths(ir_of(read(path=text)), Placement(), "penstock")


def test_path_in_a_package_is_accepted(taxi_csv):
    check_paths(ir_of(read(path=str(taxi_csv))), Placement(), "penstock")
