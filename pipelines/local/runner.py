"""Runs a pipeline in this process with TFX's LocalDagRunner, and shows each node's progress.

Only one run at a time uses the folder of a pipeline's runs. It first removes the leftovers of
killed runs.
"""

import sqlite3
from collections.abc import Callable
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from ml_metadata import errors
from tfx.dsl.compiler import constants
from tfx.orchestration import metadata
from tfx.orchestration.local.local_dag_runner import LocalDagRunner
from tfx.orchestration.pipeline import Pipeline
from tfx.orchestration.portable import runtime_parameter_utils
from tfx.orchestration.portable.mlmd import execution_lib
from tfx.proto.orchestration import pipeline_pb2

from penstock.components.activity import listening
from penstock.components.engine.processes import kept_processes
from penstock.components.errors import DataError, UsageError
from penstock.components.files.spool import remove_copies
from penstock.components.memory import release_memory
from penstock.components.trainer.interrupt import TrainingInterruptedError
from penstock.pipelines.runs import attempts
from penstock.pipelines.runs.launch import NodeResult, launch
from penstock.pipelines.runs.metadata_store import SqliteStore, only_run, open_store, unusable
from penstock.pipelines.terminal.failures import NodeFailedError, reason
from penstock.pipelines.terminal.interrupts import EXIT_CODE, was_interrupted
from penstock.pipelines.terminal.progress import FAILED, Progress

# A reader such as a notebook holds the store's lock only for milliseconds, so this wait is long
# enough.
_LOCK_WAIT_SECONDS = 2.0
_LOST = "put a copy of it back, or start over with another --root"


class NodeInterruptedError(NodeFailedError):
    """Ctrl-C or SIGTERM arrived while a node ran; the message names the node."""

    exit_code = EXIT_CODE


def run_locally(
    pipeline: Pipeline,
    progress: Progress,
    *,
    check: Callable[[pipeline_pb2.Pipeline], None] = lambda ir: None,
) -> None:
    """Run all nodes of a pipeline in order; unchanged nodes come from the cache.

    First closes executions of killed runs and removes their leftovers.
    """
    file = metadata_file(pipeline.metadata_connection_config)
    with only_run(file.parent):
        _check_store(file, pipeline)
        _WatchedRunner(pipeline.metadata_connection_config, progress, check).run(pipeline)


class _WatchedRunner(LocalDagRunner):
    """LocalDagRunner that also cleans up after killed runs and reports each node's progress."""

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

        This loop replaces TFX's own, which has no hook between nodes.
        """
        del run_options
        self._check(pipeline)
        _clean_up(pipeline, self._connection)
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
            # A driver copies remote input to compute digests. After a cache hit, no executor runs
            # that would remove the copies.
            remove_copies()
            release_memory()
        self._progress.end(node, state)


def metadata_file(connection: Any) -> Path:
    """Returns the sqlite file of an `ml_metadata.proto.ConnectionConfig`."""
    if connection is None or not connection.HasField("sqlite"):
        raise UsageError(
            "the pipeline must keep its metadata in an sqlite file: "
            "metadata_connection_config=sqlite_metadata_connection_config(PATH)"
        )
    if "://" in connection.sqlite.filename_uri:
        raise UsageError(
            f"{connection.sqlite.filename_uri}: the metadata must be in a file of this machine; "
            "give the address as pipeline_root, and a folder as root"
        )
    return Path(connection.sqlite.filename_uri)


def _check_store(file: Path, pipeline: Pipeline) -> None:
    """Checks that the metadata store is whole and writable; without one, that no outputs exist.

    Without this check, TFX would retry for five minutes, or create a new store and mix its outputs
    with those of the old store.
    """
    if not file.exists() or not file.stat().st_size:
        _refuse_unknown_outputs(file, pipeline)
        return
    store = sqlite3.connect(file, timeout=_LOCK_WAIT_SECONDS)
    try:
        store.execute("begin immediate")
        store.rollback()
        [(found,), *_] = store.execute("pragma quick_check(1)").fetchall()
    except sqlite3.DatabaseError as error:
        raise DataError(
            f"{file}: the metadata store cannot be written ({error}); if another process "
            "holds it locked, end that one"
        ) from error
    finally:
        store.close()
    if found != "ok":
        raise DataError(
            f"{file}: the metadata store is damaged ({' '.join(found.split())}); {_LOST}"
        )


def _refuse_unknown_outputs(file: Path, pipeline: Pipeline) -> None:
    root = Path(pipeline.pipeline_info.pipeline_root)
    for node in pipeline.components:
        if (root / node.id).is_dir():
            raise DataError(
                f"{file}: the metadata store is gone, and nothing else knows the outputs in "
                f"{root / node.id}; {_LOST}"
            )


def _clean_up(ir: pipeline_pb2.Pipeline, connection: Any) -> None:
    """Closes executions of processes that no longer exist, and removes their leftovers.

    Call this only while no other run uses the folder.
    """
    bound = pipeline_pb2.Pipeline()
    bound.CopyFrom(ir)
    runtime_parameter_utils.substitute_runtime_parameter(
        bound, {constants.PIPELINE_RUN_ID_PARAMETER_NAME: "none"}
    )
    with open_store(SqliteStore(str(metadata_file(connection)))) as handle:
        for node in bound.nodes:
            contexts = [constants.NODE_CONTEXT_TYPE_NAME]
            executions = attempts.executions_of(handle, node.pipeline_node, contexts)
            abandoned = [e for e in executions if execution_lib.is_execution_active(e)]
            attempts.close_attempts(handle, abandoned, node.pipeline_node, bound.runtime_spec)
            attempts.remove_stateful(node.pipeline_node, bound.runtime_spec)
