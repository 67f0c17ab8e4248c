"""`penstock run`: runs a whole pipeline on this machine, from raw data to a pushed model."""

import logging
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.components.errors import DataError
from penstock.components.memory import without_collection
from penstock.pipelines.cli.option_flags import Assignments, Config
from penstock.pipelines.cli.predict import require_place
from penstock.pipelines.config.overrides import load_overrides
from penstock.pipelines.config.registry import (
    HERE,
    PIPELINES,
    PipelineFactory,
    find_pipeline,
    peek_config,
)
from penstock.pipelines.terminal.failures import NodeFailedError
from penstock.pipelines.terminal.noise import Noise, noise_to_log
from penstock.pipelines.terminal.progress import Progress, make_progress

if TYPE_CHECKING:
    from tfx.orchestration.pipeline import Pipeline

    from penstock.pipelines.reporting.gather import Report
    from penstock.pipelines.reporting.summary import RunSummary

logger = logging.getLogger(__name__)


def command(
    pipeline: Annotated[
        str,
        typer.Argument(
            help=f"{', '.join(PIPELINES)}, or your own as package.module:function; else the one "
            "of the package in the working directory."
        ),
    ] = HERE,
    assignments: Assignments = None,
    config: Config = None,
    root: Annotated[
        Path | None,
        typer.Option(help="Folder of the runs; sets the option 'root'. [runs/PIPELINE]"),
    ] = None,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Print the summary as JSON."),
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print the summary only.")] = False,
) -> None:
    """Run a pipeline and print a summary.

    Nodes that are unchanged since the last run come from the cache, if enable_cache is True.

    Example: penstock run taxi --set train.max_steps=500
    """
    changes = load_overrides(config, assignments or [])
    if root is not None:
        changes["root"] = str(root)
    summary = run_quietly(pipeline, changes, quiet=quiet)
    if as_json:
        typer.echo(summary.to_json(), nl=False)
        return
    from penstock.pipelines.reporting.summary import show_summary

    show_summary(summary)


def run_quietly(
    name: str,
    changes: Mapping[str, Any],
    *,
    quiet: bool = False,
) -> "RunSummary":
    """Run a pipeline with its progress on stderr and the output of its nodes in a log."""
    config = peek_config(name, changes)
    data = getattr(config, "data", None)
    # The node itself resolves {SPAN}, {YYYY} and so on.
    if isinstance(data, str) and data and "{" not in data:
        require_place(data)
    with (
        noise_to_log() as noise,
        make_progress(noise.screen, f"penstock run {name}", quiet=quiet) as progress,
    ):
        return replace(_run(name, changes, noise, progress), log=str(noise.log))


def _run(name: str, changes: Mapping[str, Any], noise: Noise, progress: Progress) -> "RunSummary":
    with without_collection():
        factory = find_pipeline(name, changes)
        pipeline = _make(name, factory)

        # Imported after the pipeline is found, so that its errors show before these slow imports.
        from penstock.pipelines.kubeflow.refusals import check_no_secrets
        from penstock.pipelines.local.run_folder import metadata_file
        from penstock.pipelines.local.runner import run_locally
        from penstock.pipelines.reporting.summary import summarize
        from penstock.pipelines.reporting.write import report_run
        from penstock.pipelines.runs.metadata_store import SqliteStore, open_store

    file = metadata_file(pipeline.metadata_connection_config)
    folder = file.parent
    noise.keep_in(folder / "logs" / time.strftime("%Y-%m-%d_%H-%M-%S.log"))
    progress.log(str(noise.log))
    began = time.time()

    def report(error: str = "") -> tuple["Report | None", str]:
        with open_store(SqliteStore(str(file))) as handle:
            return report_run(
                handle.store, pipeline, factory.config, folder, since=began, error=error
            )

    try:
        run_locally(pipeline, progress, check=check_no_secrets)
    except NodeFailedError as error:
        logger.exception("the run failed")
        _, written = report(str(error))
        raise type(error)(f"{error}\n  report: {written}\n  log: {noise.log}") from error
    facts, written = report()
    if facts is None:
        raise DataError(f"the run is done, and its report {written}; log: {noise.log}")
    return summarize(facts, written)


def _make(name: str, factory: PipelineFactory) -> "Pipeline":
    import tensorflow as tf

    try:
        return factory.make()
    except tf.errors.OpError as error:  # TFX creates the metadata store's folder through gfile
        raise DataError(f"pipeline {name!r} cannot be made: {error.message}") from error
