"""Writes report, model card and note of a run, each completely or not at all."""

import json
import logging
import time
from pathlib import Path
from typing import Any

from penstock.components.errors import DataError
from penstock.components.files.commit import attempt_file
from penstock.pipelines.local.run_folder import metadata_file
from penstock.pipelines.reporting.gather import Report, gather
from penstock.pipelines.reporting.model_card import ModelCard
from penstock.pipelines.reporting.page import render_card, render_report
from penstock.pipelines.runs.evaluation_result import OVERALL
from penstock.pipelines.runs.run_note import take_note, this_command, write_note
from penstock.pipelines.runs.run_record import all_runs
from penstock.pipelines.runs.stores import report_name
from penstock.pipelines.terminal.failures import reason

logger = logging.getLogger(__name__)
# The metadata store rounds times to milliseconds.
_CLOCK_SECONDS = 0.01
_WORST_SLICES = 5

COMPARISON_NAME = "comparison.html"
_REPORT, _CARD = "report", "model_card"


def write_report(report: Report, out: Path) -> None:
    """Writes the page of a run and, if it trained a model, the model card beside the page."""
    write_page(render_report(report), out)
    if report.model is not None:
        card = card_facts(report)
        write_page(render_card(report, card), card_file(out, ".html"))
        write_page(json.dumps(card, indent=1, ensure_ascii=False), card_file(out, ".json"))


def card_file(report: Path, suffix: str) -> Path:
    """Returns the path of the model card of a report: `taxi-model_card.json`."""
    before = report.stem.removesuffix(_REPORT).rstrip("-")
    return report.with_name(f"{before}-{_CARD}{suffix}" if before else f"{_CARD}{suffix}")


def write_page(page: str, out: Path) -> None:
    try:
        with attempt_file(out) as file:
            file.write_text(page, encoding="utf-8")
    except OSError as error:
        raise DataError(f"{out}: the report cannot be written ({error.strerror})") from error


def card_facts(report: Report) -> dict[str, Any]:
    """Returns the model card in JSON types; parts that the run did not reach are None."""
    card = report.card or ModelCard()
    return {
        "pipeline": report.run.pipeline,
        "run": report.run.run_id,
        "trained": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(report.run.began)),
        "verdict": report.verdict.sentence,
        "words": card.words,
        "drafts": card.drafts,
        "not_filled_in": [name for name, text in card.words.items() if not text],
        "model": _model(report),
        "data": _data(report),
        "training": _training(report),
        "evaluation": _evaluation(report),
        "made_with": dict(report.lineage.versions),
        "code": report.lineage.code,
    }


def _model(report: Report) -> dict[str, Any] | None:
    model = report.model
    if model is None:
        return None
    return {
        "folder": model.folder,
        "parameters": model.parameters,
        "signatures": {
            one.name: {
                "inputs": [spec.name for spec in one.inputs],
                "outputs": [spec.name for spec in one.outputs],
            }
            for one in model.signatures
        },
    }


def _data(report: Report) -> dict[str, Any] | None:
    manifest = report.data.manifest if report.data else None
    if manifest is None:
        return None
    return {
        "from": [origin.place for origin in report.lineage.origins if origin.node != "Rows"],
        "fingerprint": manifest.source_fingerprint,
        "rows_read": manifest.account.read,
        "rows": dict(manifest.account.written),
        "rejected_rows": manifest.account.quarantined,
        "columns": [column.name for column in manifest.columns],
    }


def _training(report: Report) -> dict[str, Any] | None:
    if report.training is None:
        return None
    record = report.training.record
    return {"steps": record.steps, "stopped": record.stopped, "best_epoch": record.best_epoch}


def _evaluation(report: Report) -> dict[str, Any] | None:
    result = report.evaluation.result if report.evaluation else None
    if result is None:
        return None
    worst = result.worst_slices(_WORST_SLICES)
    return {
        "metrics": dict(result.metrics.get(OVERALL, {})),
        "deciding_metric": result.deciding_metric,
        "worst_slices": {name: dict(result.metrics[name]) for name in worst},
        "failures": list(result.failures),
    }


def report_run(
    store: Any, pipeline: Any, config: Any, folder: Path, *, since: float, error: str = ""
) -> tuple[Report | None, str]:
    """Writes note and report of the run that this process began at `since` into a folder.

    Returns the facts of the run, None if they cannot be gathered, and the path of the report, or
    the reason why there is none.
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
        metadata = metadata_file(pipeline.metadata_connection_config)
        path = folder / report_name(str(metadata), name)
        write_report(facts, path)
    except Exception as failure:
        logger.exception("the report failed")
        return facts, f"not written: {reason(failure)}"
    return facts, str(path)
