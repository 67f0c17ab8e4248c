"""The facts that `evaluation.json` takes from TFMA's files; it is read without TensorFlow."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from google.protobuf import text_format
from tensorflow_model_analysis.proto import config_pb2

from penstock.components.batches.shards import shard_tasks
from penstock.components.errors import DataError
from penstock.components.evaluator.evaluate import evaluate
from penstock.components.evaluator.evaluation import (
    CalibrationPoint,
    Confusion,
    Curves,
    Decision,
    Evaluation,
    HeldOut,
    Threshold,
)
from penstock.components.evaluator.summarize import _kept

import tensorflow as tf  # isort: skip

CONFIG = """
model_specs {{label_key: "label" signature_name: "yes" {weight}}}
metrics_specs {{
  metrics {{class_name: "ExampleCount"}}
  metrics {{class_name: "BinaryAccuracy"
    threshold {{value_threshold {{lower_bound {{value: {least}}}}}}}
    per_slice_thresholds {{
      slicing_specs {{feature_keys: "town"}}
      threshold {{value_threshold {{lower_bound {{value: 0.6}}}}}}
    }}
  }}
  metrics {{class_name: "Precision"}} metrics {{class_name: "Recall"}}
  metrics {{class_name: "AUC"}} metrics {{class_name: "CalibrationPlot"}}
}}
slicing_specs {{}} slicing_specs {{feature_keys: "town"}}
"""
# (prediction, label, town)
ROWS = [
    (0.9, 1, "oslo"), (0.8, 0, "oslo"), (0.7, 1, "oslo"), (0.2, 0, "oslo"),
    (0.6, 1, "rome"), (0.4, 1, "rome"), (0.3, 0, None), (0.1, 0, None),
]  # fmt: skip


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory, write_examples, save_model, shared_models):
    """A function that evaluates `ROWS` with a model that predicts `x`.

    It returns the folder and the evaluation.
    """
    base = tmp_path_factory.mktemp("evaluated")
    rows = [{"x": x, "label": label, "town": town, "weight": 2.0} for x, label, town in ROWS]
    write_examples(base / "rows" / "Split-eval", rows)
    model = save_model(base / "model", {"x": (tf.float32,)}, yes=lambda f: {"y": f["x"][:, None]})

    def run(least=0.7, weight="", change="", baseline=False):
        text = CONFIG.format(least=least, weight=weight)
        if baseline:
            text = text.replace("model_specs {", 'model_specs {name: "candidate" ', 1)
            text += 'model_specs {name: "baseline" is_baseline: true label_key: "label" '
            text += 'signature_name: "yes"}'
        config = text_format.Parse(text + change, config_pb2.EvalConfig())
        config, models = shared_models(config, *[model] * (1 + baseline))
        folder = str(tmp_path_factory.mktemp("out"))
        tasks = shard_tasks(str(base / "rows"), "eval")
        return folder, evaluate(tasks, folder, eval_config=config, models=models)

    return run


@pytest.fixture(scope="module")
def plain(evaluated):
    return evaluated()


def test_the_file_is_read_as_it_was_written(plain):
    folder, written = plain
    assert Evaluation.read(folder) == written
    assert json.loads(Path(folder, "evaluation.json").read_text())["rows"] == 8


def test_metrics_by_slice_and_of_rows_without_the_feature(plain):
    metrics = plain[1].metrics
    assert metrics["overall"]["binary_accuracy"] == 0.75
    assert metrics["town=oslo"]["example_count"] == 4
    assert metrics["town missing"] == {"example_count": 2, "binary_accuracy": 1.0}
    assert "auc" not in metrics["town=rome"]  # its rows all have the same label


def test_thresholds_have_verdicts_by_slice(plain, evaluated):
    found = plain[1]
    assert found.thresholds == (
        Threshold("binary_accuracy", "overall", lower=0.7, passed=False),
        Threshold("binary_accuracy", "each town", lower=0.6, passed=False),
    )
    assert found.blessed is False
    assert found.failures == (
        "binary_accuracy of town=rome is 0.5000; expected at least 0.7",
        "binary_accuracy of town=rome is 0.5000; expected at least 0.6",
    )
    assert (found.deciding_metric, found.higher_is_better) == ("binary_accuracy", True)
    passed = [one.passed for one in evaluated(least=0.4)[1].thresholds]
    assert passed == [True, False]


def test_intervals_confusion_and_curves_of_all_rows(plain):
    found = plain[1]
    assert found.confusions == {"": Confusion(("0", "1"), ((3.0, 1.0), (1.0, 3.0)), 0.5, False)}
    low, high = found.intervals["overall"]["binary_accuracy"]
    assert (round(low, 3), round(high, 3)) == (0.409, 0.929)
    curves = found.curves[""]
    at_half = curves.decision_at(0.5)
    assert (at_half.hits, at_half.alarms, at_half.positives, at_half.negatives) == (3, 1, 4, 4)
    assert at_half.precision == at_half.recall == 0.75
    assert [(one.hits, one.alarms) for one in curves.decisions[:3]] == [(1, 0), (1, 1), (2, 1)]
    assert curves.decision_at(0.95) == Decision(0.95, 0, 0, 4, 4)
    assert len(curves.calibration) == 8
    assert curves.calibration[0] == CalibrationPoint(pytest.approx(0.1), 0.0, 1.0)


def test_weighted_rows_have_no_intervals(evaluated):
    found = evaluated(weight='example_weight_key: "weight"')[1]
    assert (found.weighted, found.intervals, found.rows) == (True, {}, 8)


def test_baseline_has_metrics_of_its_own_and_a_change_its_verdict(evaluated):
    change = """metrics_specs {metrics {class_name: "MeanPrediction" threshold {change_threshold {
        absolute {value: 0.5} direction: HIGHER_IS_BETTER}}}}"""
    found = evaluated(change=change, baseline=True)[1]
    assert found.baseline["overall"]["binary_accuracy"] == 0.75
    assert found.metrics["overall"]["binary_accuracy"] == 0.75
    assert found.thresholds[-1] == Threshold(
        "mean_prediction", "overall", change=0.5, higher_is_better=True, passed=False
    )


def test_worst_and_small_slices(plain):
    found = plain[1]
    assert found.worst_slices(2, min_examples=3) == ["town=oslo"]
    assert found.small_slices(3) == ["town=rome", "town missing"]
    assert found.caution.startswith("only 8 rows were evaluated")


def test_long_curves_keep_500_points_and_the_one_that_decides():
    every = [Decision(1 - i / 9_999, i / 2, i / 3, 5_000, 3_333) for i in range(10_000)]
    kept = _kept(every)
    assert len(kept) <= 500
    assert {0, 1, 2, 9_999} <= set(kept)
    assert min(every[place].threshold for place in kept if every[place].threshold >= 0.5) == (
        min(one.threshold for one in every if one.threshold >= 0.5)
    )


def test_what_a_threshold_gives_on_the_split_test_is_said():
    curves = Curves((Decision(0.8, 5, 1, 41, 69), Decision(0.15, 41, 69, 41, 69)))
    found = HeldOut(110, {}, {}, {"left": curves})
    assert found.decided("left_xf", 0.5) == (
        "on the split test it finds 5 of 41 with 1 false alarm"
    )
    assert (found.decided("left_xf", None), found.decided("other_xf", 0.5)) == ("", "")


def test_reading_imports_no_tensorflow(plain):
    code = (
        "import sys; from penstock.components.evaluator.evaluation import Evaluation; "
        f"Evaluation.read({plain[0]!r}); print('tensorflow' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize("text", [None, "{", '{"metrics": 3}'])
def test_what_is_no_evaluation_is_refused_by_its_path(text, tmp_path):
    if text is not None:
        (tmp_path / "evaluation.json").write_text(text)
    with pytest.raises(DataError, match=r"evaluation\.json: no evaluation .* evaluate again$"):
        Evaluation.read(str(tmp_path))
