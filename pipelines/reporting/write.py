"""The report of a run and its model card as files, each of which appears whole or not at all."""

import contextlib
import json
import os
from collections.abc import Sequence
from pathlib import Path

from penstock.components.errors import DataError
from penstock.pipelines.reporting.card_facts import card_facts
from penstock.pipelines.reporting.gather import gather
from penstock.pipelines.reporting.page import render_card, render_report
from penstock.pipelines.runs.run_record import RunRecord

COMPARISON_NAME = "comparison.html"
_REPORT, _CARD = "report", "model_card"


def write_report(run: RunRecord, earlier: Sequence[RunRecord], out: Path) -> None:
    """Write the page of a run and, where it trained a model, `model_card.json` and `.html` beside.

    Raises:
        DataError: The file cannot be written.
    """
    report = gather(run, earlier)
    write_page(render_report(report), out)
    if report.model is not None:
        card = card_facts(report)
        write_page(render_card(report, card), card_file(out, ".html"))
        write_page(json.dumps(card, indent=1, ensure_ascii=False), card_file(out, ".json"))


def card_file(report: Path, suffix: str) -> Path:
    """The model card beside a report: `model_card.json`, `taxi-model_card.json`."""
    before = report.stem.removesuffix(_REPORT).rstrip("-")
    return report.with_name(f"{before}-{_CARD}{suffix}" if before else f"{_CARD}{suffix}")


def write_page(page: str, out: Path) -> None:
    """Write a page in one step; DataError if the file cannot be written."""
    temporary = out.with_name(f".{out.name}.{os.getpid()}")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(page, encoding="utf-8")
        temporary.replace(out)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise DataError(f"{out}: the report cannot be written ({error.strerror})") from error
