"""Prints every execution in a metadata store as JSON, oldest first; runs in the image.

python print_executions.py FILE|mysql://HOST:PORT/DATABASE
"""

import json
import sys

from ml_metadata.metadata_store import MetadataStore
from ml_metadata.proto import metadata_store_pb2

from penstock.pipelines.runs.metadata_store import store_of

INPUT = metadata_store_pb2.Event.INPUT
OUTPUT = metadata_store_pb2.Event.OUTPUT


def _describe(store, execution):
    contexts = {
        context.type: context.name for context in store.get_contexts_by_execution(execution.id)
    }
    found = {INPUT: {}, OUTPUT: {}}
    for event in store.get_events_by_execution_ids([execution.id]):
        if event.type in found:
            (artifact,) = store.get_artifacts_by_id([event.artifact_id])
            found[event.type][event.path.steps[0].key] = artifact.uri
    return {
        "node": contexts["node"].partition(".")[2],
        "run": contexts["pipeline_run"],
        "state": metadata_store_pb2.Execution.State.Name(execution.last_known_state),
        "inputs": found[INPUT],
        "outputs": found[OUTPUT],
    }


opened = MetadataStore(store_of(sys.argv[1]).connection_config())
executions = sorted(opened.get_executions(), key=lambda execution: execution.id)
print(json.dumps([_describe(opened, execution) for execution in executions]))
