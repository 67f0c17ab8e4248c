import pytest
from tensorflow_model_analysis.proto import metrics_for_slice_pb2

from penstock.components.evaluator.evaluation import CalibrationPoint, Decision
from penstock.pipelines.reporting.evaluation_facts import gather_evaluation


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
        # No whole numbers of examples have these: they are weighted.
        {"example_count": 10.0, "binary_accuracy": 0.873, "precision": 0.71, "recall": 0.6},
    ],
)
def test_no_confusion_is_made_up(runs, tmp_path, metrics):
    runs.write_evaluation(tmp_path / "evaluation", [runs.slice_metrics(metrics)])
    assert gather_evaluation(str(tmp_path / "evaluation")).confusion is None
