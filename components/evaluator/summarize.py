"""Writes `evaluation.json` from the files of an evaluation, which TFMA or Penstock wrote."""

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_model_analysis as tfma
from tensorflow_model_analysis.metrics import metric_specs, metric_types
from tensorflow_model_analysis.proto import config_pb2
from tensorflow_model_analysis.slicer import slicer_lib
from tensorflow_model_analysis.writers import eval_config_writer

from penstock.components.evaluator import ERROR_ANALYSIS_NAME
from penstock.components.evaluator.evaluation import (
    EVALUATION_NAME,
    CalibrationPoint,
    Confusion,
    Curves,
    Decision,
    Evaluation,
    HeldOut,
    Threshold,
)
from penstock.components.evaluator.slice_metrics import (
    EXAMPLE_COUNT,
    OVERALL,
    Interval,
    binary_counts,
    intervals,
    meaningful,
    rows_in_no_slice,
    slice_name,
)
from penstock.components.evaluator.slices import SliceKey

Metrics = dict[str, dict[str, float]]
Entries = Sequence[tuple[SliceKey, Any]]  # slice, and one of its metrics or plots
Plots = Sequence[tuple[str, str, Any]]  # slice, output and value

_DECIDES_AT = 0.5
_CALIBRATION_GROUPS = 20
_MOST_CLASSES = 40
_MOST_POINTS = 500  # maximum per curve: 50 KB, denser than the pixels of a plot


def write_evaluation(
    folder: str, rows: int | None = None, held_out: Evaluation | None = None
) -> Evaluation:
    """Summarizes TFMA's files in a folder; writes and returns the summary.

    `rows` is the number of evaluated rows; without it, TFMA's unweighted count is used.
    """
    found = summarized(folder, rows)
    if held_out is not None:
        found = replace(
            found,
            held_out=HeldOut(
                held_out.rows or 0,
                held_out.metrics.get(OVERALL, {}),
                held_out.intervals.get(OVERALL, {}),
                held_out.curves,
            ),
        )
    with tf.io.gfile.GFile(os.path.join(folder, EVALUATION_NAME), "w") as file:
        file.write(found.to_json())
    return found


def summarized(folder: str, rows: int | None = None) -> Evaluation:
    """Summarizes TFMA's files in a folder; TFX's own Evaluator may have written them."""
    config = eval_config_writer.load_eval_run(folder)[0] or config_pb2.EvalConfig()
    specs = config.model_specs
    baselines = {spec.name for spec in specs if spec.is_baseline and len(specs) > 1}
    entries = _entries(tfma.load_metrics(folder), "metric_keys_and_values")
    plots = [
        (slice_name(key), _prefix(entry.key.output_name).rstrip("/"), entry.value)
        for key, entry in _entries(tfma.load_plots(folder), "plot_keys_and_values")
        if entry.key.model_name not in baselines
    ]
    metrics, baseline = _metrics(entries, baselines, plots)
    is_validated = tf.io.gfile.glob(os.path.join(folder, "validations*"))
    validation = tfma.load_validation_result(folder) if is_validated else None
    thresholds = tuple(_thresholds(config, baselines, validation))
    deciding, higher = _deciding_metric(thresholds, metrics.get(OVERALL, {}))
    weighted = any(spec.example_weight_key or spec.example_weight_keys for spec in specs)
    overall = [(output, plot) for where, output, plot in plots if where == OVERALL]
    return Evaluation(
        metrics,
        tuple(_failures(validation)),
        deciding,
        higher,
        rows=_rows(entries) if rows is None else rows,
        weighted=weighted,
        blessed=validation.validation_ok if thresholds and validation else None,
        baseline=baseline,
        intervals={} if weighted else _intervals(metrics, _squares_errors(folder)),
        thresholds=thresholds,
        confusions=_confusions(overall, metrics.get(OVERALL, {})),
        curves=_curves(overall),
    )


def _entries(messages: Iterable[Any], field: str) -> Entries:
    """Returns the entries of TFMA's messages, each with its slice; leaves out cross slices."""
    return [
        (slicer_lib.deserialize_slice_key(message.slice_key), entry)
        for message in messages
        if not message.HasField("cross_slice_key")
        for entry in getattr(message, field)
    ]


