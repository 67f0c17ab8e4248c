"""The origin of a run: run record and note in, plain facts out."""

import contextlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.components.files.address import masked
from penstock.components.files.secrets import hide_secret
from penstock.components.tfrecord.manifest import Manifest
from penstock.pipelines.reporting.pipeline_facts import PipelineFacts
from penstock.pipelines.runs.run_note import RunNote
from penstock.pipelines.runs.run_record import RunRecord, plain_properties

_PLACES = ("input_base", "schema_file")
_DIGESTS = ("input_fingerprint", "schema_sha256")


@dataclass(frozen=True)
class Origin:
    """Something from outside that a node read: where it was, and its digest."""

    node: str
    place: str
    digest: str


@dataclass(frozen=True)
class LineageFacts:
    """What it takes to make the run again.

    Attributes:
        command: The command; the empty string where it was not noted.
        origins: Data and schema from outside.
        code: Commit of the user's code; the empty string where it was not noted.
        code_digests: Digest of the code behind a node, by node.
        options: Exec properties by name, by node, JSON parsed, secrets hidden.
    """

    command: str
    origins: Sequence[Origin]
    code: str
    code_digests: Mapping[str, str]
    versions: Mapping[str, str]
    machine: str
    options: Mapping[str, Mapping[str, Any]]


def gather_lineage(
    run: RunRecord, note: RunNote, pipeline: PipelineFacts, manifest: Manifest | None
) -> LineageFacts:
    """The lineage of a run."""
    origins = []
    for node in run.nodes:
        # A node from the cache has no digest among its options; what it gave has.
        known = [node.options, *(plain_properties(artifact) for artifact in node.outputs)]
        place = _first(known, _PLACES)
        if place:
            origins.append(Origin(node.node, _shown_place(place), _first(known, _DIGESTS)))
    if manifest is not None:
        origins.append(Origin("Rows", "as they were read", manifest.source_fingerprint))
    return LineageFacts(
        note.command,
        origins,
        note.code,
        {n.node: digest for n in pipeline.nodes if (digest := _code_digest(n.options))},
        note.versions or _versions_of_artifacts(run),
        note.machine,
        {
            n.node: {k: _shown(k, v) for k, v in n.options.items()}
            for n in pipeline.nodes
            if n.options
        },
    )


def _first(known: Sequence[Mapping[str, Any]], names: Sequence[str]) -> str:
    """The first that says something under one of the names."""
    found = (str(k[name]) for k in known for name in names if k.get(name))
    return next(found, "")


def _shown_place(place: str) -> str:
    """As much of an address as may be shown."""
    if hide_secret("", place) == place:
        return place
    return hide_secret("", masked(place))


def _code_digest(options: Mapping[str, Any]) -> str:
    try:
        config = json.loads(options.get("custom_config") or "{}")
    except ValueError:
        return ""
    return str(config.get("code", "")) if isinstance(config, dict) else ""


def _versions_of_artifacts(run: RunRecord) -> dict[str, str]:
    """TFX notes its own version with what it makes, and nothing else."""
    for node in run.nodes:
        for artifact in node.outputs:
            if version := plain_properties(artifact).get("tfx_version"):
                return {"tfx": str(version)}
    return {}


def _shown(name: str, value: Any) -> Any:
    """What JSON says, the JSON within it too; anything else as it is; secrets hidden."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        with contextlib.suppress(ValueError):
            value = json.loads(value)
    if isinstance(value, dict):
        return {key: _shown(key, part) for key, part in value.items()}
    if isinstance(value, list):
        return [_shown(name, part) for part in value]
    return hide_secret(name, value) if isinstance(value, str) else value
