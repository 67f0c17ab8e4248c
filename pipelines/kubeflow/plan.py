"""Plan of a pipeline for Kubeflow, in plain values: one container task per node or group.

In: a `tfx.dsl.Pipeline` or its IR. Out: a `Plan`, with no TFX type in it.
"""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from tfx.proto.orchestration import executable_spec_pb2, pipeline_pb2

from penstock.components.errors import UsageError
from penstock.pipelines.kubeflow import ir as irs
from penstock.pipelines.kubeflow.groups import group_nodes
from penstock.pipelines.kubeflow.names import (
    artifact_names,
    input_names,
    parameter_names,
    pipeline_name,
    task_names,
)
from penstock.pipelines.kubeflow.outputs import VIEWS, artifact_kind
from penstock.pipelines.kubeflow.recipe import Recipe, option_kind
from penstock.pipelines.kubeflow.refusals import check_no_secrets, needed_packages

_EMBEDDED_PARAMETER = re.compile(r'"__class__\\*": \\*"RuntimeParameter')
_INFRA_VALIDATOR = ".infra_validator.component.InfraValidator"
# Operator to which TFX compiles ForEach and `ops.Unnest`.
_UNNEST = "tfx.internal.Unnest"
Node: TypeAlias = pipeline_pb2.PipelineNode
_CONTAINER_SPEC = executable_spec_pb2.ContainerExecutableSpec.DESCRIPTOR


@dataclass(frozen=True)
class Parameter:
    """Parameter of a run: a runtime parameter of TFX, or an option of the pipeline's config."""

    name: str
    kfp_name: str
    kind: type  # int, float, str, bool, dict or list
    default: Any  # None: the parameter is required


class Input(NamedTuple):
    """Artifact that a task reads: output `made` of task `source`."""

    name: str
    source: str
    made: str
    kind: str


@dataclass(frozen=True)
class Task:
    """Container task that runs one node, or several light ones after each other."""

    node_ids: tuple[str, ...]
    name: str  # name in Kubeflow, `[a-z0-9-]`
    component: str  # dotted path of the only node's class or function; "" for several nodes
    parameters: tuple[Parameter, ...]
    upstream: tuple[str, ...]  # names of tasks
    views: tuple[str, ...]  # values of `outputs.VIEWS`
    outputs: tuple[tuple[str, str], ...]  # name and kind, see `outputs.artifact_kind`
    inputs: tuple[Input, ...]

    @property
    def node_id(self) -> str:
        """Id of the first node; its resources hold for all, since light nodes have the default."""
        return self.node_ids[0]

    @property
    def title(self) -> str:
        """Name of the task in Kubeflow's UI."""
        return ", ".join(self.node_ids)


@dataclass(frozen=True)
class Plan:
    """Tasks in topological order, and the user's own packages that the image must have.

    `recipe` builds the IR in the first pod of a run, with the run's `options`.
    """

    name: str
    parameters: tuple[Parameter, ...]
    tasks: tuple[Task, ...]
    packages: tuple[str, ...]
    options: tuple[Parameter, ...] = ()
    recipe: str = ""


def plan_ir(
    ir: pipeline_pb2.Pipeline,
    *,
    fuse: bool = False,
    alone: Collection[str] = (),
    recipe: Recipe | None = None,
    options: Mapping[str, Any] | None = None,
) -> Plan:
    """Plans the tasks of a pipeline's IR; `options` are those that a run may change.

    With `fuse`, connected light nodes share a task, except those in `alone`.
    """
    check_no_secrets(ir)
    nodes = irs.nodes(ir)
    for node in nodes:
        _check_runs_in_container(ir, node)
    ordered = group_nodes(nodes, alone) if fuse else [[node] for node in nodes]
    titles = [_title(group) for group in ordered]
    names = task_names(titles)
    artifacts = [artifact_names(outputs_of(group)) for group in ordered]
    options = options or {}
    kfp_names = parameter_names(
        [*irs.runtime_parameters(nodes), *options],
        {name for found in artifacts for name in found.values()},
    )
    parameters = _parameters(ir, kfp_names)
    made = _Made(
        tasks={n.node_info.id: names[t] for t, g in zip(titles, ordered, strict=True) for n in g},
        parameters=kfp_names.values(),
        artifacts={pair: name for found in artifacts for pair, name in found.items()},
        kinds={
            (node.node_info.id, key): artifact_kind(output.artifact_spec.type.name)
            for node in nodes
            for key, output in node.outputs.outputs.items()
        },
    )
    return Plan(
        name=pipeline_name(ir.pipeline_info.id),
        parameters=tuple(parameters.values()),
        tasks=tuple(_task(group, made, parameters) for group in ordered),
        packages=tuple(needed_packages(ir, recipe.pipeline if recipe else "")),
        options=tuple(
            Parameter(name, kfp_names[name], option_kind(value), value)
            for name, value in options.items()
        ),
        recipe=recipe.to_text() if recipe else "",
    )