def _name(key: Any) -> str:
    """Formats a TFMA metric key: `auc`, `price/auc` with several targets, `auc (class 2)`."""
    if key.name == EXAMPLE_COUNT:
        return str(key.name)
    parts = {"class_id": "class", "k": "k", "top_k": "top"}
    of_class = [
        f" ({word} {getattr(key.sub_key, name).value})"
        for name, word in parts.items()
        if key.sub_key.HasField(name)
    ]
    return "".join([_prefix(key.output_name), key.name, *of_class])


def _prefix(output: str) -> str:
    """Returns `price/` for the output `price_xf`; "" for a single output, which has no name."""
    return f"{output.removesuffix('_xf')}/" if output else ""


def _metrics(entries: Entries, baselines: set[str], plots: Plots) -> Sequence[Metrics]:
    """Returns the metrics by slice and name, first of the candidate, then of the baseline."""
    features = {slice_name(key): tuple(name for name, _ in key) for key, _ in entries}
    found: tuple[Metrics, Metrics] = ({}, {})
    for key, entry in entries:
        value = _value(entry.value)
        if value is not None and not entry.key.is_diff:
            of_model = found[entry.key.model_name in baselines]
            of_model.setdefault(slice_name(key), {})[_name(entry.key)] = value
    return [
        meaningful({**metrics, **rows_in_no_slice(metrics, features)}, partial(_positives, shown))
        for metrics, shown in zip(found, (plots, ()), strict=True)
    ]


def _value(value: Any) -> float | None:
    kind = value.WhichOneof("type")
    if kind not in ("double_value", "bounded_value"):
        return None
    held = getattr(value, kind).value
    return float(held.value if hasattr(held, "value") else held)


def _positives(plots: Plots, where: str) -> tuple[float, float] | None:
    """Returns the numbers of positive rows and of all rows of a slice; None without a histogram."""
    for of_slice, _, plot in plots:
        buckets = plot.calibration_histogram_buckets.buckets
        if of_slice == where and buckets:
            labels = sum(bucket.total_weighted_label.value for bucket in buckets)
            return labels, sum(bucket.num_weighted_examples.value for bucket in buckets)
    return None


def _rows(entries: Entries) -> int | None:
    counts = (
        round(entry.value.double_value.value)
        for key, entry in entries
        if not key and entry.key.name == EXAMPLE_COUNT and not entry.key.example_weighted.value
    )
    return next(counts, None)


def _thresholds(
    config: config_pb2.EvalConfig, baselines: set[str], validation: Any
) -> Iterator[Threshold]:
    known = metric_specs.metric_thresholds_from_metrics_specs(
        config.metrics_specs, eval_config=config
    )
    for key, of_key in known.items():
        for spec, threshold in of_key:
            is_of_rows = not isinstance(spec, config_pb2.CrossSlicingSpec)
            if key.model_name not in baselines and is_of_rows:
                yield _threshold(key, spec or config_pb2.SlicingSpec(), threshold, validation)


def _threshold(
    key: metric_types.MetricKey, spec: config_pb2.SlicingSpec, threshold: Any, validation: Any
) -> Threshold:
    upper = _bound(threshold, "upper_bound")
    lower_is_better = (
        upper is not None
        if isinstance(threshold, config_pb2.GenericValueThreshold)
        else threshold.direction == config_pb2.MetricDirection.LOWER_IS_BETTER
    )
    return Threshold(
        _name(key.to_proto()),
        _spec_name(spec, each="each ") or OVERALL,
        lower=_bound(threshold, "lower_bound"),
        upper=upper,
        change=_bound(threshold, "absolute"),
        relative=_bound(threshold, "relative"),
        higher_is_better=not lower_is_better,
        passed=validation is not None and not _is_missed(key, spec, threshold, validation),
    )


def _spec_name(spec: config_pb2.SlicingSpec, *, each: str = "") -> str:
    values = [f"{name}={value}" for name, value in spec.feature_values.items()]
    return ", ".join([*(f"{each}{name}" for name in spec.feature_keys), *values])


