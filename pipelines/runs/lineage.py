"""Sends OpenLineage events of a node: START before it runs, COMPLETE or FAIL after it.

Input: a compiled node, and the result of TFX's launcher. Output: events, sent by OpenLineage's
client, which environment variables configure. Sending events needs no metadata store. If the server
does not answer, or the client is not installed, no run fails: one warning is logged, and the
process sends no more events.
"""

import logging
import os
import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from importlib.metadata import version
from typing import Any, TypeVar
from urllib.parse import urlsplit
from uuid import NAMESPACE_URL, uuid4, uuid5

from tfx.orchestration.portable.data_types import ExecutionInfo
from tfx.proto.orchestration import pipeline_pb2

from penstock.components.errors import one_line
from penstock.components.files.secrets import without_secrets
from penstock.components.tfrecord.manifest import Manifest
from penstock.pipelines.runs.row_check import listed_manifest

logger = logging.getLogger(__name__)

_VARIABLES = ("OPENLINEAGE_URL", "OPENLINEAGE_CONFIG", "OPENLINEAGE__TRANSPORT__TYPE")
_NAMESPACE = "OPENLINEAGE_NAMESPACE"  # as in OpenLineage's other integrations
# Exec properties with addresses of data that nodes read.
_SOURCES = ("input_base", "external_uri")

ResultT = TypeVar("ResultT")
# Launches a node; returns what TFX's launcher returns, and the node's result.
Launch = Callable[[], tuple[ExecutionInfo | None, ResultT]]


def with_events(
    ir: pipeline_pb2.Pipeline, node: pipeline_pb2.PipelineNode, launch: Launch[ResultT]
) -> ResultT:
    """Calls `launch` and returns the node's result; sends events if one of `_VARIABLES` is set."""
    if not any(map(os.environ.get, _VARIABLES)):
        return launch()[1]
    events = _Events(ir, node.node_info.id)
    events.emit("START")
    try:
        info, result = launch()
    except BaseException as error:
        events.emit("FAIL", error=" ".join(f"{type(error).__name__}: {error}".split()))
        raise
    events.emit("COMPLETE", info)
    return result


class _Events:
    """Events of one attempt of a node; all nodes of a pipeline run have the same parent run."""

    _is_silent = False  # True after the first error, for all nodes of this process

    def __init__(self, ir: pipeline_pb2.Pipeline, node_id: str) -> None:
        pipeline, runtime = ir.pipeline_info.id, ir.runtime_spec
        self._namespace = os.environ.get(_NAMESPACE, "penstock")
        self._pipeline, self._node = pipeline, node_id
        key = (
            runtime.pipeline_root.field_value.string_value,
            runtime.pipeline_run_id.field_value.string_value,
        )
        self._parent = str(uuid5(NAMESPACE_URL, "\0".join((pipeline, *key))))
        self._run = str(uuid4())

    def emit(self, state: str, info: ExecutionInfo | None = None, error: str = "") -> None:
        if _Events._is_silent:
            return
        try:
            self._emit(state, info, error)
        except Exception as failure:
            _Events._is_silent = True
            logger.warning("no OpenLineage events are sent: %s", without_secrets(one_line(failure)))

    def _emit(self, state: str, info: ExecutionInfo | None, error: str) -> None:
        from openlineage.client import OpenLineageClient, set_producer
        from openlineage.client.event_v2 import Job, Run, RunEvent, RunState
        from openlineage.client.facet_v2 import error_message_run, parent_run

        set_producer(f"urn:penstock-tfx:{version('penstock-tfx')}")
        facets: dict[str, Any] = {
            "parent": parent_run.ParentRunFacet(
                parent_run.Run(self._parent), parent_run.Job(self._namespace, self._pipeline)
            )
        }
        if error:
            text = without_secrets(error)
            facets["errorMessage"] = error_message_run.ErrorMessageRunFacet(text, "PYTHON")
        event = RunEvent(
            eventTime=datetime.now(timezone.utc).isoformat(),
            eventType=RunState[state],
            run=Run(self._run, facets),
            job=Job(self._namespace, f"{self._pipeline}.{self._node}"),
            inputs=[*_inputs(info)] if info else [],
            outputs=[*_outputs(info)] if info else [],
        )
        OpenLineageClient().emit(event)


def _inputs(info: ExecutionInfo) -> Iterator[Any]:
    from openlineage.client.event_v2 import InputDataset

    properties = info.exec_properties or {}  # TFX may return None
    for address in (properties.get(name) for name in _SOURCES):
        if address:
            yield InputDataset(*_named(str(address)))
    for uri in _uris(info.input_dict):
        yield InputDataset(*_named(uri), facets=_facets(listed_manifest(uri)))


def _outputs(info: ExecutionInfo) -> Iterator[Any]:
    from openlineage.client.event_v2 import OutputDataset
    from openlineage.client.facet_v2 import output_statistics_output_dataset as statistics

    for uri in _uris(info.output_dict):
        manifest = listed_manifest(uri)
        counts: dict[str, Any] = {}
        if manifest:
            shards = manifest.shards
            counts["outputStatistics"] = statistics.OutputStatisticsOutputDatasetFacet(
                rowCount=sum(shard.rows for shard in shards),
                size=sum(shard.bytes for shard in shards),
                fileCount=len(shards),
            )
        yield OutputDataset(*_named(uri), facets=_facets(manifest), outputFacets=counts)


def _uris(artifacts: Mapping[str, Sequence[Any]] | None) -> Iterable[str]:
    found = (one.uri for several in (artifacts or {}).values() for one in several)
    return dict.fromkeys(filter(None, found))


def _facets(manifest: Manifest | None) -> dict[str, Any]:
    """Returns a dataset's facets: its columns, and the digest of all shards as its version."""
    from openlineage.client.facet_v2 import dataset_version_dataset, schema_dataset

    if manifest is None:
        return {}
    fields = [
        schema_dataset.SchemaDatasetFacetFields(
            column.name, column.kind.lower() + "[]" * column.is_list
        )
        for column in manifest.columns
    ]
    return {
        "schema": schema_dataset.SchemaDatasetFacet(fields=fields),
        "version": dataset_version_dataset.DatasetVersionDatasetFacet(manifest.sha256),
    }


def _named(address: str) -> tuple[str, str]:
    """Returns OpenLineage's namespace and name: `s3://bucket` and a key, or `file` and a path."""
    if "://" not in address:
        return "file", posixpath.abspath(address)
    parts = urlsplit(without_secrets(address))
    return f"{parts.scheme}://{parts.netloc}", parts.path.lstrip("/") or "/"
