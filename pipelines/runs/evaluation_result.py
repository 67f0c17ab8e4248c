"""An evaluation as plain values: metrics by slice, and the reasons why a model is not blessed."""

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.components.evaluator import slice_metrics as slices
from penstock.components.files.spool import local_folder
from penstock.components.tfrecord.records import read_records
from penstock.pipelines.runs.submodules import submodules_only

OVERALL, EXAMPLE_COUNT = slices.OVERALL, slices.EXAMPLE_COUNT
MIN_SLICE_EXAMPLES = 30  # with fewer rows, a slice's metric is mostly chance
# A share of 1/2 observed in 100 rows has a 95 % interval of +-0.1.
_FEW_ROWS = 100


@dataclass(frozen=True)
class Threshold:
    """Threshold of a metric for a blessing; a bound that is not set is None."""

    metric: str
    where: str
    lower: float | None
    upper: float | None
    change: float | None  # allowed worsening (below 0) or required improvement
    higher_is_better: bool


@dataclass(frozen=True)
class EvaluationResult:
    """An evaluation of a model; `failures` are the reasons not to bless it, a line each."""

    # By slice (`OVERALL`, `hour=14`, `hour missing`) and metric (`auc`; `price/auc` with several
    # targets).
    metrics: Mapping[str, Mapping[str, float]]
    failures: tuple[str, ...]
    deciding_metric: str | None  # the first with a threshold, else the first
    higher_is_better: bool
    baseline: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    thresholds: tuple[Threshold, ...] = ()

    @property
    def caution(self) -> str:
        """Sentence that warns of too few rows for a reliable verdict; empty with enough rows."""
        rows = self.metrics.get(OVERALL, {}).get(EXAMPLE_COUNT, _FEW_ROWS)
        if rows >= _FEW_ROWS:
            return ""
        return (
            f"only {rows:,.0f} rows were evaluated: below {_FEW_ROWS} whether a threshold is "
            "reached is mostly chance; evaluate on more data before you trust it"
        )

    def worst_slices(self, count: int, *, min_examples: int = MIN_SLICE_EXAMPLES) -> list[str]:
        """Returns the slices with the worst deciding metric, without slices of few rows."""
        few = self.small_slices(min_examples)
        return [name for name in self._worst_first() if name not in few][:count]

    def small_slices(self, min_examples: int = MIN_SLICE_EXAMPLES) -> list[str]:
        """Returns the slices of few rows, the worst first, slices without the metric last."""
        ordered = dict.fromkeys((*self._worst_first(), *self.metrics))
        return [
            name
            for name in ordered
            if name != OVERALL
            and self.metrics[name].get(EXAMPLE_COUNT, min_examples) < min_examples
        ]

    def _worst_first(self) -> list[str]:
        metric = str(self.deciding_metric)
        known = [name for name, of in self.metrics.items() if name != OVERALL and metric in of]
        sign = 1 if self.higher_is_better else -1
        return sorted(known, key=lambda name: sign * self.metrics[name][metric])


def read_evaluation(directory: str) -> EvaluationResult:
    """Reads the `ModelEvaluation` artifact at `directory`."""
    directory = local_folder(directory)
    metrics: dict[str, dict[str, float]] = {}
    baseline: dict[str, dict[str, float]] = {}
    features: dict[str, tuple[str, ...]] = {}
    for message in _messages(directory, "metrics", "MetricsForSlice"):
        where = slice_name(message.slice_key)
        if where != OVERALL:
            features[where] = tuple(k.column for k in message.slice_key.single_slice_keys)
        metrics.setdefault(where, {}).update(_values(message, ("", "candidate")))
        if of_baseline := dict(_values(message, ("baseline",))):
            baseline.setdefault(where, {}).update(of_baseline)
    metrics, baseline = (
        slices.meaningful(
            {**found, **slices.rows_in_no_slice(found, features)}, lambda: _positives(directory)
        )
        for found in (metrics, baseline)
    )
    thresholds = tuple(_thresholds(directory))
    deciding, higher = _deciding_metric(thresholds, metrics.get(OVERALL, {}))
    failures = tuple(_failures(directory))
    return EvaluationResult(metrics, failures, deciding, higher, baseline, thresholds)


def read_example_count(directory: str) -> int | None:
    """Returns the number of rows of the overall metrics of a `ModelEvaluation`; None if unknown.

    It is unknown if counts are weighted, or if overall metrics or the example count are missing.
    """
    directory = local_folder(directory)
    for message in _messages(directory, "metrics", "MetricsForSlice"):
        if slice_name(message.slice_key) != OVERALL:
            continue
        for entry in message.metric_keys_and_values:
            if entry.key.name == EXAMPLE_COUNT and not entry.key.example_weighted.value:
                return round(entry.value.double_value.value)
    return None


def read_plots(directory: str) -> Iterator[tuple[str, Any]]:
    """Yields slice name and plots of each entry of a `ModelEvaluation` on this machine."""
    for message in _messages(directory, "plots", "PlotsForSlice"):
        for entry in message.plot_keys_and_values:
            yield slice_name(message.slice_key), entry


def _messages(directory: str, prefix: str, type_name: str) -> Iterator[Any]:
    kind = _message_type(type_name)
    for name in sorted(os.listdir(directory)):
        if name.startswith(prefix):
            for record in read_records(os.path.join(directory, name)):
                message = kind.FromString(record.payload)
                if not _compares_slices(message):
                    yield message


