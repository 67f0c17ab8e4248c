"""Launches one node with TFX's launcher and with Penstock's checks around driver and executor.

TFX checks only that an artifact's path exists. Here, Examples must also match their manifest, and a
pushed model must still be the newest version in its serving folder, and unaltered. A node fails if
its input Examples have changed, even if its outputs are in the cache. If a node's output in the
cache has changed, the node does not use the cache but runs again. The row counts of a node's
outputs are compared with those of its inputs.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import Any

from tfx import types
from tfx.orchestration import metadata
from tfx.orchestration.local import runner_utils
from tfx.orchestration.portable import (
    base_driver_operator,
    base_executor_operator,
    beam_executor_operator,
    cache_utils,
    launcher,
    python_driver_operator,
    python_executor_operator,
)
from tfx.orchestration.portable.data_types import ExecutionInfo
from tfx.orchestration.portable.mlmd import execution_lib
from tfx.proto.orchestration import driver_output_pb2, executable_spec_pb2, pipeline_pb2

from penstock.components.errors import DataError
from penstock.components.gates.served_model import check_served
from penstock.components.tfrecord.checked import check_folder
from penstock.components.tfrecord.manifest import MANIFEST_PROPERTY
from penstock.pipelines.runs.attempts import Execution, note_failure
from penstock.pipelines.runs.lineage import with_events
from penstock.pipelines.runs.row_check import run_and_hold_rows
from penstock.pipelines.terminal.failures import NodeFailedError, brief

logger = logging.getLogger(__name__)

_Artifacts = Mapping[str, Sequence[types.Artifact]]
_PYTHON = executable_spec_pb2.PythonClassExecutableSpec


class State(Enum):
    DONE = "done"
    CACHED = "served from the cache"
    SKIPPED = "skipped by its condition"
    DONE_BEFORE = "done by an earlier try of this run"


@dataclass(frozen=True)
class NodeResult:
    """State of a node, and its TFX artifacts by output key; a skipped node has no artifacts."""

    state: State
    outputs: Mapping[str, list[Any]] = field(default_factory=dict)


def launch(
    ir: pipeline_pb2.Pipeline,
    node: pipeline_pb2.PipelineNode,
    connection: metadata.Metadata,
    *,
    prepare: Callable[[], None] = lambda: None,
    python: Callable[..., Any] = python_executor_operator.PythonExecutorOperator,
) -> NodeResult:
    """Launches a node of a compiled pipeline; raises NodeFailedError if TFX records a failure.

    `prepare` is called before an executor is imported, so it is not called if the node's outputs
    come from the cache. `python` is the operator for executors that are not Beam executors.
    """
    deployment = runner_utils.extract_local_deployment_config(ir)
    node_id = node.node_info.id
    executor = runner_utils.extract_executor_spec(deployment, node_id)
    launched = launcher.Launcher(
        pipeline_node=node,
        mlmd_connection=connection,
        pipeline_info=ir.pipeline_info,
        pipeline_runtime_spec=ir.runtime_spec,
        executor_spec=executor,
        custom_driver_spec=runner_utils.extract_custom_driver_spec(deployment, node_id)
        or _PYTHON(),
        custom_driver_operators={_PYTHON: partial(_CheckedDriver, executor=executor)},
        custom_executor_operators={
            _PYTHON: partial(_HeldExecutor, prepare, python),
            executable_spec_pb2.BeamExecutableSpec: partial(
                _HeldExecutor, prepare, beam_executor_operator.BeamExecutorOperator
            ),
        },
    )

    def launch_and_look() -> tuple[ExecutionInfo | None, NodeResult]:
        info = launched.launch()
        if info is None or not info.execution_id:
            return info, NodeResult(State.SKIPPED)
        with connection as handle:
            return info, _result(handle, node_id, info.execution_id)

    return with_events(ir, node, launch_and_look)


def _result(handle: metadata.Metadata, node_id: str, execution_id: int) -> NodeResult:
    """Reads an execution's result, because TFX's launcher raises no error for a missing input."""
    [execution] = handle.store.get_executions_by_id([execution_id])
    if not execution_lib.is_execution_successful(execution):
        result = execution_lib.get_execution_result(execution, ignore_parse_errors=True)
        reason = result.result_message if result else "TFX's launcher gives no reason"
        raise NodeFailedError(f"node {node_id!r} failed: {brief(reason)}")
    # Executions of a resolver are always in state CACHED, since it computes nothing.
    is_cached = execution.last_known_state == Execution.CACHED
    outputs = execution_lib.get_output_artifacts(handle, execution_id)
    return NodeResult(State.CACHED if is_cached else State.DONE, outputs)


class _CheckedDriver(base_driver_operator.BaseDriverOperator):
    """Checks a node's input and its entry in the cache, which TFX looks up next."""

    SUPPORTED_EXECUTABLE_SPEC_TYPE = (_PYTHON,)

    def __init__(self, driver: Any, connection: metadata.Metadata, *, executor: Any) -> None:
        super().__init__(driver, connection)
        self._executor = executor

    def run_driver(self, execution_info: ExecutionInfo) -> driver_output_pb2.DriverOutput:
        try:
            _check_examples(execution_info.input_dict)
        except DataError as error:
            text = f"{error}; restore it, or run again: the cache does not serve it"
            with self._mlmd_connection as handle:
                note_failure(handle, execution_info.pipeline_node, text)
            raise DataError(text) from error
        output = driver_output_pb2.DriverOutput()
        if self._driver_spec.class_path:
            stock = python_driver_operator.PythonDriverOperator
            output = stock(self._driver_spec, self._mlmd_connection).run_driver(execution_info)
        caching = execution_info.pipeline_node.execution_options.caching_options
        if caching.enable_cache and not _are_whole(self._cached(execution_info, output)):
            caching.enable_cache = False
        return output

    def _cached(self, info: ExecutionInfo, driver: driver_output_pb2.DriverOutput) -> _Artifacts:
        """Returns the outputs that TFX would take from the cache, if any."""
        properties = {
            key: getattr(value, value.WhichOneof("value"))
            for key, value in driver.exec_properties.items()
        }
        outputs = {
            key: [_artifact(type(info.output_dict[key][0]), one) for one in several.artifacts]
            for key, several in driver.output_artifacts.items()
        }
        with self._mlmd_connection as handle:
            context = cache_utils.get_cache_context(
                handle,
                pipeline_node=info.pipeline_node,
                pipeline_info=info.pipeline_info,
                executor_spec=self._executor,
                input_artifacts=info.input_dict,
                output_artifacts={**info.output_dict, **outputs},
                parameters={**info.exec_properties, **properties},
            )
            return cache_utils.get_cached_outputs(handle, context) or {}


