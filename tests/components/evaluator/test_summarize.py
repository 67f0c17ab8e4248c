"""Evaluations by TFX's own Evaluator, which writes no `evaluation.json`."""

import json

from evaluations import slice_metrics, write_evaluation, write_messages
from tensorflow_model_analysis.proto import metrics_for_slice_pb2, validation_result_pb2

from penstock.components.evaluator.evaluation import Evaluation
from penstock.components.evaluator.slice_metrics import OVERALL


def metrics(accuracy, count, hour=None, **more):
    slice_key = {} if hour is None else {"hour": str(hour)}
    values = {"binary_accuracy": accuracy, "example_count": count}
    return slice_metrics(values, **slice_key, **more)


def read(folder, *messages):
    write_evaluation(
        folder, messages, [("BinaryAccuracy", {"valueThreshold": {"lowerBound": 0.8}})]
    )
    return Evaluation.read(str(folder))


def test_differences_between_slices_and_models_are_left_out(tmp_path):
    between = metrics(-0.2, -20)
    between.cross_slice_key.baseline_slice_key.single_slice_keys.add(column="hour", int64_value=7)
    candidate = metrics(0.9, 100, model="candidate")
    for others in (
        (between,),
        (metrics(0.1, 100, model="baseline"),),
        (metrics(-0.3, 100, model="candidate", is_diff=True),),
    ):
        result = read(tmp_path, *others, candidate, *others)
        assert result.metrics[OVERALL] == {"binary_accuracy": 0.9, "example_count": 100.0}
        assert result.rows == 100


def test_metrics_and_thresholds_of_several_targets_have_their_names(tmp_path):
    of_both = metrics_for_slice_pb2.MetricsForSlice()
    for output, accuracy in (("price_xf", 0.4), ("rent_xf", 0.9)):
        for entry in metrics(accuracy, 100).metric_keys_and_values:
            entry.key.output_name = output
            of_both.metric_keys_and_values.append(entry)
    write_evaluation(tmp_path, [of_both])
    limited = {"className": "BinaryAccuracy", "threshold": {"valueThreshold": {"lowerBound": 0.8}}}
    specs = [{"outputNames": [name], "metrics": [limited]} for name in ("price_xf", "rent_xf")]
    written = json.dumps({"version": "0.47.1", "evalConfig": {"metricsSpecs": specs}})
    (tmp_path / "eval_config.json").write_text(written)
    result = Evaluation.read(str(tmp_path))
    assert result.metrics == {
        OVERALL: {"price/binary_accuracy": 0.4, "rent/binary_accuracy": 0.9, "example_count": 100.0}
    }
    assert result.deciding_metric == "price/binary_accuracy"
    assert [limit.metric for limit in result.thresholds] == [
        "price/binary_accuracy",
        "rent/binary_accuracy",
    ]


def test_worst_means_largest_where_less_is_better():
    values = {OVERALL: {"loss": 1.0}, "a": {"loss": 2.0}, "b": {"loss": 3.0}}
    result = Evaluation(values, (), "loss", higher_is_better=False)
    assert result.worst_slices(2, min_examples=0) == ["b", "a"]


def test_failures_say_what_was_reached_and_expected(tmp_path):
    validation = validation_result_pb2.ValidationResult()
    failure = validation.metric_validations_per_slice.add().failures.add()
    failure.metric_key.name = "binary_accuracy"
    failure.metric_threshold.value_threshold.lower_bound.value = 0.95
    failure.metric_value.double_value.value = 0.9
    change = validation.metric_validations_per_slice.add().failures.add()
    change.metric_key.name, change.metric_key.is_diff = "binary_accuracy", True
    change.metric_threshold.change_threshold.absolute.value = -0.005
    change.metric_value.double_value.value = -0.02
    write_messages(tmp_path / "validations.tfrecord", [validation])
    assert read(tmp_path, metrics(0.9, 100)).failures == (
        "binary_accuracy of overall is 0.9000; expected at least 0.95",
        "binary_accuracy of overall is -0.0200; expected a change to the baseline of at least "
        "-0.0050",
    )
