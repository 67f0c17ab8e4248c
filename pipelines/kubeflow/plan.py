"""Plan of a pipeline for Kubeflow, in plain values: one container task per node or group of nodes.

Input: the IR of a TFX pipeline. Output: a `Plan`, which contains no TFX type.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from tfx.proto.orchestration import pipeline_pb2

from penstock.pipelines.kubeflow import ir as irs
from penstock.pipelines.kubeflow.names import (
    artifact_names,
    field_names,
    pipeline_name,
    task_names,
)
from penstock.pipelines.kubeflow.outputs import VIEWS, artifact_kind
from penstock.pipelines.kubeflow.recipe import Recipe, option_kind
from penstock.pipelines.kubeflow.refusals import (
    check_no_secrets,
    check_runs_in_container,
    needed_packages,
)

# Light nodes, most of which read only statistics, metadata, a model or one split. Starting a pod
# takes about 15 s, longer than the work of such a node, which takes 1 s if the cache serves it.
_LIGHT = {
    *("SchemaGen", "ImportSchemaGen", "CuratedSchema", "ExampleValidator"),
    *("ValidationGate", "ImageGate", "Importer", "Resolver"),
    *("Evaluator", "BatchEvaluator", "ServingCheck", "Pusher", "KServePush", "Register"),
}
Node: TypeAlias = pipeline_pb2.PipelineNode
_Key: TypeAlias = tuple[str, str]  # identifies an artifact: node id and output key


@dataclass(frozen=True)
class Parameter:
    """Parameter of a run: a runtime parameter of TFX, or an option of the pipeline's config."""

    name: str
    kfp_name: str
    kind: type  # int, float, str, bool, dict or list
    default: Any  # None: the parameter is required


class Input(NamedTuple):
    """Artifact that a task reads: the output `made` of the task `source`."""

    name: str
    source: str
    made: str
    kind: str


class _Made(NamedTuple):
    task: str
    name: str
    kind: str


@dataclass(frozen=True)
class Task:
    """Container task that runs one node, or several light nodes in sequence."""

    node_ids: tuple[str, ...]
    name: str  # name in Kubeflow, `[a-z0-9-]`
    component: str  # dotted path of the class or function of a single node; "" for several nodes
    parameters: tuple[Parameter, ...]
    upstream: tuple[str, ...]  # names of tasks
    views: tuple[str, ...]  # values of `outputs.VIEWS`
    outputs: tuple[tuple[str, str], ...]  # name and kind, from `outputs.artifact_kind`
    inputs: tuple[Input, ...]

    @property
    def node_id(self) -> str:
        """Id of the first node, whose resources the task gets.

        Nodes that share a task all have the default resources.
        """
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
    """Plans the tasks of a pipeline's IR; `options` are the config options that a run may change.

    With `fuse`, connected light nodes share a task, except the nodes in `alone`.
    """
    check_no_secrets(ir)
    nodes = irs.nodes(ir)
    for node in nodes:
        check_runs_in_container(ir, node)
    groups = _group_nodes(nodes, alone) if fuse else [[node] for node in nodes]
    names = task_names(map(_title, groups))
    task_of = {node.node_info.id: names[_title(group)] for group in groups for node in group}
    made: dict[_Key, _Made] = {}
    for group in groups:
        kinds = {
            (node.node_info.id, key): artifact_kind(output.artifact_spec.type.name)
            for node in group
            for key, output in sorted(node.outputs.outputs.items())
        }
        for (node_id, key), name in artifact_names(kinds).items():
            made[node_id, key] = _Made(task_of[node_id], name, kinds[node_id, key])
    used, options = irs.runtime_parameters(nodes), options or {}
    kfp_names = field_names(
        {name: name for name in (*used, *options)}, {artifact.name for artifact in made.values()}
    )
    parameters = {
        name: Parameter(name, kfp_names[name], irs.kind_of(one), irs.default_of(one))
        for name, one in used.items()
    }
    return Plan(
        name=pipeline_name(ir.pipeline_info.id),
        parameters=tuple(parameters.values()),
        tasks=tuple(_task(group, task_of, made, parameters, kfp_names) for group in groups),
        packages=tuple(needed_packages(ir, recipe.pipeline if recipe else "")),
        options=tuple(
            Parameter(name, kfp_names[name], option_kind(value), value)
            for name, value in options.items()
        ),
        recipe=recipe.to_text() if recipe else "",
    )


def _title(group: Sequence[Node]) -> str:
    first, last = group[0].node_info.id, group[-1].node_info.id
    return first if len(group) == 1 else f"{first} to {last}"


def _task(
    group: Sequence[Node],
    task_of: Mapping[str, str],
    made: Mapping[_Key, _Made],
    parameters: Mapping[str, Parameter],
    taken: Mapping[str, str],
) -> Task:
    ids = tuple(node.node_info.id for node in group)
    types = {o.artifact_spec.type.name for node in group for o in node.outputs.outputs.values()}
    upstream = (task_of[one] for node in group for one in node.upstream_nodes if one not in ids)
    read = {
        (channel.producer_node_query.id, channel.output_key)
        for node in group
        for one in node.inputs.inputs.values()
        for channel in one.channels
        if channel.producer_node_query.id not in ids
    }
    outputs = {artifact.name: artifact.kind for (node, _), artifact in made.items() if node in ids}
    # The IR lists no outputs of resolvers, so `made` has no entry for the artifacts they return.
    inputs = {pair: "_".join(pair) for pair in sorted(read & made.keys())}
    return Task(
        node_ids=ids,
        name=task_of[ids[0]],
        component=group[0].node_info.type.name if len(group) == 1 else "",
        parameters=tuple(parameters[name] for name in irs.runtime_parameters(group)),
        upstream=tuple(dict.fromkeys(upstream)),
        views=tuple(sorted({VIEWS[kind] for kind in types & VIEWS.keys()})),
        outputs=tuple(outputs.items()),
        inputs=tuple(
            Input(name, *made[pair])
            for pair, name in field_names(inputs, (*outputs, *taken.values())).items()
        ),
    )


def _group_nodes(nodes: Sequence[Node], alone: Collection[str]) -> list[list[Node]]:
    """Groups nodes, which are in topological order, into tasks in topological order.

    Each node gets a stage. A node's stage is later than the stage of each upstream node, or the
    same if both nodes are light. A node gets the earliest possible stage; but a light node that
    other nodes wait for gets the latest possible one, so that light nodes gather in one stage.
    Connected light nodes of a stage form a group.
    """
    light = {node.node_info.id: _is_light(node, alone) for node in nodes}
    stages: dict[str, int] = {}
    for node in nodes:
        name = node.node_info.id
        steps = [stages[one] + (not (light[name] and light[one])) for one in node.upstream_nodes]
        stages[name] = max(steps, default=0)
    for node in reversed(nodes):
        name = node.node_info.id
        below = [one.node_info.id for one in nodes if name in one.upstream_nodes]
        if light[name] and below:
            stages[name] = min(stages[one] - (not light[one]) for one in below)
    groups: list[list[Node]] = []
    for node in sorted(nodes, key=lambda one: stages[one.node_info.id]):
        name = node.node_info.id
        same = {one for one in node.upstream_nodes if stages[one] == stages[name]}
        near = [group for group in groups if same & {one.node_info.id for one in group}]
        groups = [group for group in groups if group not in near]
        groups.append([*(one for group in near for one in group), node])
    return groups


def _is_light(node: Node, alone: Collection[str]) -> bool:
    component = node.node_info.type.name.rpartition(".")[2]
    return component in _LIGHT and node.node_info.id not in alone
