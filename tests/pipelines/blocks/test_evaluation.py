import pytest
import tensorflow_model_analysis as tfma

from penstock.components.errors import UsageError
from penstock.pipelines.blocks.config import EvaluationOptions
from penstock.pipelines.blocks.evaluation import eval_config
from penstock.pipelines.blocks.target import Target

LEFT = Target("left", "binary", classes=("no", "yes"))
PRICE = Target("price", "regression")


def asked(config, at=0):
    """Thresholds of each metric by slice."""
    return {
        metric.class_name: [
            (["/".join(s.feature_keys) for s in one.slicing_specs], one.threshold)
            for one in metric.per_slice_thresholds
        ]
        for metric in config.metrics_specs[at].metrics
    }


def test_eval_config_thresholds_of_all_rows_and_of_each_slice():
    options = EvaluationOptions(
        thresholds={"AUC": 0.8},
        max_worsening={"AUC": 0.01},
        slice_thresholds={"BinaryAccuracy": 0.6},
        slices=("plan",),
    )
    config = eval_config([LEFT], options)
    assert config.model_specs[0].label_key == "left_xf"
    assert list(config.slicing_specs) == [
        tfma.SlicingSpec(),
        tfma.SlicingSpec(feature_keys=["plan"]),
    ]
    metrics = asked(config)
    assert list(metrics) == [
        *("ExampleCount", "BinaryAccuracy", "AUC", "Precision", "Recall", "CalibrationPlot")
    ]
    [(where, auc)] = metrics["AUC"]
    assert where == [""]
    assert auc.value_threshold.lower_bound.value == 0.8
    assert auc.change_threshold.absolute.value == -0.01
    assert auc.change_threshold.direction == tfma.MetricDirection.HIGHER_IS_BETTER
    [(where, accuracy)] = metrics["BinaryAccuracy"]
    assert where == ["plan"]
    assert accuracy.value_threshold.lower_bound.value == 0.6


def test_eval_config_error_metric_has_an_upper_bound_and_may_not_grow():
    options = EvaluationOptions(
        thresholds={"MeanAbsoluteError": 3.0}, max_worsening={"MeanAbsoluteError": 0.5}
    )
    [(_, threshold)] = asked(eval_config([PRICE], options))["MeanAbsoluteError"]
    assert threshold.value_threshold.upper_bound.value == 3.0
    assert threshold.change_threshold.absolute.value == 0.5
    assert threshold.change_threshold.direction == tfma.MetricDirection.LOWER_IS_BETTER


def test_eval_config_metrics_of_several_targets_are_prefixed():
    config = eval_config(
        [LEFT, PRICE], EvaluationOptions(thresholds={"price/MeanAbsoluteError": 3})
    )
    assert dict(config.model_specs[0].label_keys) == {"left_xf": "left_xf", "price_xf": "price_xf"}
    assert [list(spec.output_names) for spec in config.metrics_specs] == [["left_xf"], ["price_xf"]]
    assert asked(config, 0)["AUC"] == []
    assert len(asked(config, 1)["MeanAbsoluteError"]) == 1


def test_eval_config_metric_of_another_task_is_refused():
    with pytest.raises(UsageError, match="no metric 'AUC'; choices: MeanAbsoluteError, RootMean"):
        eval_config([PRICE], EvaluationOptions(thresholds={"AUC": 0.8}))
