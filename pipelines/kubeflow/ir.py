"""The intermediate representation (IR) of a TFX pipeline: made, read, cut to a node, sent as text.

A node's container needs no file from outside: its part of the IR travels in its arguments, as
base64 of the compressed proto (`encode`). That is about 2 kB for a stock node, where a volume or a
bucket would have to be filled before a run and kept in step with it. Files of installed packages
that it names are those of the container, not of the machine that compiled it.
"""

import base64
import gzip
import lzma
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from google.protobuf import json_format
from google.protobuf.message import DecodeError, Message
from tfx.dsl.compiler import compiler, constants
from tfx.orchestration.data_types import RuntimeParameter
from tfx.orchestration.pipeline import Pipeline
from tfx.proto.orchestration import pipeline_pb2

from penstock.components.errors import DataError, UsageError, short_error
from penstock.pipelines.kubeflow.package_paths import find_packages, mark_packages
from penstock.pipelines.kubeflow.proto_texts import change_texts, walk

# The parameters that every run gives; all others are the user's.
RUN_ID = constants.PIPELINE_RUN_ID_PARAMETER_NAME
ROOT = constants.PIPELINE_ROOT_PARAMETER_NAME
_GZIP_MAGIC = b"\x1f\x8b"
# In place of the defaults of 64 MiB of memory and more; a pipeline has a few MB at most.
_XZ = [{"id": lzma.FILTER_LZMA2, "preset": 9, "dict_size": 4 * 2**20}]


def compile_ir(pipeline: Pipeline) -> pipeline_pb2.Pipeline:
    """The IR of a pipeline, defaults of its runtime parameters included.

    Raises:
        UsageError: The pipeline has what no runner of single nodes can run.
    """
    try:
        ir = compiler.Compiler().compile(pipeline)
    except ValueError as error:
        raise UsageError(f"TFX cannot compile the pipeline: {short_error(error)}") from error
    for node in nodes(ir):
        _restore_falsy_defaults(node, pipeline)
    return ir


def nodes(ir: pipeline_pb2.Pipeline) -> list[pipeline_pb2.PipelineNode]:
    """The nodes, in an order in which they can run; UsageError if one is itself a pipeline."""
    for node in ir.nodes:
        if node.WhichOneof("node") != "pipeline_node":
            name = node.sub_pipeline.pipeline_info.id
            raise UsageError(
                f"node {name!r} is a pipeline within the pipeline, which is not supported; "
                "put its nodes into the outer one"
            )
    return [node.pipeline_node for node in ir.nodes]


def find_node(ir: pipeline_pb2.Pipeline, node_id: str) -> pipeline_pb2.PipelineNode:
    """The node of that id; UsageError if there is none."""
    ids = {node.node_info.id: node for node in nodes(ir)}
    if node_id not in ids:
        raise UsageError(f"the pipeline has no node {node_id!r}; choices: {', '.join(ids)}")
    return ids[node_id]


def cut_to_node(ir: pipeline_pb2.Pipeline, node_id: str) -> pipeline_pb2.Pipeline:
    """A pipeline of that one node: all that a launcher needs to run it.

    Where the metadata store is and how to log in is left out: a run says it.
    """
    cut = pipeline_pb2.Pipeline(
        pipeline_info=ir.pipeline_info,
        runtime_spec=ir.runtime_spec,
        execution_mode=ir.execution_mode,
    )
    cut.nodes.add().pipeline_node.CopyFrom(find_node(ir, node_id))
    whole, part = deployment_config(ir), pipeline_pb2.IntermediateDeploymentConfig()
    if node_id in whole.executor_specs:
        part.executor_specs[node_id].CopyFrom(whole.executor_specs[node_id])
    if node_id in whole.custom_driver_specs:
        part.custom_driver_specs[node_id].CopyFrom(whole.custom_driver_specs[node_id])
    cut.deployment_config.Pack(part)
    return cut


def deployment_config(ir: pipeline_pb2.Pipeline) -> pipeline_pb2.IntermediateDeploymentConfig:
    """How each node is executed, as TFX's compiler writes it."""
    config = pipeline_pb2.IntermediateDeploymentConfig()
    ir.deployment_config.Unpack(config)
    return config


