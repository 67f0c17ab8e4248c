"""Evaluations of TFX's own Evaluator, of which there is no `evaluation.json`."""

import json

import pytest
import tensorflow as tf
from tensorflow_model_analysis.proto import metrics_for_slice_pb2, validation_result_pb2

from penstock.components.evaluator.evaluation import Evaluation
from penstock.components.evaluator.slice_metrics import OVERALL


def tfrecord(path, *messages):
    with tf.io.TFRecordWriter(str(path)) as file:
        for message in messages:
            file.write(message.SerializeToString())


def write(folder, *messages):
    tfrecord(folder / "metrics-00000-of-00001.tfrecord", *messages)


def metrics(accuracy, count, slice_value=None, model="", is_diff=False):
    message = metrics_for_slice_pb2.MetricsForSlice()
    if slice_value is not None:
        message.slice_key.single_slice_keys.add(column="hour", int64_value=slice_value)
    for name, value in (("binary_accuracy", accuracy), ("example_count", count)):
        entry = message.metric_keys_and_values.add()
        entry.key.name, entry.key.model_name, entry.key.is_diff = name, model, is_diff
        entry.value.double_value.value = value
    return message


def config(**metric):
    models = [{"name": "candidate"}, {"name": "baseline", "isBaseline": True}]
    specs = {"modelSpecs": models, "metricsSpecs": [{"metrics": [metric]}]}
    return json.dumps({"version": "0.47.1", "evalConfig": specs})


@pytest.fixture
def folder(tmp_path):
    write(tmp_path, metrics(0.9, 100), metrics(0.5, 60, 7), metrics(0.7, 40, 8), metrics(0.0, 2, 9))
    threshold = {"valueThreshold": {"lowerBound": 0.8}}
    (tmp_path / "eval_config.json").write_text(
        config(className="BinaryAccuracy", perSliceThresholds=[{"threshold": threshold}])
    )
    return tmp_path


def test_metrics_by_slice(folder):
    result = Evaluation.read(str(folder))
    assert result.metrics[OVERALL] == {"binary_accuracy": 0.9, "example_count": 100.0}
    assert result.metrics["hour=7"]["binary_accuracy"] == 0.5
    assert (result.deciding_metric, result.higher_is_better) == ("binary_accuracy", True)
    assert result.failures == ()


def test_differences_between_slices_are_left_out(tmp_path):
    between = metrics(-0.2, -20)
    between.cross_slice_key.baseline_slice_key.single_slice_keys.add(column="hour", int64_value=7)
    write(tmp_path, between, metrics(0.9, 100), between)
    (tmp_path / "eval_config.json").write_text(config(className="BinaryAccuracy"))
    result = Evaluation.read(str(tmp_path))
    assert result.metrics[OVERALL] == {"binary_accuracy": 0.9, "example_count": 100.0}
    assert result.rows == 100


def test_small_slices_and_rows_in_no_slice_are_there_too(folder):
    write(folder, metrics(0.9, 100), metrics(1.0, 60, 7), metrics(1.0, 2, 8), metrics(0.5, 6, 9))
    result = Evaluation.read(str(folder))
    assert result.small_slices(30) == ["hour=9", "hour=8"]
    assert result.metrics["hour missing"] == {"example_count": 32.0, "binary_accuracy": 0.78125}
    assert result.worst_slices(1, min_examples=30) == ["hour missing"]


def test_metrics_and_thresholds_of_several_targets_have_their_names(folder):
    of_both = metrics_for_slice_pb2.MetricsForSlice()
    for output, accuracy in (("price_xf", 0.4), ("rent_xf", 0.9)):
        for entry in metrics(accuracy, 100).metric_keys_and_values:
            entry.key.output_name = output
            of_both.metric_keys_and_values.append(entry)
    write(folder, of_both)
    limit = {"threshold": {"valueThreshold": {"lowerBound": 0.8}}}
    specs = [
        {"outputNames": ["price_xf"], "metrics": [{"className": "BinaryAccuracy", **limit}]},
        {"outputNames": ["rent_xf"], "metrics": [{"className": "BinaryAccuracy", **limit}]},
    ]
    written = json.dumps({"version": "0.47.1", "evalConfig": {"metricsSpecs": specs}})
    (folder / "eval_config.json").write_text(written)
    result = Evaluation.read(str(folder))
    assert result.metrics == {
        OVERALL: {"price/binary_accuracy": 0.4, "rent/binary_accuracy": 0.9, "example_count": 100.0}
    }
    assert result.deciding_metric == "price/binary_accuracy"
    limited = [limit.metric for limit in result.thresholds]
    assert limited == ["price/binary_accuracy", "rent/binary_accuracy"]


def test_worst_means_largest_where_less_is_better():
    values = {OVERALL: {"loss": 1.0}, "a": {"loss": 2.0}, "b": {"loss": 3.0}}
    result = Evaluation(values, (), "loss", higher_is_better=False)
    assert result.worst_slices(2, min_examples=0) == ["b", "a"]


def test_the_baseline_and_differences_to_it_are_left_out(folder):
    write(folder, metrics(0.9, 100, model="candidate"), metrics(0.1, 1, model="baseline"))
    assert Evaluation.read(str(folder)).metrics[OVERALL]["binary_accuracy"] == 0.9
    write(
        folder,
        metrics(0.9, 100, model="candidate"),
        metrics(-0.3, 0, model="candidate", is_diff=True),
    )
    assert Evaluation.read(str(folder)).metrics[OVERALL]["binary_accuracy"] == 0.9


def test_failures_say_what_was_reached_and_expected(folder):
    validation = validation_result_pb2.ValidationResult()
    failure = validation.metric_validations_per_slice.add().failures.add()
    failure.metric_key.name = "binary_accuracy"
    failure.metric_threshold.value_threshold.lower_bound.value = 0.95
    failure.metric_value.double_value.value = 0.9
    change = validation.metric_validations_per_slice.add().failures.add()
    change.metric_key.name, change.metric_key.is_diff = "binary_accuracy", True
    change.metric_threshold.change_threshold.absolute.value = -0.005
    change.metric_value.double_value.value = -0.02
    tfrecord(folder / "validations.tfrecord", validation)
    assert Evaluation.read(str(folder)).failures == (
        "binary_accuracy of overall is 0.9000; expected at least 0.95",
        "binary_accuracy of overall is -0.0200; expected a change to the baseline of at least "
        "-0.0050",
    )
