"""The folder of a pipeline's runs: one run at a time, no leftovers of killed runs."""

import sqlite3
from pathlib import Path
from typing import Any

from tfx.dsl.compiler import constants
from tfx.orchestration.pipeline import Pipeline
from tfx.orchestration.portable import runtime_parameter_utils
from tfx.orchestration.portable.mlmd import execution_lib
from tfx.proto.orchestration import pipeline_pb2

from penstock.components.errors import DataError, UsageError
from penstock.pipelines.runs import attempts
from penstock.pipelines.runs.metadata_store import SqliteStore, open_store

# A reader such as a notebook holds the lock for milliseconds.
_LOCK_WAIT_SECONDS = 2.0
_LOST = "put a copy of it back, or start over with another --root"


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


def check_store(file: Path, pipeline: Pipeline) -> None:
    """Checks that the metadata exists, is whole and can be written.

    TFX itself would retry for five minutes, or begin a new store, whose outputs would be mixed with
    those of the old store.
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


def clean_up(ir: pipeline_pb2.Pipeline, connection: Any) -> None:
    """Closes executions of processes that are gone, and removes their leftovers.

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
