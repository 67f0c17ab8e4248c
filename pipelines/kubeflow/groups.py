"""Groups light nodes that follow each other, so that they share a pod on Kubeflow."""

from collections.abc import Collection, Sequence
from typing import TypeAlias

from tfx.proto.orchestration import pipeline_pb2

# Nodes that read only statistics, metadata or one split. For them, starting a pod takes longer than
# the work: about 15 s against 1 s if the node comes from the cache.
_LIGHT = {
    *("SchemaGen", "ImportSchemaGen", "CuratedSchema", "ExampleValidator"),
    *("ValidationGate", "ImageGate", "Importer", "Resolver"),
    *("Evaluator", "BatchEvaluator", "ServingCheck", "Pusher", "KServePush", "Register"),
}
Node: TypeAlias = pipeline_pb2.PipelineNode


def group_nodes(nodes: Sequence[Node], alone: Collection[str]) -> list[list[Node]]:
    """Groups nodes, given in topological order, into tasks in topological order.

    Each node has a stage, above that of its upstream nodes unless both are light. A heavy node
    comes as early as it can, a light one as late as it can, so that light ones gather in one stage;
    those of a stage that are connected form a group.
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
