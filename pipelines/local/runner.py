"""Runs a pipeline in this process by TFX's LocalDagRunner, with progress of each node."""

from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Any

from ml_metadata import errors
from tfx.dsl.compiler import constants
from tfx.orchestration import metadata
from tfx.orchestration.local.local_dag_runner import LocalDagRunner
from tfx.orchestration.pipeline import Pipeline
from tfx.orchestration.portable import runtime_parameter_utils
from tfx.proto.orchestration import pipeline_pb2

from penstock.components.activity import listening
from penstock.components.engine.processes import kept_processes
from penstock.components.files.spool import remove_copies
from penstock.components.memory import release_memory
from penstock.components.trainer.interrupt import TrainingInterruptedError
from penstock.pipelines.local.run_folder import check_store, clean_up, metadata_file
from penstock.pipelines.runs.launch import NodeResult, launch
from penstock.pipelines.runs.metadata_store import SqliteStore, only_run, unusable
from penstock.pipelines.terminal.failures import NodeFailedError, reason
from penstock.pipelines.terminal.interrupts import EXIT_CODE, was_interrupted
from penstock.pipelines.terminal.progress import FAILED, Progress


class NodeInterruptedError(NodeFailedError):
    """Ctrl-C or SIGTERM came while a node ran; the message names the node."""

    exit_code = EXIT_CODE


def run_locally(
    pipeline: Pipeline,
    progress: Progress,
    *,
    check: Callable[[pipeline_pb2.Pipeline], None] = lambda ir: None,
) -> None:
    """Run all nodes of a pipeline, one after the other; unchanged nodes come from the cache.

    First closes executions of killed runs and removes their leftovers.
    """
    file = metadata_file(pipeline.metadata_connection_config)
    with only_run(file.parent):
        check_store(file, pipeline)
        _WatchedRunner(pipeline.metadata_connection_config, progress, check).run(pipeline)


class _WatchedRunner(LocalDagRunner):
    """TFX's runner that cleans up after killed runs and reports the progress of each node."""

    def __init__(
        self,
        connection: Any,
        progress: Progress,
        check: Callable[[pipeline_pb2.Pipeline], None],
    ) -> None:
        super().__init__()
        self._check = check
        self._connection = connection
        self._progress = progress

    def run_with_ir(
        self, pipeline: pipeline_pb2.Pipeline, run_options: pipeline_pb2.RunOptions | None = None
    ) -> None:
        """Removes leftovers of killed runs, then runs a compiled pipeline node by node.

        TFX's own loop has no place for checks between its nodes.
        """
        del run_options
        self._check(pipeline)
        clean_up(pipeline, self._connection)
        run_id = {constants.PIPELINE_RUN_ID_PARAMETER_NAME: datetime.now().isoformat()}
        runtime_parameter_utils.substitute_runtime_parameter(pipeline, run_id)
        nodes = [node.pipeline_node for node in pipeline.nodes]
        self._progress.plan([node.node_info.id for node in nodes])
        with listening(self._progress.tell), kept_processes():
            for node in nodes:
                connection = metadata.Metadata(self._connection)
                run = partial(launch, pipeline, node, connection)
                self._launch(node.node_info.id, run)

    def _launch(self, node: str, run: Callable[[], NodeResult]) -> None:
        self._progress.start(node)
        try:
            state = run().state.name.lower()
        except BaseException as error:
            self._progress.end(node, FAILED)
            if isinstance(error, TrainingInterruptedError):
                raise NodeInterruptedError(f"interrupted in node {node!r}: {error}") from error
            if was_interrupted(error):
                raise NodeInterruptedError(
                    f"interrupted in node {node!r}; run again to continue from there"
                ) from error
            if isinstance(error, SystemExit):
                raise NodeFailedError(
                    f"node {node!r} failed: its code called sys.exit({error.code!r})"
                ) from error
            if isinstance(error, NodeFailedError) or not isinstance(error, Exception):
                raise
            if isinstance(error, errors.StatusError):  # the metadata store failed, not the node
                store = SqliteStore(self._connection.sqlite.filename_uri)
                raise NodeFailedError(f"node {node!r} failed: {unusable(store, error)}") from error
            raise NodeFailedError(f"node {node!r} failed: {reason(error)}") from error
        finally:
            # A driver copies remote input to compute digests; nobody reads the copies after a cache
            # hit.
            remove_copies()
            release_memory()
        self._progress.end(node, state)