def encode(ir: pipeline_pb2.Pipeline) -> str:
    """The IR as text of letters, digits, `-`, `_` and `=`; the same for the same IR."""
    portable = pipeline_pb2.Pipeline()
    portable.CopyFrom(ir)
    change_texts(portable, mark_packages)
    proto = portable.SerializeToString(deterministic=True)
    # A node is smaller as gzip; what many nodes repeat lies beyond its window of 32 KiB.
    packed = min(gzip.compress(proto, mtime=0), lzma.compress(proto, filters=_XZ), key=len)
    return base64.urlsafe_b64encode(packed).decode()


def decode(text: str) -> pipeline_pb2.Pipeline:
    """The IR that `encode` made the text of, with the paths of this machine's packages.

    Raises:
        DataError: The text was cut or altered, or a package is not installed here.
    """
    try:
        packed = base64.b64decode(text, altchars=b"-_", validate=True)
        unpack = gzip.decompress if packed.startswith(_GZIP_MAGIC) else lzma.decompress
        ir = _parse(unpack(packed))
    except (ValueError, EOFError, OSError, zlib.error, lzma.LZMAError, DecodeError) as error:
        raise DataError(
            f"the pipeline in the arguments is damaged ({error}); compile it again"
        ) from error
    if not ir.nodes:
        raise DataError("the pipeline in the arguments is damaged (empty); compile it again")
    change_texts(ir, find_packages)
    return ir


def read_ir(path: Path) -> pipeline_pb2.Pipeline:
    """An IR from a file: proto or JSON, gzip or not; DataError if it is none."""
    content = path.read_bytes()
    try:
        if content.startswith(_GZIP_MAGIC):
            content = gzip.decompress(content)
        if content.lstrip().startswith(b"{"):
            return json_format.Parse(content, pipeline_pb2.Pipeline())
        ir = _parse(content)
    except (EOFError, OSError, zlib.error, DecodeError, json_format.ParseError) as error:
        raise DataError(
            f"{path}: not the IR of a TFX pipeline, as proto or JSON ({short_error(error)})"
        ) from error
    if not ir.nodes:
        raise DataError(f"{path}: an IR without nodes")
    return ir


def runtime_parameters(message: Message) -> dict[str, pipeline_pb2.RuntimeParameter]:
    """The user's runtime parameters anywhere in a message, by name, sorted.

    Raises:
        UsageError: Two of a name differ in type or default.
    """
    found: dict[str, pipeline_pb2.RuntimeParameter] = {}
    parameter: Any
    for parameter in walk(message):
        is_one = isinstance(parameter, pipeline_pb2.RuntimeParameter)
        if not is_one or parameter.name in (RUN_ID, ROOT):
            continue
        if found.setdefault(parameter.name, parameter) != parameter:
            raise UsageError(
                f"runtime parameter {parameter.name!r} is used with different types or defaults"
            )
    return dict(sorted(found.items()))


def bind_parameters(
    ir: pipeline_pb2.Pipeline, node_id: str, texts: Mapping[str, str]
) -> dict[str, str | int | float]:
    """Values of the runtime parameters from text, of the types that the IR says.

    Raises:
        UsageError: There is no such parameter, its text is of another type, or one that the
            node needs has neither text nor default.
    """
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
    """Put back defaults of 0 and "", which TFX's compiler takes for none."""
    components = {component.id: component for component in pipeline.components}
    if node.node_info.id not in components:
        return  # made by the compiler itself
    for key, value in components[node.node_info.id].exec_properties.items():
        if isinstance(value, RuntimeParameter) and value.default is not None and not value.default:
            parameter = node.parameters.parameters[key].runtime_parameter
            kinds = {int: "int_value", float: "double_value", str: "string_value"}
            setattr(parameter.default_value, kinds[type(value.default)], value.default)


def _parse(content: bytes) -> pipeline_pb2.Pipeline:
    ir = pipeline_pb2.Pipeline()
    ir.ParseFromString(content)
    return ir
