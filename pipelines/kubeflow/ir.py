"""Compiles, writes and reads the intermediate representation (IR) of a TFX pipeline."""

import uuid
from collections.abc import Iterable, Mapping
from posixpath import dirname

from google.protobuf import json_format
from google.protobuf.message import DecodeError
from tfx.dsl.compiler import compiler, constants
from tfx.dsl.io import fileio
from tfx.orchestration.data_types import RuntimeParameter
from tfx.orchestration.pipeline import Pipeline
from tfx.proto.orchestration import pipeline_pb2

from penstock.components.errors import DataError, UsageError, short_error
from penstock.pipelines.kubeflow.compiled_file import parse_value

# Parameters that TFX sets in each run; all others belong to the user.
RUN_ID = constants.PIPELINE_RUN_ID_PARAMETER_NAME
ROOT = constants.PIPELINE_ROOT_PARAMETER_NAME


def compile_ir(pipeline: Pipeline) -> pipeline_pb2.Pipeline:
    """Compiles a pipeline to its IR, which includes the defaults of its runtime parameters."""
    try:
        ir = compiler.Compiler().compile(pipeline)
    except ValueError as error:
        raise UsageError(f"TFX cannot compile the pipeline: {short_error(error)}") from error
    for node in nodes(ir):
        _restore_falsy_defaults(node, pipeline)
    return ir


def nodes(ir: pipeline_pb2.Pipeline) -> list[pipeline_pb2.PipelineNode]:
    """Returns the nodes in topological order."""
    for node in ir.nodes:
        if node.WhichOneof("node") != "pipeline_node":
            name = node.sub_pipeline.pipeline_info.id
            raise UsageError(
                f"node {name!r} is a pipeline within the pipeline, which is not supported; "
                "put its nodes into the outer one"
            )
    return [node.pipeline_node for node in ir.nodes]


def find_node(ir: pipeline_pb2.Pipeline, node_id: str) -> pipeline_pb2.PipelineNode:
    ids = {node.node_info.id: node for node in nodes(ir)}
    if node_id not in ids:
        raise UsageError(f"the pipeline has no node {node_id!r}; choices: {', '.join(ids)}")
    return ids[node_id]


def deployment_config(ir: pipeline_pb2.Pipeline) -> pipeline_pb2.IntermediateDeploymentConfig:
    """Returns the specs of all nodes' executors and custom drivers, unpacked from the IR."""
    config = pipeline_pb2.IntermediateDeploymentConfig()
    ir.deployment_config.Unpack(config)
    return config


def write_ir(ir: pipeline_pb2.Pipeline, address: str) -> None:
    """Writes an IR, without its metadata connection, to a local or remote file.

    The file is written under a temporary name and then renamed. Equal IRs give equal files.
    """
    portable = pipeline_pb2.Pipeline()
    portable.CopyFrom(ir)
    deployment = deployment_config(ir)
    deployment.ClearField("metadata_connection_config")
    portable.deployment_config.Pack(deployment, deterministic=True)
    fileio.makedirs(dirname(address))
    temporary = f"{address}.{uuid.uuid4().hex}"
    with fileio.open(temporary, "wb") as file:
        file.write(portable.SerializeToString(deterministic=True))
    fileio.rename(temporary, address, overwrite=True)


def read_ir(address: str) -> pipeline_pb2.Pipeline:
    """Reads an IR from a file that contains the proto in binary or JSON form."""
    if not fileio.exists(address):
        raise DataError(
            f"{address}: no such file; on Kubeflow the run's first node writes it: start a new run"
        )
    with fileio.open(address, "rb") as file:
        content = file.read()
    ir = pipeline_pb2.Pipeline()
    try:
        if content.lstrip().startswith(b"{"):
            json_format.Parse(content, ir)
        else:
            ir.ParseFromString(content)
    except (DecodeError, json_format.ParseError) as error:
        raise DataError(
            f"{address}: damaged, or not the IR of a TFX pipeline as proto or JSON "
            f"({short_error(error)})"
        ) from error
    if not ir.nodes:
        raise DataError(f"{address}: damaged, an IR without nodes")
    return ir


def runtime_parameters(
    nodes: Iterable[pipeline_pb2.PipelineNode],
) -> dict[str, pipeline_pb2.RuntimeParameter]:
    """Returns the user's runtime parameters that the nodes take, sorted by name."""
    found: dict[str, pipeline_pb2.RuntimeParameter] = {}
    for value in (one for node in nodes for one in node.parameters.parameters.values()):
        if not value.HasField("runtime_parameter"):
            continue
        parameter = value.runtime_parameter
        if found.setdefault(parameter.name, parameter) != parameter:
            raise UsageError(
                f"runtime parameter {parameter.name!r} is used with different types or defaults"
            )
    return dict(sorted(found.items()))


def bind_parameters(
    ir: pipeline_pb2.Pipeline, node_id: str, texts: Mapping[str, str]
) -> dict[str, str | int | float]:
    """Parses values of runtime parameters with the types in the IR."""
    known = runtime_parameters(nodes(ir))
    for name in texts:
        if name not in known:
            raise UsageError(
                f"no runtime parameter {name!r}; choices: {', '.join(known) or 'there are none'}"
            )
    for name, parameter in runtime_parameters([find_node(ir, node_id)]).items():
        if name not in texts and not parameter.HasField("default_value"):
            raise UsageError(f"runtime parameter {name!r} has no default and was not given")
    return {name: parse_value(name, text, kind_of(known[name])) for name, text in texts.items()}


def kind_of(parameter: pipeline_pb2.RuntimeParameter) -> type:
    """Returns the type of a runtime parameter: int, float or str."""
    return {"INT": int, "DOUBLE": float, "STRING": str}[parameter.Type.Name(parameter.type)]


def default_of(parameter: pipeline_pb2.RuntimeParameter) -> int | float | str | None:
    """Returns the default of a runtime parameter; None without one."""
    value = parameter.default_value
    return getattr(value, value.WhichOneof("value") or "", None)


def _restore_falsy_defaults(node: pipeline_pb2.PipelineNode, pipeline: Pipeline) -> None:
    """Restores defaults of 0 and "", which TFX's compiler drops."""
    components = {component.id: component for component in pipeline.components}
    if node.node_info.id not in components:
        return  # the compiler added this node
    for key, value in components[node.node_info.id].exec_properties.items():
        if isinstance(value, RuntimeParameter) and value.default is not None and not value.default:
            parameter = node.parameters.parameters[key].runtime_parameter
            kinds = {int: "int_value", float: "double_value", str: "string_value"}
            setattr(parameter.default_value, kinds[type(value.default)], value.default)
