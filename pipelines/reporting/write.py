"""The report of a run and its model card as files, each of which appears whole or not at all."""

import json
from collections.abc import Sequence
from pathlib import Path

from penstock.components.errors import DataError
from penstock.components.files.commit import attempt_file
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
    try:
        with attempt_file(out) as file:
            file.write_text(page, encoding="utf-8")
    except OSError as error:
        raise DataError(f"{out}: the report cannot be written ({error.strerror})") from error
