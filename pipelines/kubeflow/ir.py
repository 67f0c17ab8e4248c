"""The intermediate representation (IR) of a TFX pipeline: compiled, written, and read."""

import uuid
from collections.abc import Callable, Iterator, Mapping
from posixpath import dirname
from typing import Any

from google.protobuf import any_pb2, json_format, symbol_database
from google.protobuf.message import DecodeError, Message
from tfx.dsl.compiler import compiler, constants
from tfx.dsl.io import fileio
from tfx.orchestration.data_types import RuntimeParameter
from tfx.orchestration.pipeline import Pipeline
from tfx.proto.orchestration import pipeline_pb2

from penstock.components.errors import DataError, UsageError, short_error

# Parameters that TFX sets in each run; all others are the user's.
RUN_ID = constants.PIPELINE_RUN_ID_PARAMETER_NAME
ROOT = constants.PIPELINE_ROOT_PARAMETER_NAME


def compile_ir(pipeline: Pipeline) -> pipeline_pb2.Pipeline:
    """Compiles a pipeline to its IR, with the defaults of its runtime parameters."""
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
    """Returns the executors and custom drivers of all nodes, as TFX's compiler writes them."""
    config = pipeline_pb2.IntermediateDeploymentConfig()
    ir.deployment_config.Unpack(config)
    return config


def write_ir(ir: pipeline_pb2.Pipeline, address: str) -> None:
    """Writes an IR, without the metadata store, to a path or address for `read_ir`, by one rename.

    Equal IRs make equal files.
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
    """Reads an IR from a file, proto or JSON."""
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


def runtime_parameters(message: Message) -> dict[str, pipeline_pb2.RuntimeParameter]:
    """Returns the user's runtime parameters anywhere in a message, sorted by name."""
    found: dict[str, pipeline_pb2.RuntimeParameter] = {}
    parameter: Any
    for parameter in walk(message):
        if not isinstance(parameter, pipeline_pb2.RuntimeParameter):
            continue
        if parameter.name in (RUN_ID, ROOT):
            continue
        if found.setdefault(parameter.name, parameter) != parameter:
            raise UsageError(
                f"runtime parameter {parameter.name!r} is used with different types or defaults"
            )
    return dict(sorted(found.items()))


def bind_parameters(
    ir: pipeline_pb2.Pipeline, node_id: str, texts: Mapping[str, str]
) -> dict[str, str | int | float]:
    """Parses values of runtime parameters by the types in the IR."""
    known = runtime_parameters(ir)
    for name in texts:
        if name not in known:
            raise UsageError(
                f"no runtime parameter {name!r}; choices: {', '.join(known) or 'there are none'}"
            )
    needed = runtime_parameters(find_node(ir, node_id))
    missing = [n for n, p in needed.items() if n not in texts and not p.HasField("default_value")]
    if missing:
        raise UsageError(f"runtime parameter {missing[0]!r} has no default and was not given")
    return {name: _typed(known[name], text) for name, text in texts.items()}


def _typed(parameter: pipeline_pb2.RuntimeParameter, text: str) -> str | int | float:
    kinds = pipeline_pb2.RuntimeParameter
    if parameter.type == kinds.STRING:
        return text
    try:
        # KFP carries every number as a double, and may write 1000000 as 1e+06.
        number = int(text) if text.lstrip("+-").isdecimal() else float(text)
        if parameter.type == kinds.DOUBLE:
            return float(number)
        if number == int(number):
            return int(number)
    except (ValueError, OverflowError):
        pass
    expected = "a number" if parameter.type == kinds.DOUBLE else "a whole number"
    raise UsageError(f"runtime parameter {parameter.name!r}: expected {expected}, got {text!r}")


def _restore_falsy_defaults(node: pipeline_pb2.PipelineNode, pipeline: Pipeline) -> None:
    """Puts back defaults of 0 and "", which TFX's compiler drops."""
    components = {component.id: component for component in pipeline.components}
    if node.node_info.id not in components:
        return  # the compiler added this node
    for key, value in components[node.node_info.id].exec_properties.items():
        if isinstance(value, RuntimeParameter) and value.default is not None and not value.default:
            parameter = node.parameters.parameters[key].runtime_parameter
            kinds = {int: "int_value", float: "double_value", str: "string_value"}
            setattr(parameter.default_value, kinds[type(value.default)], value.default)


def walk(message: Message) -> Iterator[Message]:
    """Yields a message and all messages within it, but leaves `Any` packed."""
    yield message
    for field, value in message.ListFields():
        if field.message_type is not None:
            many = value.values() if is_map(field) else value
            for item in [many] if isinstance(many, Message) else many:
                if isinstance(item, Message):
                    yield from walk(item)


def is_map(field: Any) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def change_texts(message: Message, change: Callable[[str], str]) -> None:
    """Changes every text of a message in place; a JSON document is one text."""
    for one in walk(message):
        if isinstance(one, any_pb2.Any):
            if (inner := unpack_any(one)) is not None:
                change_texts(inner, change)
                one.Pack(inner, deterministic=True)
            continue
        for field, value in one.ListFields():
            if isinstance(value, str):
                setattr(one, field.name, change(value))
            elif is_map(field) or field.type == field.TYPE_STRING:
                for key, item in list(value.items() if is_map(field) else enumerate(value)):
                    if isinstance(item, str):
                        value[key] = change(item)


def unpack_any(message: any_pb2.Any) -> Message | None:
    """Returns the message in an `Any`, or None if its type is not known here."""
    name = message.type_url.rsplit("/", 1)[-1]
    try:
        inner: Message = symbol_database.Default().GetSymbol(name)()
        message.Unpack(inner)
    except (KeyError, DecodeError):
        return None
    return inner
