"""The executions and artifacts of runs, from the metadata store of TFX 1.16 or 1.21.

The records are filtered in Python because MLMD 1.21, which TFX 1.21 uses, has no filter queries.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ml_metadata.proto import metadata_store_pb2 as mlmd

from penstock.components.errors import DataError
from penstock.components.files.spool import local_path

_RUN_CONTEXT = "pipeline_run"
# Property of an execution with the reason for its failure, which TFX does not record.
ERROR_PROPERTY = "penstock_error"
_STATES = {
    mlmd.Execution.COMPLETE: "done",
    mlmd.Execution.CACHED: "cached",
    mlmd.Execution.FAILED: "failed",
    mlmd.Execution.RUNNING: "running",
    mlmd.Execution.CANCELED: "cancelled",
}


@dataclass(frozen=True)
class NodeRun:
    """One attempt of a node in a run."""

    node: str
    state: str  # a value of `_STATES`, or `unknown`
    seconds: float
    outputs: Sequence[mlmd.Artifact]
    inputs: Sequence[mlmd.Artifact] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    began: float = 0.0  # seconds since the epoch
    error: str = ""
    execution_id: int = 0


@dataclass(frozen=True)
class RunRecord:
    """A run and its nodes in the order in which they began; each attempt is a separate entry."""

    pipeline: str
    run_id: str
    nodes: Sequence[NodeRun]
    properties: Mapping[str, Any] = field(default_factory=dict)

    @property
    def began(self) -> float:
        """Start of the first node, in seconds since the epoch."""
        return min(node.began for node in self.nodes)

    @property
    def seconds(self) -> float:
        """Seconds from the start of the first node until all nodes have ended."""
        return max(node.began + node.seconds for node in self.nodes) - self.began

    def artifact(self, type_name: str) -> mlmd.Artifact | None:
        """Returns the first artifact of a type among the outputs of this run's nodes, or None."""
        return next((a for node in self.nodes for a in node.outputs if a.type == type_name), None)

    def uri(self, type_name: str) -> str | None:
        artifact = self.artifact(type_name)
        return artifact.uri if artifact is not None else None


def is_set(artifact: mlmd.Artifact | None, name: str) -> bool:
    """Returns whether a property of an artifact, such as `blessed`, is 1."""
    return artifact is not None and plain_properties(artifact).get(name) == 1


def serving_problems(run: RunRecord) -> tuple[str, ...]:
    """Returns ServingCheck's reasons for rejecting the model, one line each.

    InfraValidator stores no reasons, so one line says that the reason is unknown.
    """
    blessing = run.artifact("InfraBlessing")
    if blessing is None or is_set(blessing, "blessed"):
        return ()
    path = f"{blessing.uri}/serving_check.json"
    try:
        text = Path(local_path(path)).read_text(encoding="utf-8")
    except (OSError, DataError):
        return (f"{blessing.uri} does not say why",)
    return tuple(json.loads(text)["problems"])


def leakage(run: RunRecord) -> tuple[str, ...]:
    """Returns the signs of leakage that the run's ValidationGate found, each in one line."""
    return tuple(_verdict(run, "ValidationGate").get("leakage", ()))


@dataclass(frozen=True)
class Retraining:
    """Answer of a run's RetrainGate."""

    is_done: bool
    reason: str


def retraining(run: RunRecord) -> Retraining | None:
    """Returns the answer of the run's RetrainGate; None without one."""
    found = _verdict(run, "RetrainGate")
    return Retraining(found["retrain"], found["reason"]) if found else None


def registered(run: RunRecord) -> str:
    """Returns the version that the run registered, such as `models:/churn/3`, or "" if none."""
    return next(_texts_of(run, "Register"), "")


def _verdict(run: RunRecord, gate: str) -> dict[str, Any]:
    """Returns a gate's verdict; empty if the gate did not run or its verdict cannot be read."""
    for text in _texts_of(run, gate):
        with suppress(ValueError):
            found = json.loads(text)
            if isinstance(found, dict):
                return found
    return {}


def _texts_of(run: RunRecord, name: str) -> Iterator[str]:
    for artifact in (a for node in run.nodes if node.node == name for a in node.outputs):
        with suppress(OSError, DataError, UnicodeDecodeError):
            yield Path(local_path(artifact.uri)).read_text(encoding="utf-8")


def all_runs(store: Any) -> Iterator[RunRecord]:
    """Returns all runs of all pipelines in an `ml_metadata.MetadataStore`, the newest first."""
    contexts = store.get_contexts_by_type(_RUN_CONTEXT)
    for context in sorted(contexts, key=lambda run: run.id, reverse=True):
        by_pipeline: dict[str, list[NodeRun]] = {}
        executions = store.get_executions_by_context(context.id)
        for execution in sorted(executions, key=lambda e: e.id):
            names = {c.type: c.name for c in store.get_contexts_by_execution(execution.id)}
            if "pipeline" in names and "node" in names:
                pipeline = names["pipeline"]
                node = names["node"].removeprefix(f"{pipeline}.")
                by_pipeline.setdefault(pipeline, []).append(_node(store, execution, node))
        properties = plain_properties(context)
        for pipeline, nodes in by_pipeline.items():
            yield RunRecord(pipeline, context.name, nodes, properties)


def note_of_run(store: Any, run_id: str, name: str, text: str) -> None:
    """Stores a text as a property of a run's context; raises DataError for an unknown run."""
    contexts = store.get_contexts_by_type(_RUN_CONTEXT)
    context = next((c for c in contexts if c.name == run_id), None)
    if context is None:
        raise DataError(f"the metadata store has no run {run_id!r}")
    context.custom_properties[name].string_value = text
    store.put_contexts([context])


def plain_properties(holder: Any) -> dict[str, Any]:
    """Returns the properties of an artifact, execution or context as Python values."""
    return {
        name: _plain(value)
        for properties in (holder.properties, holder.custom_properties)
        for name, value in properties.items()
    }


def _plain(value: mlmd.Value) -> Any:
    kind = value.WhichOneof("value")
    if kind in ("struct_value", "proto_value"):
        return str(getattr(value, kind)).strip()
    return getattr(value, kind) if kind else None


def _node(store: Any, execution: mlmd.Execution, node: str) -> NodeRun:
    began = execution.create_time_since_epoch
    ended = execution.last_update_time_since_epoch or began
    inputs, outputs = _artifacts(store, execution)
    options = plain_properties(execution)
    error = options.pop(ERROR_PROPERTY, "")
    return NodeRun(
        node,
        _STATES.get(execution.last_known_state, "unknown"),
        (ended - began) / 1000,
        outputs,
        inputs,
        options,
        began / 1000,
        error,
        execution.id,
    )


def _artifacts(
    store: Any, execution: mlmd.Execution
) -> tuple[list[mlmd.Artifact], list[mlmd.Artifact]]:
    """Returns inputs and outputs, but no outputs of a resolver, since earlier runs wrote them."""
    events = store.get_events_by_execution_ids([execution.id])
    by_id = {}
    if events:
        found = store.get_artifacts_by_id(sorted({event.artifact_id for event in events}))
        by_id = {artifact.id: artifact for artifact in found}
    is_resolver = execution.type.endswith("Resolver")
    given = (mlmd.Event.INPUT, mlmd.Event.INTERNAL_INPUT)
    inputs = {e.artifact_id for e in events if e.type in given}
    outputs = {e.artifact_id for e in events if e.type == mlmd.Event.OUTPUT and not is_resolver}
    return [by_id[i] for i in sorted(inputs)], [by_id[i] for i in sorted(outputs)]