class _HeldExecutor(base_executor_operator.BaseExecutorOperator):
    """Runs an executor, and compares the row counts of its outputs with those of its inputs."""

    SUPPORTED_EXECUTOR_SPEC_TYPE = ()  # TFX's operator, which runs the executor, checks the type
    SUPPORTED_PLATFORM_CONFIG_TYPE = ()

    def __init__(
        self, prepare: Callable[[], None], operator: Callable[..., Any], **options: Any
    ) -> None:
        self._prepare = prepare
        self._make = partial(operator, **options)

    def run_executor(self, execution_info: ExecutionInfo) -> Any:
        self._prepare()
        stock = self._make().with_execution_watcher(self._execution_watcher_address)
        return run_and_hold_rows(stock.run_executor, execution_info)


def _artifact(artifact_type: type[types.Artifact], proto: Any) -> types.Artifact:
    artifact = artifact_type()
    artifact.set_mlmd_artifact(proto)
    return artifact


def _are_whole(outputs: _Artifacts) -> bool:
    try:
        _check_examples(outputs)
        for artifact in _of_type(outputs, "PushedModel"):
            check_served(artifact)
    except DataError as error:
        logger.warning("not taken from the cache: %s", error)
        return False
    return True


def _check_examples(artifacts: _Artifacts) -> None:
    for artifact in _of_type(artifacts, "Examples"):
        check_folder(artifact.uri, artifact.get_string_custom_property(MANIFEST_PROPERTY))


def _of_type(artifacts: _Artifacts, type_name: str) -> Iterator[types.Artifact]:
    for several in artifacts.values():
        yield from (artifact for artifact in several if artifact.type_name == type_name)
