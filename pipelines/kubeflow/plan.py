"""Plan of a pipeline for Kubeflow: one container task a node, in plain values.

In: a `tfx.dsl.Pipeline` or its IR. Out: a `Plan`, with no TFX type in it.
"""

import json
import re
from dataclasses import dataclass, replace

from tfx.orchestration.pipeline import Pipeline
from tfx.proto.orchestration import executable_spec_pb2, pipeline_pb2

from penstock.components.errors import UsageError
from penstock.pipelines.kubeflow import ir as irs
from penstock.pipelines.kubeflow.names import (
    SPAN_FROM_NAME,
    parameter_names,
    pipeline_name,
    task_names,
)
from penstock.pipelines.kubeflow.outputs import VIEWS
from penstock.pipelines.kubeflow.refusals import check_no_secrets
from penstock.pipelines.kubeflow.spans import reads_files
from penstock.pipelines.kubeflow.user_packages import needed_packages

_KINDS = {"INT": int, "DOUBLE": float, "STRING": str}
_EMBEDDED_PARAMETER = re.compile(r'"__class__\\*": \\*"RuntimeParameter')
_INFRA_VALIDATOR = ".infra_validator.component.InfraValidator"
# The operator that ForEach, and `ops.Unnest` without it, compile to.
_UNNEST = "tfx.internal.Unnest"
_CONTAINER_SPEC = executable_spec_pb2.ContainerExecutableSpec.DESCRIPTOR


@dataclass(frozen=True)
class Parameter:
    """Runtime parameter of the pipeline; one without a default must be given."""

    name: str
    kfp_name: str
    kind: type
    default: int | float | str | None


# Address that a run reads its data from, in place of the compiled one; see `spans`.
SPAN_FROM = Parameter("{span_from}", SPAN_FROM_NAME, str, "")


@dataclass(frozen=True)
class Task:
    """Node as a container task: `views` are its outputs in KFP's UI, `upstream` task names."""

    node_id: str
    name: str
    component: str
    parameters: tuple[Parameter, ...]
    upstream: tuple[str, ...]
    views: tuple[str, ...]


@dataclass(frozen=True)
class Plan:
    """Tasks in topological order, and the user's own packages that the image must have."""

    name: str
    parameters: tuple[Parameter, ...]
    tasks: tuple[Task, ...]
    packages: tuple[str, ...]
    ir: str


def plan_pipeline(pipeline: Pipeline) -> Plan:
    """Plans the tasks of a pipeline; see `plan_ir`."""
    return plan_ir(irs.compile_ir(pipeline))


def plan_ir(ir: pipeline_pb2.Pipeline) -> Plan:
    """Plans the tasks of a pipeline's IR."""
    check_no_secrets(ir)
    nodes = irs.nodes(ir)
    names = task_names(node.node_info.id for node in nodes)
    parameters = _parameters(ir)
    tasks = [_task(ir, node, names, parameters) for node in nodes]
    every = tuple(parameters.values())
    readers = [i for i, node in enumerate(nodes) if reads_files(node)]
    if len(readers) == 1:
        [i] = readers
        tasks[i] = replace(tasks[i], parameters=(*tasks[i].parameters, SPAN_FROM))
        every = (*every, SPAN_FROM)
    return Plan(
        name=pipeline_name(ir.pipeline_info.id),
        parameters=every,
        tasks=tuple(tasks),
        packages=tuple(needed_packages(ir)),
        ir=irs.encode(ir),
    )


def _parameters(ir: pipeline_pb2.Pipeline) -> dict[str, Parameter]:
    found = irs.runtime_parameters(ir)
    kfp_names = parameter_names(found)
    return {
        name: Parameter(
            name=name,
            kfp_name=kfp_names[name],
            kind=_KINDS[pipeline_pb2.RuntimeParameter.Type.Name(parameter.type)],
            default=_default(parameter),
        )
        for name, parameter in found.items()
    }


def _default(parameter: pipeline_pb2.RuntimeParameter) -> int | float | str | None:
    if not parameter.HasField("default_value"):
        return None
    kind = parameter.default_value.WhichOneof("value")
    value: int | float | str = getattr(parameter.default_value, kind)
    return value


def _task(
    ir: pipeline_pb2.Pipeline,
    node: pipeline_pb2.PipelineNode,
    names: dict[str, str],
    parameters: dict[str, Parameter],
) -> Task:
    node_id = node.node_info.id
    _check_runs_in_container(ir, node)
    made = {output.artifact_spec.type.name for output in node.outputs.outputs.values()}
    return Task(
        node_id=node_id,
        name=names[node_id],
        component=node.node_info.type.name,
        parameters=tuple(parameters[name] for name in irs.runtime_parameters(node)),
        upstream=tuple(names[upstream] for upstream in node.upstream_nodes),
        views=tuple(sorted({VIEWS[kind] for kind in made & VIEWS.keys()})),
    )


def _check_runs_in_container(ir: pipeline_pb2.Pipeline, node: pipeline_pb2.PipelineNode) -> None:
    node_id = node.node_info.id
    executors = irs.deployment_config(ir).executor_specs
    if node_id in executors and executors[node_id].Is(_CONTAINER_SPEC):
        raise UsageError(
            f"node {node_id!r} brings a container of its own, which cannot run inside another; "
            "write it as a Python component"
        )
    if node.node_info.type.name.endswith(_INFRA_VALIDATOR):
        serving = json.loads(node.parameters.parameters["serving_spec"].field_value.string_value)
        platform = "Docker" if "local_docker" in serving else "the right to create pods"
        raise UsageError(
            f"node {node_id!r} is an InfraValidator, which needs {platform}, and pods of runs have "
            "none; penstock.nodes.ServingCheck loads the model in its own process"
        )
    for graph in node.inputs.input_graphs.values():
        if any(one.op_node.op_type == _UNNEST for one in graph.nodes.values()):
            raise UsageError(
                f"node {node_id!r} is within a ForEach, of which TFX's launcher runs no more than "
                "one turn; give the node all artifacts, or write a node for each"
            )
    if "{{" in node_id:
        raise UsageError(f"node {node_id!r}: Kubeflow takes {{{{ for a placeholder of its own")
    for key, parameter in node.parameters.parameters.items():
        if _EMBEDDED_PARAMETER.search(parameter.field_value.string_value):
            raise UsageError(
                f"node {node_id!r}, {key}: a RuntimeParameter within another value is never "
                "filled in; give it as the whole value of an option"
            )
