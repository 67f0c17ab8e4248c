import base64
import json

import pytest
from tensorflow_model_analysis.proto import metrics_for_slice_pb2

from penstock.components.evaluator.evaluation import CalibrationPoint, Decision
from penstock.pipelines.reporting.evaluation_facts import gather_closer, gather_evaluation
from penstock.pipelines.reporting.histograms import Bar
from penstock.pipelines.reporting.plots import group_plot, residual_plot

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@pytest.fixture
def look(tmp_path, runs):
    def write(task, wrong, *, labels=None, sample=None):
        record = runs.example(town=b"Ulm", area=1.5, **{"image__encoded": PIXEL})
        rows = [
            {"label": a, "prediction": b, "record": base64.b64encode(record).decode()}
            for a, b in wrong
        ]
        target = {
            "task": task,
            "labels": labels,
            "sample": sample,
            "most_wrong": rows,
            "importance": {"area": [0.5, 0.1], "id": [0, 0], "town": [0.75, 0.2]},
        }
        text = json.dumps({"sampled": 9, "targets": {"y_xf": target}})
        (tmp_path / "error_analysis.json").write_text(text)
        [facts] = gather_closer(str(tmp_path), {"y_xf": ("no", "yes", "maybe")[:2]})
        return facts

    return write


def test_classes_have_their_words_and_images_are_shown(look):
    facts = look("binary", [(1, [0.125])], labels={"0": 3, "1": 4})
    assert facts.balance == [Bar("no", 3), Bar("yes", 4)]
    [row] = facts.wrong
    assert (row.label, row.prediction) == ("yes", "no, 88 %")
    assert row.image.startswith("data:image/png;base64,")
    assert list(row.features.items()) == [("town", "Ulm"), ("area", "1.5")]
    assert facts.importance == {"town": (0.75, 1.96 * 0.2), "area": (0.5, 1.96 * 0.1)}
    assert [*facts.importance] == ["town", "area"]
    assert facts.unused == ["id"]


def test_a_class_without_words_is_a_number(look):
    assert look("classes", [(0, [0.25, 0.125, 0.625])]).wrong[0].prediction == "2, 62 %"


def test_a_regression_has_its_distance(look):
    facts = look("regression", [(4.0, [1.5])], sample=[[4, 2], [1.5, 2]])
    assert (facts.wrong[0].label, facts.wrong[0].prediction) == ("4", "1.500 (-2.500)")
    assert "rows, mean -1.250" in residual_plot("key", facts.actual, facts.predicted)


def test_groups_of_numbers_and_of_texts_have_their_names():
    groups = [
        {"name": [1, 2.5], "rows": 3, "label": 1, "prediction": 0.5},
        {"name": "Ulm", "rows": 2, "label": 0, "prediction": 0.25},
    ]
    plot = group_plot("key", "area", groups)
    assert "1 to 2.500: label 1, prediction 0.5000, 3 rows; Ulm: label 0" in plot


def test_of_tfma_alone_there_is_none(tmp_path):
    assert gather_closer(str(tmp_path), {}) == []


def plot():
    message = metrics_for_slice_pb2.PlotsForSlice()
    entry = message.plot_keys_and_values.add()
    for threshold, hits in ((0.25, 9.0), (0.5, 8.0), (0.75, 4.0)):
        entry.value.confusion_matrix_at_thresholds.matrices.add(
            threshold=threshold,
            true_positives=hits,
            false_negatives=10 - hits,
            false_positives=2,
            true_negatives=88,
        )
    for count, label, prediction in ((0, 0, 0), (40, 30, 32), (10, 5, 8.2), (60, 6, 9)):
        bucket = entry.value.calibration_histogram_buckets.buckets.add()
        bucket.num_weighted_examples.value = count
        bucket.total_weighted_label.value = label
        bucket.total_weighted_refined_prediction.value = prediction
    return message


def test_confusion_and_calibration_from_plots(runs, tmp_path):
    metrics = [runs.slice_metrics({"example_count": 100.0, "auc": 0.9})]
    runs.write_evaluation(tmp_path / "evaluation", metrics, plots=[plot()])
    facts = gather_evaluation(str(tmp_path / "evaluation"))
    assert facts.confusion.counts == ((88, 2), (2, 8))
    assert facts.confusion.origin == "at threshold 0.5, from the Evaluator's plot"
    low, high = CalibrationPoint(0.15, 0.1, 60), CalibrationPoint(0.804, 0.7, 50)
    assert facts.curves.calibration == (low, high)


def test_decisions_are_exact_sums_over_the_buckets(runs, tmp_path):
    message = plot()
    buckets = message.plot_keys_and_values[0].value.calibration_histogram_buckets.buckets
    for bucket, low in zip(buckets, (0.0, 0.75, 0.8, 0.15), strict=True):
        bucket.lower_threshold_inclusive = low
    metrics = [runs.slice_metrics({"example_count": 110.0})]
    runs.write_evaluation(tmp_path / "evaluation", metrics, plots=[message])
    curves = gather_evaluation(str(tmp_path / "evaluation")).curves
    assert curves.decisions == (
        Decision(0.8, 5, 5, 41, 69),
        Decision(0.75, 35, 15, 41, 69),
        Decision(0.15, 41, 69, 41, 69),
    )
    assert curves.decision_at(0.5) == Decision(0.75, 35, 15, 41, 69)
    assert curves.decision_at(0.9) == Decision(0.9, 0, 0, 41, 69)
    assert (curves.decision_at(0.5).precision, curves.decision_at(0.9).precision) == (0.7, None)


@pytest.mark.parametrize(
    "metrics",
    [
        {"example_count": 100.0, "binary_accuracy": 0.9, "precision": 0.8},
        {"example_count": 100.0, "binary_accuracy": 0.9, "precision": 0.0, "recall": 0.0},
        # No whole numbers of examples give these metrics, so the examples are weighted.
        {"example_count": 10.0, "binary_accuracy": 0.873, "precision": 0.71, "recall": 0.6},
    ],
)
def test_no_confusion_is_made_up(runs, tmp_path, metrics):
    runs.write_evaluation(tmp_path / "evaluation", [runs.slice_metrics(metrics)])
    assert gather_evaluation(str(tmp_path / "evaluation")).confusion is None
