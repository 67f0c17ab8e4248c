"""Runs one node of a TFX pipeline with TFX's own launcher, in one container.

Input: the pipeline's IR, a run id, runtime parameters, a pipeline root and a metadata store.
Output: the node's artifacts below the root, and its execution in the store. Drivers, resolvers,
conditions and the cache are TFX's own, so a node behaves as in `LocalDagRunner`, with one
exception: a missing input fails the node, while `LocalDagRunner` ignores it.
"""

import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import Any

from tfx.orchestration import metadata
from tfx.orchestration.local import runner_utils
from tfx.orchestration.portable import runtime_parameter_utils
from tfx.orchestration.portable.mlmd import execution_lib
from tfx.proto.orchestration import pipeline_pb2

from penstock.components.errors import PenstockError
from penstock.pipelines.kubeflow import ir as irs
from penstock.pipelines.kubeflow.light_launcher import import_driver, load_tensorflow
from penstock.pipelines.runs import attempts
from penstock.pipelines.runs.launch import NodeResult, State, launch
from penstock.pipelines.runs.metadata_store import MetadataStore, hide_password, store_errors
from penstock.pipelines.terminal.failures import NodeFailedError, brief


def launch_node(
    ir: pipeline_pb2.Pipeline,
    node_id: str,
    *,
    run_id: str,
    store: MetadataStore,
    parameters: Mapping[str, str] | None = None,
    pipeline_root: str | None = None,
    worker_job: Mapping[str, Any] | None = None,
) -> NodeResult:
    """Runs one node of a pipeline.

    A retry in the same run does not see outputs of failed attempts, and a node that has succeeded
    is not run again. SIGTERM fails the node, which is then published as failed.
    """
    ir = _bound(ir, node_id, run_id, parameters or {}, pipeline_root)
    node = irs.find_node(ir, node_id)
    connection = metadata.Metadata(store.connection_config())
    with store_errors(store), connection as handle:
        earlier = attempts.executions_of(handle, node)
        done = [e for e in earlier if execution_lib.is_execution_successful(e)]
        if done:
            outputs = execution_lib.get_output_artifacts(handle, done[-1].id)
            return NodeResult(State.DONE_BEFORE, outputs)
        attempts.close_attempts(handle, earlier, node, ir.runtime_spec)
    attempts.set_apart(node, run_id, len(earlier) + 1)
    _import_beside(node)
    try:
        return _launch(ir, node, connection, worker_job)
    except NodeFailedError as error:
        with store_errors(store), connection as handle:
            attempts.note_failure(handle, node, str(error))
        raise


def _import_beside(node: pipeline_pb2.PipelineNode) -> None:
    """Lets a `module_file` import the other modules in its folder.

    TFX's own runners pack these modules into a wheel instead. TFX's compiler leaves the path of the
    file in the IR, and TFX's executors load the file from that path, without pip. The content of
    the file is part of TFX's cache key.
    """
    parameters = node.parameters.parameters
    file = parameters["module_file"].field_value.string_value if "module_file" in parameters else ""
    if file and "://" not in file:
        folder = os.path.dirname(os.path.abspath(file))
        sys.path.append(folder)
        paths = [os.environ.get("PYTHONPATH", ""), folder]
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))


def _bound(
    ir: pipeline_pb2.Pipeline,
    node_id: str,
    run_id: str,
    parameters: Mapping[str, str],
    pipeline_root: str | None,
) -> pipeline_pb2.Pipeline:
    bindings: dict[str, Any] = dict(irs.bind_parameters(ir, node_id, parameters))
    bindings[irs.RUN_ID] = run_id
    if pipeline_root:
        # The store records outputs under this path, so it must be absolute.
        remote = "://" in pipeline_root
        bindings[irs.ROOT] = pipeline_root if remote else os.path.abspath(pipeline_root)
    bound = pipeline_pb2.Pipeline()
    bound.CopyFrom(ir)
    runtime_parameter_utils.substitute_runtime_parameter(bound, bindings)
    return bound


def _launch(
    ir: pipeline_pb2.Pipeline,
    node: pipeline_pb2.PipelineNode,
    connection: metadata.Metadata,
    worker_job: Mapping[str, Any] | None,
) -> NodeResult:
    node_id = node.node_info.id
    options: dict[str, Any] = {"prepare": load_tensorflow}
    if worker_job is not None:
        from penstock.pipelines.kubeflow.worker_jobs import JobOperator

        options["python"] = partial(JobOperator, job=worker_job)
    deployment = runner_utils.extract_local_deployment_config(ir)
    driver = runner_utils.extract_custom_driver_spec(deployment, node_id)
    if "://" in ir.runtime_spec.pipeline_root.field_value.string_value:
        load_tensorflow()
    elif driver is not None:
        import_driver(driver.class_path)
    try:
        with _sigterm_raises(node_id):
            return launch(ir, node, connection, **options)
    except NodeFailedError:
        raise
    except PenstockError as error:
        raise NodeFailedError(f"node {node_id!r} failed: {error}") from error
    except Exception as error:
        # For an error in the user's or TFX's code, the traceback goes to the log and one line to
        # stderr.
        print(hide_password(traceback.format_exc()), flush=True)
        reason = hide_password(f"{type(error).__name__}: {error}")
        raise NodeFailedError(f"node {node_id!r} failed: {brief(reason)}") from error


@contextmanager
def _sigterm_raises(node_id: str) -> Iterator[None]:
    """Turns SIGTERM into an exception, so that the launcher publishes the failure and cleans up.

    While training code handles SIGTERM itself, to save a checkpoint, its handler replaces this one.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise NodeFailedError(f"node {node_id!r} was stopped by SIGTERM; run it again")

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
