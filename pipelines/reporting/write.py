"""The report of a run as a file, which appears whole or not at all."""

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path

from penstock.components.errors import DataError
from penstock.pipelines.reporting.gather import gather
from penstock.pipelines.reporting.page import render_report
from penstock.pipelines.runs.run_record import RunRecord

COMPARISON_NAME = "comparison.html"


def write_report(run: RunRecord, earlier: Sequence[RunRecord], out: Path) -> None:
    """Write the page of a run.

    Args:
        run: The run.
        earlier: Runs of the same pipeline before it, the newest first.
        out: The file; one that is there is replaced.

    Raises:
        DataError: The file cannot be written.
    """
    write_page(render_report(gather(run, earlier)), out)


def write_page(page: str, out: Path) -> None:
    """Write a page in one step.

    Raises:
        DataError: The file cannot be written.
    """
    temporary = out.with_name(f".{out.name}.{os.getpid()}")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(page, encoding="utf-8")
        temporary.replace(out)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise DataError(f"{out}: the report cannot be written ({error.strerror})") from error
