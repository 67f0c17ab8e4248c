"""Compiled files compared with the protos of several releases of Kubeflow Pipelines.

`protos/kfp-VERSION.pb.xz` has the descriptors that protoc makes from two files of
kubeflow/pipelines at the tag of that version: api/v2alpha1/pipeline_spec.proto and
kubernetes_platform/proto/kubernetes_executor_config.proto.

KFP's API server refuses a pipeline spec with an unknown field (template/v2_template.go); its driver
ignores an unknown field in the platform spec (common/util/json.go).
"""

import lzma
from pathlib import Path

import pytest
from google.protobuf import (
    any_pb2,
    descriptor_pb2,
    descriptor_pool,
    duration_pb2,
    json_format,
    message_factory,
    struct_pb2,
)
from tfx.components.statistics_gen.component import StatisticsGen
from tfx.dsl.component.experimental.annotations import Parameter as Argument
from tfx.dsl.component.experimental.decorators import component
from tfx.dsl.components.common.importer import Importer
from tfx.orchestration.data_types import RuntimeParameter
from tfx.types.standard_artifacts import Examples

from penstock.pipelines.kubeflow.placement import Placement
from penstock.pipelines.kubeflow.plan import plan_ir
from penstock.pipelines.kubeflow.recipe import Recipe
from penstock.pipelines.kubeflow.resources import Affinity, Gpu, MySqlSecret, Notify
from penstock.pipelines.runs.metadata_store import MySqlStore
from tests.pipelines.kubeflow.placements import Compiled, ir_of, trainer_of

VERSIONS = ["2.5.0", "2.15.0", "2.17.0"]
# A placement that sets the fields for which KFP has a counterpart.
PLACEMENT = Placement(
    metadata_mysql=MySqlStore("mysql"),
    mysql_secret=MySqlSecret(tls_name="tls"),
    gpu=Gpu(node_selector={"pool": "gpu"}),
    notify=Notify(webhook_secret="chat"),
    affinity=(Affinity("zone", values=("a",)),),
    image_pull_secrets=("registry",),
    secret_env={"database": {"user": "PENSTOCK_SQL_USER"}},
    pod_annotations={"a": "b"},
)


@component
def tell(text: Argument[str] = ""):
    del text


def messages(version):
    """Returns the classes PipelineSpec and KubernetesExecutorConfig of a release."""
    pool = descriptor_pool.DescriptorPool()
    for known in (any_pb2, duration_pb2, struct_pb2):
        pool.AddSerializedFile(known.DESCRIPTOR.serialized_pb)
    packed = (Path(__file__).parent / f"protos/kfp-{version}.pb.xz").read_bytes()
    files = descriptor_pb2.FileDescriptorSet.FromString(lzma.decompress(packed)).file
    # The files are sorted so that each comes after the files that it imports.
    for file in sorted(
        files, key=lambda one: (one.name.count("kubernetes"), -one.name.count("rpc"))
    ):
        pool.AddSerializedFile(file.SerializeToString())
    names = ("ml_pipelines.PipelineSpec", "kfp_kubernetes.KubernetesExecutorConfig")
    made = getattr(message_factory, "GetMessageClass", None)  # protobuf 4.22 and newer
    made = made or message_factory.MessageFactory(pool).GetPrototype
    return [made(pool.FindMessageTypeByName(name)) for name in names]


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """A file with parameters of all types, artifacts, views and an exit handler."""
    examples = Importer("/data", Examples).with_id("import")
    nodes = [
        examples,
        StatisticsGen(examples=examples.outputs["result"]),
        trainer_of(examples),
        tell(text=RuntimeParameter("text", str)).with_id("tell"),
    ]
    options = {"a": 1, "b": 0.5, "c": True, "d": "x", "e": {"f": 1.0}, "g": [1]}
    recipe = Recipe("mine:create_pipeline", {}, {})
    ir = ir_of(*nodes, name="all")
    plan = plan_ir(ir, fuse=True, alone=PLACEMENT.alone(), recipe=recipe, options=options)
    return Compiled(plan, tmp_path_factory.mktemp("compiled"), PLACEMENT)


@pytest.mark.parametrize("version", VERSIONS)
def test_pipeline_spec_has_no_field_that_a_release_refuses(compiled, version):
    spec_class, _ = messages(version)
    spec = json_format.ParseDict(compiled.spec, spec_class())

    assert json_format.MessageToDict(spec) == compiled.spec
    with pytest.raises(json_format.ParseError, match="no field named"):
        json_format.ParseDict({**compiled.spec, "newField": 1}, spec_class())


@pytest.mark.parametrize(
    ("version", "passed_over"),
    [("2.5.0", {"securityContext"}), ("2.15.0", {"securityContext"}), ("2.17.0", set())],
)
def test_pod_options_that_a_release_passes_over_are_known(compiled, version, passed_over):
    _, config_class = messages(version)
    assert len(compiled.pods) == 5

    unknown = set()
    for config in compiled.pods.values():
        for name, value in config.items():
            try:
                json_format.ParseDict({name: value}, config_class())
            except json_format.ParseError:
                unknown.add(name)
    assert unknown == passed_over