class _Made(NamedTuple):
    """Task names by node, parameter names, names and kinds of artifacts by (node, output key)."""

    tasks: Mapping[str, str]
    parameters: Collection[str]
    artifacts: Mapping[tuple[str, str], str]
    kinds: Mapping[tuple[str, str], str]


def _title(group: Sequence[Node]) -> str:
    first, last = group[0].node_info.id, group[-1].node_info.id
    return first if len(group) == 1 else f"{first} to {last}"


def outputs_of(group: Sequence[Node]) -> list[tuple[str, str]]:
    """Returns (node id, output key) of all outputs of a task, in the same order in any process."""
    return [(node.node_info.id, key) for node in group for key in sorted(node.outputs.outputs)]


def _parameters(ir: pipeline_pb2.Pipeline, kfp_names: Mapping[str, str]) -> dict[str, Parameter]:
    return {
        name: Parameter(
            name=name,
            kfp_name=kfp_names[name],
            kind=irs.kind_of(parameter),
            default=_default(parameter),
        )
        for name, parameter in irs.runtime_parameters(irs.nodes(ir)).items()
    }


def _default(parameter: pipeline_pb2.RuntimeParameter) -> int | float | str | None:
    if not parameter.HasField("default_value"):
        return None
    kind = parameter.default_value.WhichOneof("value")
    value: int | float | str = getattr(parameter.default_value, kind)
    return value


def _task(group: Sequence[Node], made: _Made, parameters: Mapping[str, Parameter]) -> Task:
    ids = tuple(node.node_info.id for node in group)
    types = {o.artifact_spec.type.name for node in group for o in node.outputs.outputs.values()}
    used = irs.runtime_parameters(group)
    upstream = [made.tasks[one] for node in group for one in node.upstream_nodes if one not in ids]
    read = {
        (channel.producer_node_query.id, channel.output_key)
        for node in group
        for one in node.inputs.inputs.values()
        for channel in one.channels
        if channel.producer_node_query.id not in ids
    }
    # Resolvers have no outputs of their own.
    read &= made.artifacts.keys()
    outputs = tuple((made.artifacts[pair], made.kinds[pair]) for pair in outputs_of(group))
    given = input_names(sorted(read), [*(name for name, _ in outputs), *made.parameters])
    return Task(
        node_ids=ids,
        name=made.tasks[ids[0]],
        component=group[0].node_info.type.name if len(group) == 1 else "",
        parameters=tuple(parameters[name] for name in used),
        upstream=tuple(dict.fromkeys(upstream)),
        views=tuple(sorted({VIEWS[kind] for kind in types & VIEWS.keys()})),
        outputs=outputs,
        inputs=tuple(
            Input(name, made.tasks[pair[0]], made.artifacts[pair], made.kinds[pair])
            for pair, name in given.items()
        ),
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
                f"node {node_id!r} is within a ForEach, and TFX's launcher runs only one turn; "
                "give the node all artifacts, or write a node for each"
            )
    for key, parameter in node.parameters.parameters.items():
        if _EMBEDDED_PARAMETER.search(parameter.field_value.string_value):
            raise UsageError(
                f"node {node_id!r}, {key}: a RuntimeParameter within another value is never "
                "filled in; give it as the whole value of an option"
            )