def _bound(threshold: Any, name: str) -> float | None:
    if name not in threshold.DESCRIPTOR.fields_by_name or not threshold.HasField(name):
        return None
    return float(getattr(threshold, name).value)


def _is_missed(
    key: metric_types.MetricKey, spec: config_pb2.SlicingSpec, threshold: Any, validation: Any
) -> bool:
    own, slices = key.to_proto(), slicer_lib.SingleSliceSpec(spec=spec)
    applies_to_all = not spec.feature_keys and not spec.feature_values
    return spec in validation.missing_slices or any(
        failure.metric_key == own
        and threshold
        in (failure.metric_threshold.value_threshold, failure.metric_threshold.change_threshold)
        for part in validation.metric_validations_per_slice
        if applies_to_all
        or slices.is_slice_applicable(slicer_lib.deserialize_slice_key(part.slice_key))
        for failure in part.failures
    )


def _failures(validation: Any) -> Iterator[str]:
    for part in validation.metric_validations_per_slice if validation else ():
        where = slice_name(slicer_lib.deserialize_slice_key(part.slice_key))
        for failure in part.failures:
            name, value = _name(failure.metric_key), _value(failure.metric_value)
            found = "missing" if value is None else f"{value:.4f}"
            yield f"{name} of {where} is {found}; expected {_expected(failure)}"
    for spec in validation.missing_slices if validation else ():
        yield f"no row is in slice {_spec_name(spec)}; expected some"


def _expected(failure: Any) -> str:
    limits = failure.metric_threshold
    change, bounds = limits.change_threshold, limits.value_threshold
    if failure.metric_key.is_diff:
        return f"a change to the baseline of at least {change.absolute.value:+.4f}"
    lower, upper = _bound(bounds, "lower_bound"), _bound(bounds, "upper_bound")
    parts = [f"at least {lower:g}"] if lower is not None else []
    parts += [f"at most {upper:g}"] if upper is not None else []
    return " and ".join(parts) or failure.message or "another value"


def _deciding_metric(
    thresholds: Iterable[Threshold], overall: Mapping[str, float]
) -> tuple[str | None, bool]:
    for threshold in thresholds:
        if threshold.metric in overall:
            return threshold.metric, threshold.higher_is_better
    others = [name for name in overall if name != EXAMPLE_COUNT]
    return (others[0], "entropy" not in others[0]) if others else (None, True)


def _squares_errors(folder: str) -> dict[str, dict[str, float]]:
    """Returns the standard error of the mean squared error by target prefix and by slice."""
    path = os.path.join(folder, ERROR_ANALYSIS_NAME)
    if not tf.io.gfile.exists(path):
        return {}
    with tf.io.gfile.GFile(path) as file:
        targets = json.load(file)["targets"]
    return {
        _prefix(target if len(targets) > 1 else ""): found["squared_errors"] or {}
        for target, found in targets.items()
    }


def _intervals(
    metrics: Metrics, errors: Mapping[str, Mapping[str, float]]
) -> dict[str, dict[str, Interval]]:
    found: dict[str, dict[str, Interval]] = {}
    for where, values in metrics.items():
        of_target: Metrics = {}
        for name, value in values.items():
            prefix, slash, metric = name.rpartition("/")
            of_target.setdefault(prefix + slash, {})[metric] = value
        rows = values.get(EXAMPLE_COUNT, 0.0)
        found[where] = {
            f"{prefix}{metric}": ends
            for prefix, of in of_target.items()
            for metric, ends in intervals(
                {**of, EXAMPLE_COUNT: rows}, errors.get(prefix, {}).get(where, 0.0)
            ).items()
        }
    return found


def _confusions(
    plots: Sequence[tuple[str, Any]], overall: Mapping[str, float]
) -> dict[str, Confusion]:
    found: dict[str, Confusion] = {}
    for output, plot in plots:
        if plot.multi_class_confusion_matrix_at_thresholds.matrices:
            found[output] = _of_classes(plot)
        elif plot.confusion_matrix_at_thresholds.matrices:
            found.setdefault(output, _of_two_classes(plot))
    # With a single output, the counts of a binary model can also be computed from its metrics.
    if not found and (counts := binary_counts(overall)):
        found[""] = Confusion(("0", "1"), counts, _DECIDES_AT, plotted=False)
    return found


