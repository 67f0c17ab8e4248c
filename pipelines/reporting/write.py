"""Writes report and note of a run, each of them completely or not at all."""

import logging
from pathlib import Path
from typing import Any

from penstock.components.errors import DataError
from penstock.components.files.commit import attempt_file
from penstock.pipelines.reporting.gather import Report, gather
from penstock.pipelines.reporting.page import render_report
from penstock.pipelines.runs.run_note import take_note, this_command, write_note
from penstock.pipelines.runs.run_record import all_runs
from penstock.pipelines.runs.stores import report_name
from penstock.pipelines.terminal.failures import reason

logger = logging.getLogger(__name__)
# Tolerance when times are compared, because the metadata store rounds them to milliseconds.
_CLOCK_SECONDS = 0.01

COMPARISON_NAME = "comparison.html"


def write_page(page: str, out: Path) -> None:
    try:
        with attempt_file(out) as file:
            file.write_text(page, encoding="utf-8")
    except OSError as error:
        raise DataError(f"{out}: the report cannot be written ({error.strerror})") from error


def report_run(
    store: Any, pipeline: Any, config: Any, metadata: Path, *, since: float, error: str = ""
) -> tuple[Report | None, str]:
    """Writes note and report of the run that this process began at the time `since` or later.

    The note goes into the metadata store, the report into the folder of `metadata`.

    Returns the facts of the run (None if they cannot be gathered), and the path of the report (if
    there is none, the reason).
    """
    facts = None
    try:
        name = pipeline.pipeline_name
        newest = next((run for run in all_runs(store) if run.pipeline == name), None)
        if newest is None or newest.began < since - _CLOCK_SECONDS:
            return None, "not written: no node began"
        write_note(store, newest.run_id, take_note(this_command(), config, pipeline, error=error))
        run, *earlier = [run for run in all_runs(store) if run.pipeline == name]
        facts = gather(run, earlier)
        path = metadata.parent / report_name(str(metadata), name)
        write_page(render_report(facts), path)
    except Exception as failure:
        logger.exception("the report failed")
        return facts, f"not written: {reason(failure)}"
    return facts, str(path)
