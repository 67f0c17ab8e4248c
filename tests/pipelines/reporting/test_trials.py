import json

import pytest
from shared_runs import words

from penstock.pipelines.reporting.gather import gather
from penstock.pipelines.reporting.page import render_report
from penstock.pipelines.reporting.summary import show_summary, summarize

RESULTS = [
    {"trial_id": "1", "score": 0.25, "units": 64, "rate": 0.012345},
    {"trial_id": "0", "score": 0.5, "units": 32, "rate": 0.1},
]


@pytest.mark.parametrize(
    ("custom_config", "objective"),
    [({"tune": {"objective": "val_auc"}}, "val_auc"), (None, "score")],
)
def test_trials_are_in_summary_and_page(runs, capsys, custom_config, objective):
    results = runs.artifact("TunerResults", runs.folder / "results")
    (runs.folder / "results").mkdir()
    (runs.folder / "results/tuner_results.json").write_text(json.dumps(RESULTS))
    options = {"tuner_fn": "mine.tuner_fn", "custom_config": json.dumps(custom_config)}
    runs.node("run-1", "Tuner", outputs=[results], **options)
    facts = gather(*runs.newest())
    summary = summarize(facts)
    show_summary(summary)
    line = f"2 trials, best {objective} 0.2500 in trial 1: units 64, rate 0.01235"
    assert f"trials      {line}" in capsys.readouterr().out.splitlines()
    assert json.loads(summary.to_json())["trials"]["rows"] == RESULTS
    page = words(render_report(facts))
    assert f"{line}." in page
    assert f"Trial {objective} units rate 1 best 0.2500 64 0.0123 0 0.5000 32 0.1000" in page
    assert f"{objective}: from 0.5000 to 0.2500" in page  # the plot, in the order of the trials
