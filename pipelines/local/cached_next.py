"""A run that has just ended: whether the next would find every node in the cache, and on what."""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import psutil
from tfx.components.example_gen import utils
from tfx.dsl.compiler import compiler, constants
from tfx.dsl.components.base.base_driver import BaseDriver
from tfx.dsl.components.common.resolver import Resolver
from tfx.orchestration.pipeline import Pipeline
from tfx.orchestration.portable import inputs_utils, runtime_parameter_utils

from penstock.components.example_gen.driver import ContentDriver
from penstock.components.example_gen.node_options import node_inputs
from penstock.components.example_gen.spans import has_span
from penstock.components.sources.kinds import options_to_json
from penstock.pipelines.config.code_digest import FACE
from penstock.pipelines.config.made_from import MadeFrom, module_files
from penstock.pipelines.runs.run_record import NodeRun, latest_run, plain_properties
from penstock.pipelines.runs.summary import RunSummary
from penstock.pipelines.runs.summary_text import show_summary
from penstock.pipelines.runs.unchanged import Unchanged, state_of
from penstock.pipelines.terminal.tables import console

logger = logging.getLogger(__name__)
# How far the time at which a process began may be off.
_CLOCK_SECONDS = 1.0


class InDoubtError(Exception):
    """Why the next run may not find every node in the cache."""


def keep_if_cached_next(
    command: str, made: MadeFrom, pipeline: Pipeline, handle: Any, summary: RunSummary, folder: Path
) -> None:
    """Keep what the run that just ended rests on; where something is in doubt, the log says what.

    Args:
        command: `command_digest` of it.
        made: What the pipeline was made from.
        pipeline: What was run.
        handle: Its metadata store, as TFX's `Metadata`, entered.
        summary: Of the run.
        folder: Of the runs.
    """
    try:
        run = latest_run(handle.store, pipeline.pipeline_name)
        _check_nodes(handle, pipeline, {node.node: node for node in run.nodes}, run.run_id)
        cached = tuple(replace(node, state="cached", seconds=0.0) for node in summary.nodes)
        shown = replace(summary, nodes=cached)
        out = console(file=StringIO())
        show_summary(shown, out)
        Unchanged(
            command,
            run.run_id,
            [node.node for node in run.nodes],
            [*_inputs(pipeline, {node.node: node for node in run.nodes})],
            {**_code(made), **_results(pipeline, run.nodes, summary)},
            out.file.getvalue(),  # type: ignore[attr-defined]  # it is the StringIO
            shown.to_json(),
        ).keep(folder)
    except Exception as error:
        logger.warning("the next run is made in full: %s", error)


def _check_nodes(handle: Any, pipeline: Pipeline, runs: dict[str, NodeRun], run_id: str) -> None:
    """Refuse a node that caches nothing, or would be given other artifacts than it was."""
    ir = compiler.Compiler().compile(pipeline)
    runtime_parameter_utils.substitute_runtime_parameter(
        ir, {constants.PIPELINE_RUN_ID_PARAMETER_NAME: run_id}
    )
    for node in (one.pipeline_node for one in ir.nodes):
        run = runs.get(node.node_info.id)
        if run is None or run.state not in ("done", "cached"):
            raise InDoubtError(f"{node.node_info.id!r} did not run")
        is_resolver = node.node_info.type.name.endswith(Resolver.__name__)
        if not is_resolver and not node.execution_options.caching_options.enable_cache:
            raise InDoubtError(f"{run.node} takes nothing from the cache")
        resolved = inputs_utils.resolve_input_artifacts(pipeline_node=node, metadata_handle=handle)
        now = [{a.id for several in one.values() for a in several} for one in resolved]
        events = handle.store.get_events_by_execution_ids([run.execution_id])
        if now != [{event.artifact_id for event in events if event.type != event.OUTPUT}]:
            raise InDoubtError(f"{run.node} would now be given other artifacts")


def _inputs(
    pipeline: Pipeline, runs: dict[str, NodeRun]
) -> Iterator[tuple[str, list[tuple[str, dict[str, Any]]]]]:
    for node in pipeline.components:
        if node.driver_class is BaseDriver or isinstance(node, Resolver):
            continue
        if node.driver_class is not ContentDriver:
            raise InDoubtError(f"{node.id} looks for its input by itself")
        given = node.exec_properties
        if given.get("range_config") or has_span(f"{given['input_base']} {given['input_config']}"):
            raise InDoubtError(f"{node.id} looks for the newest span")
        [examples] = runs[node.id].outputs
        fingerprint = plain_properties(examples)[utils.FINGERPRINT_PROPERTY_NAME]
        parts = node_inputs(runs[node.id].options)
        yield fingerprint, [(part.pattern, options_to_json(part.source)) for part in parts]


def _code(made: MadeFrom) -> dict[str, Any]:
    """States of what the pipeline was made from and of Penstock, all older than this process."""
    if not made.is_settled:
        raise InDoubtError("the pipeline's modules may look at more than files")
    own = {file for name, file in module_files() if name.partition(".")[0] == FACE}
    states = {path: state_of(path) for path in own | made.files}
    began = (psutil.Process().create_time() - _CLOCK_SECONDS) * 1e9
    for path, state in states.items():
        if isinstance(state, list) and max(state[1:3]) > began:
            raise InDoubtError(f"edited since the run began: {path}")
    return states


def _results(pipeline: Pipeline, nodes: Sequence[NodeRun], summary: RunSummary) -> dict[str, Any]:
    """States of the metadata, the report, all that was given or made, and where it was pushed."""
    places = {pipeline.metadata_connection_config.sqlite.filename_uri, str(summary.report)}
    for artifact in (a for node in nodes for a in (*node.inputs, *node.outputs)):
        pushed = plain_properties(artifact).get("pushed_destination")
        places |= {artifact.uri, *([str(Path(pushed).parent)] if pushed else [])}
    states = {place: state_of(place) for place in places}
    for place, state in states.items():
        if state is None:
            raise InDoubtError(f"{place} is not there, or not a local path")
    return states
