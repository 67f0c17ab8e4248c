"""A model card of a run: its facts, and the words of the person who answers for the model."""

import time
from typing import Any

from penstock.pipelines.reporting.gather import Report
from penstock.pipelines.reporting.model_card import ModelCard
from penstock.pipelines.runs.evaluation_result import OVERALL

_WORST_SLICES = 5


def card_facts(report: Report) -> dict[str, Any]:
    """The card of a model's run as what JSON holds; a part that the run did not come to is None."""
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
