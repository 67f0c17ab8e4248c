"""The note and the report of a run, written at its end.

The run is over and its outcome stands, so nothing here may change it: what goes wrong is one line.
"""

import logging
from pathlib import Path
from typing import Any

from penstock.pipelines.local.run_folder import metadata_file
from penstock.pipelines.reporting.write import write_report
from penstock.pipelines.runs.run_note import take_note, this_command, write_note
from penstock.pipelines.runs.run_record import all_runs
from penstock.pipelines.runs.stores import report_name
from penstock.pipelines.terminal.failures import reason

logger = logging.getLogger(__name__)
# The store rounds times to milliseconds.
_CLOCK_SECONDS = 0.01


def report_run(
    store: Any, pipeline: Any, config: Any, folder: Path, *, since: float, error: str = ""
) -> str:
    """Note and report, in a folder, the run that this process began at `since` and just ended.

    Returns:
        The path of the report, or why there is none.
    """
    try:
        name = pipeline.pipeline_name
        newest = next((run for run in all_runs(store) if run.pipeline == name), None)
        if newest is None or newest.began < since - _CLOCK_SECONDS:
            return "not written: no node began"
        write_note(store, newest.run_id, take_note(this_command(), config, pipeline, error=error))
        run, *earlier = [run for run in all_runs(store) if run.pipeline == name]
        metadata = metadata_file(pipeline.metadata_connection_config)
        path = folder / report_name(str(metadata), name)
        write_report(run, earlier, path)
    except Exception as failure:
        logger.exception("the report failed")
        return f"not written: {reason(failure)}"
    return str(path)
