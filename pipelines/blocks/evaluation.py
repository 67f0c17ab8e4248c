"""Metrics of each task; makes the Evaluator's EvalConfig from targets and options."""

from collections.abc import Mapping, Sequence

from tensorflow_model_analysis.proto import config_pb2

from penstock.components.errors import UsageError
from penstock.pipelines.blocks.config import EvaluationOptions
from penstock.pipelines.blocks.target import Target

METRICS = {
    "binary": ("BinaryAccuracy", "AUC", "Precision", "Recall", "CalibrationPlot"),
    "classes": (
        "SparseCategoricalAccuracy",
        "SparseCategoricalCrossentropy",
        "MultiClassConfusionMatrixPlot",
    ),
    "regression": ("MeanAbsoluteError", "RootMeanSquaredError", "SquaredPearsonCorrelation"),
}
_LOWER_IS_BETTER = (
    "SparseCategoricalCrossentropy",
    "MeanAbsoluteError",
    "RootMeanSquaredError",
)


def eval_config(targets: Sequence[Target], options: EvaluationOptions) -> config_pb2.EvalConfig:
    """Returns the metrics of each target, overall and by slice, and thresholds for the blessing.

    Args:
        targets: Targets of the model.
        options: Thresholds and slices. A metric is named as in `METRICS`, or `target/metric` if
            there are several targets.

    Raises:
        UsageError: A metric does not exist; the message lists the metrics.
    """
    known = [name for target in targets for name in _names(target, targets).values()]
    for name in (*options.thresholds, *options.max_worsening, *options.slice_thresholds):
        if name not in known:
            raise UsageError(f"no metric {name!r}; choices: {', '.join(sorted(known))}")
    by_slice = [config_pb2.SlicingSpec(feature_keys=[name]) for name in options.slices]
    spec = config_pb2.ModelSpec(
        signature_name="serving_default", preprocessing_function_names=["transform_features"]
    )
    if len(targets) == 1:
        spec.label_key = targets[0].label
    else:
        spec.label_keys.update({target.label: target.label for target in targets})
    return config_pb2.EvalConfig(
        model_specs=[spec],
        slicing_specs=[config_pb2.SlicingSpec(), *by_slice],
        metrics_specs=[
            config_pb2.MetricsSpec(
                metrics=_metrics(_names(target, targets), options, by_slice),
                output_names=[target.label] if len(targets) > 1 else [],
            )
            for target in targets
        ],
    )


def _names(target: Target, targets: Sequence[Target]) -> dict[str, str]:
    prefix = f"{target.name}/" if len(targets) > 1 else ""
    return {metric: f"{prefix}{metric}" for metric in METRICS[target.task]}


def _metrics(
    names: Mapping[str, str],
    options: EvaluationOptions,
    by_slice: Sequence[config_pb2.SlicingSpec],
) -> list[config_pb2.MetricConfig]:
    found = [config_pb2.MetricConfig(class_name="ExampleCount")]
    for metric, name in names.items():
        bound, worse = options.thresholds.get(name), options.max_worsening.get(name)
        of_slices = options.slice_thresholds.get(name)
        asked = []
        if bound is not None or worse is not None:
            asked.append(_threshold([config_pb2.SlicingSpec()], metric, bound, worse))
        if of_slices is not None and by_slice:
            asked.append(_threshold(by_slice, metric, of_slices, None))
        found.append(config_pb2.MetricConfig(class_name=metric, per_slice_thresholds=asked))
    return found


def _threshold(
    where: Sequence[config_pb2.SlicingSpec],
    metric: str,
    bound: float | None,
    worsening: float | None,
) -> config_pb2.PerSliceMetricThreshold:
    lower = metric in _LOWER_IS_BETTER
    threshold = config_pb2.MetricThreshold()
    if bound is not None:
        side = "upper_bound" if lower else "lower_bound"
        getattr(threshold.value_threshold, side).value = bound
    if worsening is not None:
        directions = config_pb2.MetricDirection
        threshold.change_threshold.direction = (
            directions.LOWER_IS_BETTER if lower else directions.HIGHER_IS_BETTER
        )
        threshold.change_threshold.absolute.value = worsening if lower else -worsening
    return config_pb2.PerSliceMetricThreshold(slicing_specs=where, threshold=threshold)
