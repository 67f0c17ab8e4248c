"""Separates the attempts of one node in one run.

TFX's launcher reuses the execution and the output folders of a failed attempt, and a killed attempt
stays RUNNING for ever. So before an attempt starts, earlier attempts are closed: they are marked
FAILED, and their outputs are removed. The new attempt gets its own context, and so its own
execution and empty output folders.
"""

import posixpath
from collections.abc import Sequence

from ml_metadata.proto import metadata_store_pb2
from tfx.dsl.compiler import constants
from tfx.dsl.io import fileio
from tfx.orchestration import metadata
from tfx.orchestration.portable import outputs_utils
from tfx.orchestration.portable.mlmd import execution_lib
from tfx.proto.orchestration import pipeline_pb2
from tfx.types.value_artifact import ValueArtifact

from penstock.pipelines.runs.run_record import ERROR_PROPERTY

Execution = metadata_store_pb2.Execution
_ATTEMPT_CONTEXT_TYPE = "node_attempt"


def executions_of(
    handle: metadata.Metadata,
    node: pipeline_pb2.PipelineNode,
    contexts: Sequence[str] = (
        constants.PIPELINE_RUN_CONTEXT_TYPE_NAME,
        constants.NODE_CONTEXT_TYPE_NAME,
    ),
) -> list[metadata_store_pb2.Execution]:
    """Returns the executions that are in all the node's contexts of these types, oldest first."""
    # The executions are filtered in Python because MLMD 1.21 has no filter queries.
    by_context = []
    for spec in node.contexts.contexts:
        if spec.type.name not in contexts:
            continue
        context = handle.store.get_context_by_type_and_name(
            spec.type.name, spec.name.field_value.string_value
        )
        if context is None:
            return []
        found = handle.store.get_executions_by_context(context.id)
        by_context.append({execution.id: execution for execution in found})
    first, *others = by_context
    return [first[i] for i in sorted(first) if all(i in other for other in others)]


def close_attempts(
    handle: metadata.Metadata,
    executions: Sequence[metadata_store_pb2.Execution],
    node: pipeline_pb2.PipelineNode,
    runtime_spec: pipeline_pb2.PipelineRuntimeSpec,
) -> None:
    """Marks the active executions FAILED, and removes the outputs of all given executions.

    Outputs that are LIVE in the store are kept.
    """
    running = [e for e in executions if execution_lib.is_execution_active(e)]
    for execution in running:
        execution.last_known_state = Execution.FAILED
    if running:
        handle.store.put_executions(running)
    for execution in executions:
        _remove_leftovers(handle, execution.id, node, runtime_spec)


def remove_stateful(
    node: pipeline_pb2.PipelineNode, runtime_spec: pipeline_pb2.PipelineRuntimeSpec
) -> None:
    """Removes the stateful folders that failed attempts left for retries of the same execution."""
    node_dir = outputs_utils.get_node_dir(runtime_spec, node.node_info.id)
    _remove(f"{node_dir}/.system/stateful_working_dir")


def note_failure(handle: metadata.Metadata, node: pipeline_pb2.PipelineNode, reason: str) -> None:
    """Stores the reason of a failure with the node's newest execution, for reports.

    TFX leaves the execution RUNNING if the node's driver fails.
    """
    executions = executions_of(handle, node)
    if executions:
        if execution_lib.is_execution_active(executions[-1]):
            executions[-1].last_known_state = Execution.FAILED
        executions[-1].custom_properties[ERROR_PROPERTY].string_value = reason
        handle.store.put_executions(executions[-1:])


def set_apart(node: pipeline_pb2.PipelineNode, run_id: str, attempt: int) -> None:
    """Adds a context for the node's next execution only; `attempt` is counted from 1."""
    context = node.contexts.contexts.add()
    context.type.name = _ATTEMPT_CONTEXT_TYPE
    context.name.field_value.string_value = f"{run_id}.{node.node_info.id}.attempt-{attempt}"


def _remove_leftovers(
    handle: metadata.Metadata,
    execution_id: int,
    node: pipeline_pb2.PipelineNode,
    runtime_spec: pipeline_pb2.PipelineRuntimeSpec,
) -> None:
    node_dir = outputs_utils.get_node_dir(runtime_spec, node.node_info.id)
    outputs = outputs_utils.generate_output_artifacts(
        execution_id=execution_id, outputs=node.outputs.outputs, node_dir=node_dir
    )
    for artifact in (a for artifacts in outputs.values() for a in artifacts if not a.is_external):
        if not _is_live(handle, artifact.uri):
            # The URI of a value artifact is a file in a folder of its own.
            is_value = isinstance(artifact, ValueArtifact)
            _remove(posixpath.dirname(artifact.uri) if is_value else artifact.uri)
    # This folder contains the executor's temporary folder, among others.
    _remove(f"{node_dir}/.system/executor_execution/{execution_id}")


def _is_live(handle: metadata.Metadata, uri: str) -> bool:
    live = metadata_store_pb2.Artifact.LIVE
    return any(artifact.state == live for artifact in handle.store.get_artifacts_by_uri(uri))


def _remove(path: str) -> None:
    if fileio.isdir(path):
        fileio.rmtree(path)
    elif fileio.exists(path):
        fileio.remove(path)
