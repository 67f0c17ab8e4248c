"""`penstock run`: runs a whole pipeline on this machine, from raw data to a pushed model."""

import functools
import importlib
import logging
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.components.errors import DataError
from penstock.components.memory import imports_that_stay
from penstock.pipelines.cli.option_flags import Assignments, Config, Spans
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
    spans: Spans = None,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Print the summary as JSON."),
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print the summary only.")] = False,
) -> None:
    """Run a pipeline and print a summary.

    If enable_cache is on, nodes that are unchanged since the last run come from the cache.

    Example: penstock run taxi --set train.max_steps=500
    """
    changes = load_overrides(config, assignments or [])
    if root is not None:
        changes["root"] = str(root)
    if spans is None:
        _show(_run_quietly(pipeline, changes, quiet=quiet), as_json=as_json)
    else:
        _run_spans(pipeline, changes, spans, as_json=as_json, quiet=quiet)


def run(pipeline: str = HERE, options: Mapping[str, Any] | None = None) -> "RunSummary":
    """Run a pipeline on this machine; a log next to its metadata gets the output of its nodes.

    Args:
        pipeline: `taxi`, `digits`, or a dotted path such as `my_package.pipeline:create_pipeline`;
            by default the pipeline of the package in the working directory.
        options: Config options to change, by name; nested options are mappings:
            `{"root": "runs/mine", "train": {"max_steps": 80}}`.

    Returns:
        Summary of the run: rows read, metrics, and the pushed model.

    Raises:
        UsageError: The pipeline or an option does not exist.
        DataError: A node failed, or another run is active in the same root; the message gives the
            reason.
    """
    return _run_quietly(pipeline, options or {})


def _run_spans(
    name: str, changes: Mapping[str, Any], text: str, *, as_json: bool, quiet: bool
) -> None:
    """Runs a pipeline once for each span, in order, and stops at the first failure.

    In a range, spans with a finished run are skipped. If runs depend on earlier spans, a span is
    skipped only if all spans before it in the range are skipped.
    """
    from penstock.pipelines.runs.spans import check_spans, parse_spans, run_spans

    spans = parse_spans(text)
    config = peek_config(name, changes) or _find(name, changes).config
    check_spans(getattr(config, "data", None), spans)

    def start(span: int) -> None:
        _show(_run_quietly(name, {**changes, "span": span}, quiet=quiet), as_json=as_json)

    run_spans(
        spans,
        start,
        lambda span: _finished(name, {**changes, "span": span}),
        functools.partial(typer.echo, err=True),
        quiet=quiet,
        chained=getattr(config, "last_spans", 1) > 1 or bool(getattr(config, "start_from", None)),
    )


def _finished(name: str, changes: Mapping[str, Any]) -> str:
    """Returns the id of a successful run with the same data and options; "" if there is none."""
    with noise_to_log():
        factory = _find(name, changes)
        pipeline = _make(name, factory)

        from penstock.components.example_gen.component import ShardedExampleGen
        from penstock.components.example_gen.driver import resolved_fingerprint
        from penstock.pipelines.local.runner import metadata_file
        from penstock.pipelines.runs.metadata_store import SqliteStore, is_metadata, open_reading
        from penstock.pipelines.runs.spans import finished_run

        file = str(metadata_file(pipeline.metadata_connection_config))
        nodes = pipeline.components
        reader = next((one for one in nodes if isinstance(one, ShardedExampleGen)), None)
        if reader is None or not is_metadata(file):
            return ""
        with open_reading(SqliteStore(file)) as store:
            data = resolved_fingerprint(reader)
            found = finished_run(store, pipeline.pipeline_info.pipeline_name, factory.config, data)
            return found.run_id if found else ""


def _show(summary: "RunSummary", *, as_json: bool) -> None:
    if as_json:
        typer.echo(summary.to_json(), nl=False)
        return
    from penstock.pipelines.reporting.summary import show_summary

    show_summary(summary)


def _run_quietly(
    name: str,
    changes: Mapping[str, Any],
    *,
    quiet: bool = False,
) -> "RunSummary":
    """Run a pipeline with its progress on stderr and the output of its nodes in a log."""
    config = peek_config(name, changes)
    data = getattr(config, "data", None)
    # A path with {SPAN}, {YYYY} and so on is not checked here, because the ExampleGen resolves it.
    if isinstance(data, str) and data and "{" not in data:
        require_place(data)
    with (
        noise_to_log() as noise,
        make_progress(noise.screen, f"penstock run {name}", quiet=quiet) as progress,
    ):
        return replace(_run(name, changes, noise, progress), log=str(noise.log))


def _run(name: str, changes: Mapping[str, Any], noise: Noise, progress: Progress) -> "RunSummary":
    factory = _find(name, changes)
    pipeline = _make(name, factory)

    from penstock.pipelines.kubeflow.refusals import check_no_secrets
    from penstock.pipelines.local.runner import metadata_file, run_locally
    from penstock.pipelines.reporting.summary import summarize
    from penstock.pipelines.reporting.write import report_run
    from penstock.pipelines.runs.metadata_store import SqliteStore, open_store

    file = metadata_file(pipeline.metadata_connection_config)
    noise.keep_in(file.parent / "logs" / time.strftime("%Y-%m-%d_%H-%M-%S.log"))
    progress.log(str(noise.log))
    began = time.time()

    def report(error: str = "") -> tuple["Report | None", str]:
        with open_store(SqliteStore(str(file))) as handle:
            return report_run(
                handle.store, pipeline, factory.config, file, since=began, error=error
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


def _find(name: str, changes: Mapping[str, Any]) -> PipelineFactory:
    _import_libraries()
    return find_pipeline(name, changes)


@functools.cache
def _import_libraries() -> None:
    """Imports a run's libraries once, before objects of the user's modules exist.

    Garbage collection skips these libraries' objects, but must not skip those of user modules.

    Libraries keep the exceptions of failed imports, and such an exception references all frames of
    its thread and the objects in these frames. So the imports run in a separate thread, which has
    no frames of the caller.
    """

    def load() -> None:
        for module in ("local.runner", "reporting.write", "reporting.summary"):
            importlib.import_module(f"penstock.pipelines.{module}")

    with imports_that_stay(), ThreadPoolExecutor(max_workers=1) as pool:
        pool.submit(load).result()


def _make(name: str, factory: PipelineFactory) -> "Pipeline":
    import tensorflow as tf

    try:
        return factory.make()
    except tf.errors.OpError as error:  # TFX makes the metadata store's folder with `tf.io.gfile`
        raise DataError(f"pipeline {name!r} cannot be made: {error.message}") from error