def _of_classes(plot: Any) -> Confusion:
    matrix = plot.multi_class_confusion_matrix_at_thresholds.matrices[0]
    entries = {
        (e.actual_class_id, e.predicted_class_id): e.num_weighted_examples for e in matrix.entries
    }
    ids = sorted({i for pair in entries for i in pair})[:_MOST_CLASSES]
    counts = tuple(tuple(entries.get((actual, said), 0.0) for said in ids) for actual in ids)
    return Confusion(tuple("none" if i == -1 else str(i) for i in ids), counts, matrix.threshold)


def _of_two_classes(plot: Any) -> Confusion:
    matrices = plot.confusion_matrix_at_thresholds.matrices
    best = min(matrices, key=lambda matrix: abs(matrix.threshold - _DECIDES_AT))
    counts = (
        (best.true_negatives, best.false_positives),
        (best.false_negatives, best.true_positives),
    )
    return Confusion(("0", "1"), counts, best.threshold)


def _curves(plots: Sequence[tuple[str, Any]]) -> dict[str, Curves]:
    found: dict[str, Curves] = {}
    for output, plot in plots:
        buckets = [
            (
                bucket.lower_threshold_inclusive,
                bucket.total_weighted_refined_prediction.value,
                bucket.total_weighted_label.value,
                bucket.num_weighted_examples.value,
            )
            for bucket in plot.calibration_histogram_buckets.buckets
            if bucket.num_weighted_examples.value
        ]
        if buckets and output not in found:
            lower, *sums = np.array(buckets).T
            found[output] = Curves(_decisions(lower, *sums[1:]), _calibration(*sums))
    return found


def _calibration(
    predicted: np.ndarray, labels: np.ndarray, examples: np.ndarray
) -> tuple[CalibrationPoint, ...]:
    """Merges TFMA's buckets, 10,000 by default, into at most 20 groups by mean prediction."""
    places = (predicted / examples * _CALIBRATION_GROUPS).astype(np.int64)
    groups = np.clip(places, 0, _CALIBRATION_GROUPS - 1)
    sums = (np.bincount(groups, of).tolist() for of in (predicted, labels, examples))
    return tuple(
        CalibrationPoint(mean / count, actual / count, count)
        for mean, actual, count in zip(*sums, strict=True)
        if count
    )


def _decisions(lower: np.ndarray, labels: np.ndarray, examples: np.ndarray) -> tuple[Decision, ...]:
    """Counts true and false positives at each threshold by cumulative sums over the buckets.

    A bucket holds the examples whose prediction lies between its thresholds, so the sums from the
    top down to a bucket are exact for the bucket's lower threshold. Buckets without examples add
    nothing.
    """
    falling = np.argsort(-lower, kind="stable")
    sums = np.cumsum([labels[falling], (examples - labels)[falling]], axis=1)
    positives, negatives = sums[:, -1].tolist()
    if min(positives, negatives) <= 0:
        return ()
    thresholds = np.clip(lower[falling], 0.0, 1.0)
    points = zip(thresholds.tolist(), *sums.tolist(), strict=True)
    every = [Decision(at, hits, alarms, positives, negatives) for at, hits, alarms in points]
    return tuple(every[place] for place in _kept(every))


def _kept(decisions: Sequence[Decision]) -> list[int]:
    """Returns the indices of points spaced evenly along the ROC curve; a short curve keeps all.

    The first points, where precision changes most, and the point of the decision threshold 1/2 are
    kept too.
    """
    if len(decisions) <= _MOST_POINTS:
        return list(range(len(decisions)))
    along = [one.recall + one.alarm_rate for one in decisions]
    even = np.searchsorted(along, np.linspace(along[0], along[-1], _MOST_POINTS * 9 // 10))
    above = sum(one.threshold >= _DECIDES_AT for one in decisions)
    kept = {*range(_MOST_POINTS // 20), *even.tolist(), max(0, above - 1), len(decisions) - 1}
    return sorted(place for place in kept if place < len(decisions))
