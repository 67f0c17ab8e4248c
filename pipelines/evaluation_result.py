"""What an Evaluator wrote, as plain values: metrics by slice, and why a model was not blessed."""

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from penstock.components.tfrecord.records import read_records

OVERALL = "overall"
EXAMPLE_COUNT = "example_count"


@dataclass(frozen=True)
class EvaluationResult:
    """An evaluation of one model.

    Attributes:
        metrics: Values by metric name, by slice (`OVERALL`, `trip_start_hour=14`).
        failures: What kept the model from being blessed, one line each.
        deciding_metric: A metric with a threshold, else one of `metrics`; None without any.
        higher_is_better: Whether more of it is better.
    """

    metrics: Mapping[str, Mapping[str, float]]
    failures: tuple[str, ...]
    deciding_metric: str | None
    higher_is_better: bool

    def worst_slices(self, count: int, *, min_examples: int) -> list[str]:
        """Names of the slices where the deciding metric is worst, those with few rows left out."""
        metric = self.deciding_metric
        slices = [
            name
            for name, values in self.metrics.items()
            if name != OVERALL
            and metric in values
            and values.get(EXAMPLE_COUNT, min_examples) >= min_examples
        ]
        sign = 1 if self.higher_is_better else -1
        return sorted(slices, key=lambda name: sign * self.metrics[name][str(metric)])[:count]


def read_evaluation(directory: str) -> EvaluationResult:
    """Read the `ModelEvaluation` artifact at `directory`."""
    # TensorFlow Model Analysis takes seconds to import; whoever ran an Evaluator has done so.
    from tensorflow_model_analysis.proto import metrics_for_slice_pb2

    metrics: dict[str, dict[str, float]] = {}
    for name in sorted(os.listdir(directory)):
        if name.startswith("metrics"):
            for record in read_records(os.path.join(directory, name)):
                message = metrics_for_slice_pb2.MetricsForSlice.FromString(record.payload)
                metrics.setdefault(_slice_name(message.slice_key), {}).update(_values(message))
    validation = _read_validation(directory)
    deciding, higher = _deciding_metric(directory, metrics.get(OVERALL, {}))
    return EvaluationResult(metrics, tuple(_failures(validation)), deciding, higher)


def _slice_name(key: Any) -> str:
    parts = []
    for part in key.single_slice_keys:
        value = getattr(part, part.WhichOneof("kind"))
        parts.append(f"{part.column}={value.decode() if isinstance(value, bytes) else value}")
    return ", ".join(parts) or OVERALL


def _values(message: Any) -> Iterator[tuple[str, float]]:
    """The candidate's own scalar metrics, not the baseline's and not differences to it."""
    for entry in message.metric_keys_and_values:
        key, kind = entry.key, entry.value.WhichOneof("type")
        if key.is_diff or key.model_name not in ("", "candidate"):
            continue
        if kind in ("double_value", "bounded_value"):
            value = getattr(entry.value, kind).value
            yield key.name, value.value if hasattr(value, "value") else value


def _read_validation(directory: str) -> Any:
    from tensorflow_model_analysis.proto import validation_result_pb2

    path = os.path.join(directory, "validations.tfrecord")
    merged = validation_result_pb2.ValidationResult()
    if os.path.exists(path):
        for record in read_records(path):
            merged.MergeFromString(record.payload)
    return merged


def _failures(validation: Any) -> Iterator[str]:
    for part in validation.metric_validations_per_slice:
        where = _slice_name(part.slice_key)
        for failure in part.failures:
            yield (
                f"{failure.metric_key.name} of {where} is {_number(failure.metric_value)}; "
                f"expected {_expected(failure)}"
            )


def _number(value: Any) -> str:
    kind = value.WhichOneof("type")
    return f"{value.double_value.value:.4f}" if kind == "double_value" else (kind or "missing")


def _expected(failure: Any) -> str:
    threshold = failure.metric_threshold
    if failure.metric_key.is_diff:
        change = threshold.change_threshold
        return f"a change to the baseline of at least {change.absolute.value:+.4f}"
    bounds = threshold.value_threshold
    parts = []
    if bounds.HasField("lower_bound"):
        parts.append(f"at least {bounds.lower_bound.value:g}")
    if bounds.HasField("upper_bound"):
        parts.append(f"at most {bounds.upper_bound.value:g}")
    return " and ".join(parts) or failure.message or "another value"


def _deciding_metric(directory: str, overall: Mapping[str, float]) -> tuple[str | None, bool]:
    """The first metric that has a threshold, and whether more of it is better."""
    for metric in _configured_metrics(directory):
        name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", metric["className"]).lower()
        for threshold in _thresholds(metric):
            if name in overall:
                return name, "upperBound" not in threshold.get("valueThreshold", {})
    others = [name for name in overall if name != EXAMPLE_COUNT]
    return (others[0], "entropy" not in others[0]) if others else (None, True)


def _configured_metrics(directory: str) -> Iterator[dict[str, Any]]:
    with open(os.path.join(directory, "eval_config.json"), encoding="utf-8") as file:
        config = json.load(file)["evalConfig"]
    for spec in config.get("metricsSpecs", ()):
        yield from spec.get("metrics", ())


def _thresholds(metric: Mapping[str, Any]) -> list[dict[str, Any]]:
    per_slice = [entry.get("threshold", {}) for entry in metric.get("perSliceThresholds", ())]
    return [metric["threshold"], *per_slice] if "threshold" in metric else per_slice
