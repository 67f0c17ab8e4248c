"""The whole taxi pipeline, from the command line, on the real data."""

import csv
import json
import os
import shutil
import signal
import time
from pathlib import Path

import pytest
from shared_runs import report_of, states, words

import penstock.pipelines.taxi

BEFORE_TRANSFORM = (
    "CuratedSchema",
    "ShardedExampleGen",
    "StatisticsGen",
    "ExampleValidator",
    "ValidationGate",
)
FROM_TRAINER = ("Trainer", "Evaluator", "ServingCheck", "Pusher")


@pytest.fixture
def first(taxi_run):
    """The summary of the first run."""
    return taxi_run.summary


def test_run_trains_a_good_model_and_pushes_it(first, taxi_run):
    assert states(first) == dict.fromkeys((*BEFORE_TRANSFORM, "Transform", *FROM_TRAINER), "done")
    assert first["data"]["account"]["read"] == 15_002
    assert first["anomalies"] == []
    assert first["training"]["steps"] == 160
    overall = first["evaluation"]["metrics"]["overall"]
    assert overall["binary_accuracy"] > 0.87  # TFX's own example reaches 0.83
    assert overall["auc"] > 0.93
    assert first["blessed"] is True
    assert Path(first["pushed"]).parent == taxi_run.root / "serving_model"


def test_pushed_model_serves_raw_trips(first, taxi_csv):
    import tensorflow as tf
    from row_files import example

    def value(name, text):
        if name in ("payment_type", "company"):
            return text.encode()
        if name in ("fare", "trip_miles") or name.endswith("itude"):
            return float(text)
        return int(float(text))

    examples, tipped = [], []
    with taxi_csv.open(newline="") as file:
        for row in list(csv.DictReader(file))[:2000]:
            tips = float(row.pop("tips"))
            tipped.append(tips > 0.2 * float(row["fare"]))
            known = {name: [value(name, text)] for name, text in row.items() if text}
            examples.append(example(**known))
    model = tf.saved_model.load(first["pushed"])
    outputs = model.signatures["serving_default"](tf.constant(examples))["outputs"]
    assert outputs.shape == (2000, 1)
    right = (outputs.numpy()[:, 0] > 0.5) == tipped
    assert right.mean() > 0.87


@pytest.mark.slow
def test_unchanged_run_executes_nothing(first, taxi_run):
    second = taxi_run.run_well()
    assert states(second) == dict.fromkeys(states(first), "cached")
    for what in ("data", "training", "evaluation", "blessed", "model", "pushed"):
        assert second[what] == first[what]


@pytest.mark.slow
def test_second_run_with_other_options_reports_the_difference(taxi_run):
    done = taxi_run.run("train.max_steps=80")
    assert done.returncode == 0, done.stderr
    assert f"\nreport      {taxi_run.root}/report.html\n" in done.stdout
    out = taxi_run.root / "both.html"
    new, *_, old = json.loads(taxi_run.penstock("runs", "list", taxi_run.root, "--json").stdout)
    assert old["run_id"] == taxi_run.summary["run_id"]
    compared = (old["run_id"], new["run_id"])
    done = taxi_run.penstock("report", *compared, "--root", taxi_run.root, "--out", out)
    assert done.returncode == 0, done.stderr
    page = words(out.read_text())
    assert "Trainer custom_config.train.max_steps 160 80" in page
    assert "steps 160 80 -80" in page
    assert "input_fingerprint" not in page
    result = report_of(taxi_run.root).evaluation.result
    name = result.thresholds[0].metric
    change = result.metrics["overall"][name] - result.baseline["overall"][name]
    assert f"{change:+.4f}" in page


@pytest.mark.slow
def test_packed_run_trains_an_equally_good_model(first, taxi_run):
    packed = taxi_run.run_well("pack=true")
    before = dict.fromkeys(BEFORE_TRANSFORM, "cached")
    # Transform runs again: with `pack=true` it writes no Examples, unlike its run in the cache.
    assert states(packed) == before | dict.fromkeys(("Transform", "Pack", *FROM_TRAINER), "done")
    for metric in ("binary_accuracy", "auc"):
        from_rows, from_packed = (
            summary["evaluation"]["metrics"]["overall"][metric] for summary in (first, packed)
        )
        assert abs(from_packed - from_rows) < 0.02
    assert set(states(taxi_run.run_well("pack=true")).values()) == {"cached"}


@pytest.fixture
def my_taxi(tmp_path):
    """A user's own copy of the pipeline, to edit; returns the folder that contains it."""
    package = tmp_path / "my_taxi"
    shutil.copytree(Path(penstock.pipelines.taxi.__file__).parent, package)
    for file in package.glob("*.py"):
        file.write_text(file.read_text().replace("penstock.pipelines.taxi", "my_taxi"))
    return tmp_path


@pytest.mark.slow
def test_edited_code_reruns_its_nodes_even_after_a_kill(taxi_run, my_taxi):
    name = "my_taxi.pipeline:create_pipeline"
    own = taxi_run.run_well(name=name, cwd=my_taxi)
    assert states(own) == {
        **dict.fromkeys(BEFORE_TRANSFORM, "cached"),
        **dict.fromkeys(("Transform", *FROM_TRAINER), "done"),
    }
    preprocessing = my_taxi / "my_taxi/preprocessing.py"
    preprocessing.write_text(preprocessing.read_text().replace("epsilon=0.01", "epsilon=0.02"))

    models = taxi_run.root / "pipeline/Trainer/model"
    before = set(models.iterdir())
    killed = taxi_run.penstock.start(*taxi_run.command(name=name), cwd=my_taxi)
    try:
        deadline = time.monotonic() + 500
        while not set(models.iterdir()) - before:
            assert killed.is_running()
            assert time.monotonic() < deadline
            time.sleep(0.02)
    finally:
        os.kill(killed.pid, signal.SIGKILL)
        ended = killed.wait()
    states_told = ("cached", "done")
    told = [line.split()[1] for line in ended.stderr.splitlines()]
    assert [word for word in told if word in states_told] == ["cached"] * len(BEFORE_TRANSFORM) + [
        "done"
    ]
    [left] = set(models.iterdir()) - before

    again = taxi_run.run_well(name=name, cwd=my_taxi)
    assert states(again) == {
        **dict.fromkeys((*BEFORE_TRANSFORM, "Transform"), "cached"),
        **dict.fromkeys(FROM_TRAINER, "done"),
    }
    assert not left.exists()
    assert again["pushed"] != own["pushed"]
