"""Reports of whole runs compared with artifacts: taxi, a blocked run, digits, TFX's own nodes."""

import csv
import os
import random
import re
from pathlib import Path

import pytest
from shared_runs import report_of, words

from penstock.components.evaluator.evaluation import Evaluation
from penstock.components.evaluator.slice_metrics import OVERALL
from penstock.components.tfrecord.manifest import read_manifest
from penstock.components.trainer.record import read_training_record

pytestmark = pytest.mark.slow

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1] / "user_code")}
PENGUIN = """
import sys
from tfx.orchestration.local.local_dag_runner import LocalDagRunner
import penguin_style
LocalDagRunner().run(penguin_style.make_pipeline(sys.argv[1], sys.argv[2]))
"""


def test_taxi(taxi_run):
    page = words((taxi_run.first / "report.html").read_text())
    summary = taxi_run.summary
    manifest = read_manifest(summary["examples"])
    account = manifest.account
    assert "15,002 rows read = 15,002 written + 0 quarantined + 0 blank." in page
    assert f"train {account.written['train']:,} 66 % 1 " in page

    pipeline, number = taxi_run.root / "pipeline", Path(summary["model"]).name
    record = read_training_record(pipeline / "Trainer/model_run" / number)
    best = next(e for e in record.epochs if e.epoch == record.best_epoch)
    assert (
        f"Best val_loss {best.metrics['val_loss']:.4f} epoch {best.epoch}, step {best.step}" in page
    )
    assert record.verdict in page

    evaluation = min((pipeline / "Evaluator/evaluation").iterdir(), key=lambda p: int(p.name))
    metrics = Evaluation.read(str(evaluation)).metrics
    for name in ("auc", "binary_accuracy", "precision", "recall"):
        assert f"{name} {metrics[OVERALL][name]:.4f} " in page
    assert f"payment_type=Credit Card {metrics['payment_type=Credit Card']['auc']:.4f}" in page
    assert f"Pushed The model is at {summary['pushed']}: every threshold is reached." in page
    assert f"penstock run taxi --root {taxi_run.root}" in page
    assert manifest.source_fingerprint in page
    assert "always &#39;small tip&#39; with 0.774" in page
    [look] = report_of(taxi_run.first).evaluation.closer
    assert next(iter(look.importance)) == "payment_type"  # tips in cash are not recorded
    assert {"tips", "trip_start_timestamp"} <= set(look.unused)
    (unused,) = re.findall(r"Without any effect: ([^.]*)", page)
    assert "trip_start_timestamp" in unused
    assert "tips" not in unused  # the label is made from `tips`
    assert [bar.label for bar in look.balance] == ["small tip", "big tip"]


def test_a_blocked_run(tmp_path, taxi_csv, penstock):
    with taxi_csv.open(newline="") as file:
        header, *rows = list(csv.reader(file))[:3001]
    rows[49][header.index("trip_start_hour")] = "27"
    rows[59][header.index("fare")] = "abc"
    (tmp_path / "data").mkdir()
    with (tmp_path / "data/trips.csv").open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    root = tmp_path / "taxi"
    options = ("--set", f"data={tmp_path / 'data'}", "--set", "ingest.on_bad_row=quarantine")
    done = penstock("run", "taxi", "--root", root, *options)
    assert (done.returncode, done.stdout) == (1, "")
    assert "penstock: node 'ValidationGate' failed: the data is unfit to train on" in done.stderr
    assert "Traceback" not in done.stderr
    [log] = (root / "logs").iterdir()
    assert f"  log: {log}\n" in done.stderr
    assert "DataError: the data is unfit to train on" in log.read_text()
    assert f"\n  report: {root}/report.html\n" in done.stderr
    assert not list(root.glob("serving_model")) + list(root.glob("pipeline/Transform"))
    page = words((root / "report.html").read_text())
    assert "Blocked ValidationGate: the data is unfit to train on, 1 problem:" in page
    assert "feature &#39;trip_start_hour&#39;: Unexpectedly large value: 27." in page
    assert "3,000 rows read = 2,999 written + 1 quarantined + 0 blank." in page
    assert f"{tmp_path}/data/trips.csv 61 60 fare &#39;abc&#39; is not a number" in page
    assert "Pusher not reached" in page


def test_digits(digits_run):
    report = report_of(digits_run.first)
    assert report.missing == []
    written = report.data.manifest.account.written
    assert report.images.looked_at == dict(written)
    assert sum(written.values()) == 1797  # the size of scikit-learn's load_digits
    assert [size.label for size in report.images.sizes] == ["PNG 8x8"]
    for split, bars in report.images.classes.items():
        assert len(bars) == 10
        assert sum(bar.count for bar in bars) == written[split]
    confusion = report.evaluation.confusion
    assert sum(map(sum, confusion.counts)) == written["eval"]
    right = sum(row[i] for i, row in enumerate(confusion.counts)) / written["eval"]
    overall = report.evaluation.result.metrics[OVERALL]
    assert right == pytest.approx(overall["sparse_categorical_accuracy"])
    page = (digits_run.first / "report.html").read_text()
    [look] = report.evaluation.closer
    wrong = written["eval"] - sum(row[i] for i, row in enumerate(confusion.counts))
    assert len(look.wrong) == min(20, wrong)
    assert all(row.label in confusion.classes for row in look.wrong)
    assert look.importance == {}  # the image is the only feature: nothing to compare
    assert page.count('class="pixels" src="data:image/png') == 24 + len(look.wrong)


def test_a_pipeline_of_tfx_alone(tmp_path, penstock):
    """All nodes and the runner are TFX's; there is no note, and the store is named as in TFX."""
    chosen = random.Random(1)
    means = {0: (38.8, 18.3, 190, 3700), 1: (48.8, 18.4, 196, 3730), 2: (47.5, 15, 217, 5076)}
    (tmp_path / "data").mkdir()
    with (tmp_path / "data/penguins.csv").open("w", newline="") as file:
        out = csv.writer(file)
        names = ("culmen_length_mm", "culmen_depth_mm", "flipper_length_mm", "body_mass_g")
        out.writerow((*names, "species"))
        for i in range(334):
            values = [round(chosen.gauss(mean, 0.05 * mean), 1) for mean in means[i % 3]]
            out.writerow((*values, i % 3))
    done = penstock.run_code(PENGUIN, tmp_path, tmp_path / "data", env=ENVIRONMENT)
    assert done.returncode == 0, done.stderr
    report = report_of(tmp_path)
    assert report.run.pipeline == "penguin"
    assert report.verdict.word == "Pushed"
    assert sum(report.statistics.rows.values()) == 334
    assert [f.name for f in report.statistics.features][-1] == "species"
    [missing] = report.missing
    assert "no training.json; another loop than Penstock's trained, or it did not end" in missing
    confusion = report.evaluation.confusion
    assert confusion.classes == ["0", "1", "2"]
    assert sum(map(sum, confusion.counts)) == report.statistics.rows["eval"]
    assert report.model.parameters == 15  # 4 x 3 weights, 3 biases
    upstream = {node.node: list(node.upstream) for node in report.pipeline.nodes}
    assert upstream["ExampleValidator"] == ["StatisticsGen", "SchemaGen"]
    assert upstream["Pusher"] == ["Trainer", "Evaluator"]