def _message_type(name: str) -> Any:
    """Imports a proto message of TFMA without TFMA itself, whose import takes 5 s of CPU."""
    with submodules_only("tensorflow_model_analysis"):
        # The last two protos need the first two, but do not import them on Python 3.13.
        from google.protobuf import wrappers_pb2  # noqa: F401
        from tensorflow_model_analysis.proto import (
            config_pb2,  # noqa: F401
            metrics_for_slice_pb2,
            validation_result_pb2,
        )
    return getattr(metrics_for_slice_pb2, name, None) or getattr(validation_result_pb2, name)


def _compares_slices(message: Any) -> bool:
    one_of = "slicing_spec_oneof"
    has_two_keys = one_of in message.DESCRIPTOR.oneofs_by_name
    return has_two_keys and message.WhichOneof(one_of) == "cross_slice_key"


def slice_name(key: Any) -> str:
    """Formats a TFMA slice key: `payment_type=Cash, trip_start_hour=3`, or `OVERALL`."""
    parts = []
    for part in key.single_slice_keys:
        value = getattr(part, part.WhichOneof("kind"))
        parts.append(f"{part.column}={value.decode() if isinstance(value, bytes) else value}")
    return ", ".join(parts) or OVERALL


def _name(key: Any) -> str:
    """Formats a TFMA metric key: `auc`, or `price/auc` with several targets."""
    return key.name if key.name == EXAMPLE_COUNT else of_output(key.output_name, key.name)


def of_output(output: str, metric: str) -> str:
    """Returns `price/auc` for the output `price_xf`, `auc` for the only output."""
    return f"{output.removesuffix('_xf')}/{metric}" if output else metric


def _values(message: Any, models: tuple[str, ...]) -> Iterator[tuple[str, float]]:
    for entry in message.metric_keys_and_values:
        key, kind = entry.key, entry.value.WhichOneof("type")
        if key.is_diff or key.model_name not in models:
            continue
        if kind in ("double_value", "bounded_value"):
            value = getattr(entry.value, kind).value
            yield _name(key), value.value if hasattr(value, "value") else value


def _positives(directory: str) -> dict[str, tuple[float, float]]:
    found = {}
    for where, entry in read_plots(directory):
        if buckets := entry.value.calibration_histogram_buckets.buckets:
            found[where] = (
                sum(bucket.total_weighted_label.value for bucket in buckets),
                sum(bucket.num_weighted_examples.value for bucket in buckets),
            )
    return found


def _failures(directory: str) -> Iterator[str]:
    for message in _messages(directory, "validations", "ValidationResult"):
        for part in message.metric_validations_per_slice:
            where = slice_name(part.slice_key)
            for failure in part.failures:
                name, value = _name(failure.metric_key), _number(failure.metric_value)
                yield f"{name} of {where} is {value}; expected {_expected(failure)}"


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


def _deciding_metric(
    thresholds: tuple[Threshold, ...], overall: Mapping[str, float]
) -> tuple[str | None, bool]:
    for threshold in thresholds:
        if threshold.metric in overall:
            return threshold.metric, threshold.higher_is_better
    others = [name for name in overall if name != EXAMPLE_COUNT]
    return (others[0], "entropy" not in others[0]) if others else (None, True)


def _thresholds(directory: str) -> Iterator[Threshold]:
    with open(os.path.join(directory, "eval_config.json"), encoding="utf-8") as file:
        config = json.load(file)["evalConfig"]
    for spec in config.get("metricsSpecs", ()):
        for output in spec.get("outputNames") or [""]:
            for metric in spec.get("metrics", ()):
                name = of_output(output, _metric_name(metric))
                if "threshold" in metric:
                    yield _threshold(name, OVERALL, metric["threshold"])
                for entry in metric.get("perSliceThresholds", ()):
                    yield _threshold(name, _where(entry), entry.get("threshold", {}))
            for metric, raw in spec.get("thresholds", {}).items():
                yield _threshold(of_output(output, metric), OVERALL, raw)
            for metric, entries in spec.get("perSliceThresholds", {}).items():
                name = of_output(output, metric)
                for entry in entries.get("thresholds", ()):
                    yield _threshold(name, _where(entry), entry.get("threshold", {}))


def _metric_name(metric: Mapping[str, Any]) -> str:
    try:
        named = json.loads(metric.get("config") or "{}").get("name")
    except (AttributeError, ValueError):
        named = None
    return named or re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", metric["className"]).lower()


def _where(entry: Mapping[str, Any]) -> str:
    parts = []
    for spec in entry.get("slicingSpecs", ({},)):
        keys = [f"each {key}" for key in spec.get("featureKeys", ())]
        values = [f"{key}={value}" for key, value in spec.get("featureValues", {}).items()]
        parts.append(", ".join(keys + values) or OVERALL)
    return "; ".join(parts)


def _threshold(metric: str, where: str, raw: Mapping[str, Any]) -> Threshold:
    value, change = raw.get("valueThreshold", {}), raw.get("changeThreshold", {})
    lower, upper = value.get("lowerBound"), value.get("upperBound")
    return Threshold(
        metric,
        where,
        lower,
        upper,
        change.get("absolute"),
        # Without an upper bound higher is better, unless the config says otherwise.
        change.get("direction") != "LOWER_IS_BETTER" and upper is None,
    )
