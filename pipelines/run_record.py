"""The executions and artifacts of one run, from a TFX metadata store of either version set.

Filters in Python: the store's query language differs between TFX 1.16 and 1.21.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ml_metadata.proto import metadata_store_pb2 as mlmd

from penstock.components.errors import DataError

_STATES = {
    mlmd.Execution.COMPLETE: "done",
    mlmd.Execution.CACHED: "cached",
    mlmd.Execution.FAILED: "failed",
    mlmd.Execution.RUNNING: "running",
    mlmd.Execution.CANCELED: "cancelled",
}


@dataclass(frozen=True)
class NodeRun:
    """One node of the run.

    Attributes:
        node: Its id.
        state: `done`, `cached`, `failed`, `running` or `cancelled`.
        seconds: From its start to its last change.
        outputs: The artifacts that it gave, from the cache or new.
    """

    node: str
    state: str
    seconds: float
    outputs: Sequence[mlmd.Artifact]


@dataclass(frozen=True)
class RunRecord:
    """A run of a pipeline, its nodes in the order in which they began."""

    pipeline: str
    run_id: str
    nodes: Sequence[NodeRun]

    def artifact(self, type_name: str) -> mlmd.Artifact | None:
        """The first artifact of a type that a node of this run gave, resolvers left out."""
        return next((a for node in self.nodes for a in node.outputs if a.type == type_name), None)


def latest_run(store: Any, pipeline: str) -> RunRecord:
    """The newest run of `pipeline` in an open `ml_metadata.MetadataStore`.

    Raises:
        DataError: The store knows no run of it.
    """
    runs = sorted(store.get_contexts_by_type("pipeline_run"), key=lambda run: run.id, reverse=True)
    for run in runs:
        executions = sorted(store.get_executions_by_context(run.id), key=lambda e: e.id)
        nodes = [_node(store, execution, pipeline) for execution in executions]
        known = [node for node in nodes if node is not None]
        if known:
            return RunRecord(pipeline, run.name, known)
    raise DataError(f"the metadata store has no run of pipeline {pipeline!r}")


def _node(store: Any, execution: mlmd.Execution, pipeline: str) -> NodeRun | None:
    names = {context.type: context.name for context in _contexts(store, execution)}
    if names.get("pipeline") != pipeline or "node" not in names:
        return None
    ended = execution.last_update_time_since_epoch or execution.create_time_since_epoch
    return NodeRun(
        names["node"].removeprefix(f"{pipeline}."),
        _STATES.get(execution.last_known_state, "unknown"),
        (ended - execution.create_time_since_epoch) / 1000,
        _outputs(store, execution),
    )


def _contexts(store: Any, execution: mlmd.Execution) -> Sequence[mlmd.Context]:
    contexts: Sequence[mlmd.Context] = store.get_contexts_by_execution(execution.id)
    return contexts


def _outputs(store: Any, execution: mlmd.Execution) -> list[mlmd.Artifact]:
    if execution.type.endswith("Resolver"):
        return []  # it gives what earlier runs made
    events = store.get_events_by_execution_ids([execution.id])
    ids = [event.artifact_id for event in events if event.type == mlmd.Event.OUTPUT]
    return sorted(store.get_artifacts_by_id(ids), key=lambda artifact: artifact.id) if ids else []
