"""Writes `evaluation.json` from the files of an evaluation, which TFMA or Penstock wrote."""

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate
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
from penstock.components.evaluator.intervals import Interval, binary_counts, intervals
from penstock.components.evaluator.slice_metrics import (
    EXAMPLE_COUNT,
    OVERALL,
    meaningful,
    rows_in_no_slice,
)

Metrics = dict[str, dict[str, float]]

_DECIDES_AT = 0.5
_CALIBRATION_GROUPS = 20
_MOST_CLASSES = 40
_MOST_POINTS = 500  # of a curve: 50 KB, closer than the pixels of a plot


def write_evaluation(
    folder: str, rows: int | None = None, held_out: Evaluation | None = None
) -> Evaluation:
    """Reads TFMA's files in a folder, and writes and returns their facts.

    `rows` is the number of evaluated rows; without it, TFMA's unweighted count.
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
    """Returns the facts in TFMA's files in a folder, also in those of TFX's own Evaluator."""
    config = eval_config_writer.load_eval_run(folder)[0] or config_pb2.EvalConfig()
    specs = config.model_specs
    baselines = {spec.name for spec in specs if spec.is_baseline and len(specs) > 1}
    messages = [one for one in tfma.load_metrics(folder) if not _compares_slices(one)]
    plots = list(_plots(folder, baselines))
    metrics, baseline = (
        _metrics(messages, plots if of_candidate else (), baselines, of_candidate=of_candidate)
        for of_candidate in (True, False)
    )
    is_validated = tf.io.gfile.glob(os.path.join(folder, "validations*"))
    validation = tfma.load_validation_result(folder) if is_validated else None
    thresholds = tuple(_thresholds(config, baselines, validation))
    deciding, higher = _deciding_metric(thresholds, metrics.get(OVERALL, {}))
    weighted = any(spec.example_weight_key or spec.example_weight_keys for spec in specs)
    overall = [plot for where, plot in plots if where == OVERALL]
    return Evaluation(
        metrics,
        tuple(_failures(validation)),
        deciding,
        higher,
        rows=_rows(messages) if rows is None else rows,
        weighted=weighted,
        blessed=validation.validation_ok if thresholds and validation else None,
        baseline=baseline,
        intervals={} if weighted else _intervals(metrics, _squares_errors(folder)),
        thresholds=thresholds,
        confusions=_confusions(overall, metrics.get(OVERALL, {})),
        curves=_curves(overall),
    )


def _compares_slices(message: Any) -> bool:
    return bool(message.WhichOneof("slicing_spec_oneof") == "cross_slice_key")


def _plots(folder: str, baselines: set[str]) -> Iterator[tuple[str, Any]]:
    for message in tfma.load_plots(folder):
        for entry in () if _compares_slices(message) else message.plot_keys_and_values:
            if entry.key.model_name not in baselines:
                yield slice_name(message.slice_key), entry


def slice_name(key: Any) -> str:
    """Formats a TFMA slice key: `payment_type=Cash, trip_start_hour=3`, or `overall`."""
    parts = []
    for part in key.single_slice_keys:
        value = getattr(part, part.WhichOneof("kind"))
        parts.append(f"{part.column}={value.decode() if isinstance(value, bytes) else value}")
    return ", ".join(parts) or OVERALL


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
    return of_output(key.output_name, "".join([key.name, *of_class]))


def of_output(output: str, metric: str) -> str:
    """Returns `price/auc` for the output `price_xf`, `auc` for the only output."""
    return f"{output.removesuffix('_xf')}/{metric}" if output else metric


def _metrics(
    messages: Sequence[Any],
    plots: Sequence[tuple[str, Any]],
    baselines: set[str],
    *,
    of_candidate: bool,
) -> Metrics:
    found: Metrics = {}
    features: dict[str, tuple[str, ...]] = {}
    for message in messages:
        where = slice_name(message.slice_key)
        if where != OVERALL:
            features[where] = tuple(k.column for k in message.slice_key.single_slice_keys)
        values = {
            _name(entry.key): value
            for entry in message.metric_keys_and_values
            if not entry.key.is_diff
            and (entry.key.model_name not in baselines) is of_candidate
            and (value := _value(entry.value)) is not None
        }
        if values:
            found.setdefault(where, {}).update(values)
    return meaningful({**found, **rows_in_no_slice(found, features)}, partial(_positives, plots))


def _value(value: Any) -> float | None:
    kind = value.WhichOneof("type")
    if kind not in ("double_value", "bounded_value"):
        return None
    held = getattr(value, kind).value
    return float(held.value if hasattr(held, "value") else held)


def _positives(plots: Sequence[tuple[str, Any]], where: str) -> tuple[float, float] | None:
    """Returns positive rows and all rows of a slice; None without a histogram of predictions."""
    for of_slice, entry in plots:
        buckets = entry.value.calibration_histogram_buckets.buckets
        if of_slice == where and buckets:
            labels = sum(bucket.total_weighted_label.value for bucket in buckets)
            return labels, sum(bucket.num_weighted_examples.value for bucket in buckets)
    return None


def _rows(messages: Sequence[Any]) -> int | None:
    for message in messages:
        if slice_name(message.slice_key) == OVERALL:
            for entry in message.metric_keys_and_values:
                if entry.key.name == EXAMPLE_COUNT and not entry.key.example_weighted.value:
                    return round(entry.value.double_value.value)
    return None


def _thresholds(
    config: config_pb2.EvalConfig, baselines: set[str], validation: Any
) -> Iterator[Threshold]:
    known = metric_specs.metric_thresholds_from_metrics_specs(
        config.metrics_specs, eval_config=config
    )
    for key, of_key in known.items():
        for spec, threshold in of_key:
            of_rows = spec is None or isinstance(spec, config_pb2.SlicingSpec)
            if key.model_name not in baselines and of_rows:
                yield _threshold(key, spec or config_pb2.SlicingSpec(), threshold, validation)


def _threshold(
    key: metric_types.MetricKey, spec: config_pb2.SlicingSpec, threshold: Any, validation: Any
) -> Threshold:
    keys = [f"each {name}" for name in spec.feature_keys]
    values = [f"{name}={value}" for name, value in spec.feature_values.items()]
    is_value = isinstance(threshold, config_pb2.GenericValueThreshold)
    upper = _bound(threshold, "upper_bound")
    higher = (
        upper is None
        if is_value
        else threshold.direction != config_pb2.MetricDirection.LOWER_IS_BETTER
    )
    return Threshold(
        _name(key.to_proto()),
        ", ".join(keys + values) or OVERALL,
        lower=_bound(threshold, "lower_bound"),
        upper=upper,
        change=_bound(threshold, "absolute"),
        relative=_bound(threshold, "relative"),
        higher_is_better=higher,
        passed=validation is not None and not _is_missed(key, spec, threshold, validation),
    )


def _bound(threshold: Any, name: str) -> float | None:
    if name not in threshold.DESCRIPTOR.fields_by_name or not threshold.HasField(name):
        return None
    return float(getattr(threshold, name).value)


def _is_missed(
    key: metric_types.MetricKey, spec: config_pb2.SlicingSpec, threshold: Any, validation: Any
) -> bool:
    if spec in validation.missing_slices:
        return True
    own, slices = key.to_proto(), slicer_lib.SingleSliceSpec(spec=spec)
    applies_to_all = not spec.feature_keys and not spec.feature_values
    for part in validation.metric_validations_per_slice:
        if not applies_to_all and not slices.is_slice_applicable(
            slicer_lib.deserialize_slice_key(part.slice_key)
        ):
            continue
        for failure in part.failures:
            limit = failure.metric_threshold
            if failure.metric_key == own and threshold in (
                limit.value_threshold,
                limit.change_threshold,
            ):
                return True
    return False


def _failures(validation: Any) -> Iterator[str]:
    for part in validation.metric_validations_per_slice if validation else ():
        where = slice_name(part.slice_key)
        for failure in part.failures:
            name, value = _name(failure.metric_key), _value(failure.metric_value)
            found = "missing" if value is None else f"{value:.4f}"
            yield f"{name} of {where} is {found}; expected {_expected(failure)}"
    for spec in validation.missing_slices if validation else ():
        values = [f"{name}={value}" for name, value in spec.feature_values.items()]
        yield f"no row is in slice {', '.join([*spec.feature_keys, *values])}; expected some"


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
    """Returns the standard error of the mean squared error by prefix of the target and by slice."""
    path = os.path.join(folder, ERROR_ANALYSIS_NAME)
    if not tf.io.gfile.exists(path):
        return {}
    with tf.io.gfile.GFile(path) as file:
        targets = json.load(file)["targets"]
    return {
        of_output(target if len(targets) > 1 else "", ""): {
            name or OVERALL: error for name, error in (found["squared_errors"] or {}).items()
        }
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


def _confusions(plots: Sequence[Any], overall: Mapping[str, float]) -> dict[str, Confusion]:
    found = {}
    for entry in plots:
        output = of_output(entry.key.output_name, "").rstrip("/")
        if entry.value.multi_class_confusion_matrix_at_thresholds.matrices:
            found[output] = _of_classes(entry.value)
        elif entry.value.confusion_matrix_at_thresholds.matrices and output not in found:
            found[output] = _of_two_classes(entry.value)
    # With a single output, the counts of two classes also follow from its metrics.
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


def _curves(plots: Sequence[Any]) -> dict[str, Curves]:
    found: dict[str, Curves] = {}
    for entry in plots:
        buckets = [
            bucket
            for bucket in entry.value.calibration_histogram_buckets.buckets
            if bucket.num_weighted_examples.value
        ]
        output = of_output(entry.key.output_name, "").rstrip("/")
        if buckets and output not in found:
            found[output] = Curves(tuple(_decisions(buckets)), tuple(_calibration(buckets)))
    return found


def _calibration(buckets: Sequence[Any]) -> list[CalibrationPoint]:
    """Merges TFMA's buckets, 10,000 by default, into groups of enough examples."""
    groups: dict[int, list[float]] = {}
    for bucket in buckets:
        examples = bucket.num_weighted_examples.value
        predicted = bucket.total_weighted_refined_prediction.value
        place = int(predicted / examples * _CALIBRATION_GROUPS)
        number = max(0, min(place, _CALIBRATION_GROUPS - 1))
        group = groups.setdefault(number, [0.0, 0.0, 0.0])
        group[0] += predicted
        group[1] += bucket.total_weighted_label.value
        group[2] += examples
    return [
        CalibrationPoint(predicted / examples, actual / examples, examples)
        for _, (predicted, actual, examples) in sorted(groups.items())
    ]


def _decisions(buckets: Sequence[Any]) -> list[Decision]:
    """Counts true and false positives at each threshold by running sums over TFMA's buckets.

    A bucket holds the examples whose prediction lies between its thresholds, so the sums from the
    top down to a bucket are exact for the bucket's lower threshold. Buckets without examples add
    nothing.
    """
    ordered = sorted(buckets, key=lambda b: b.lower_threshold_inclusive, reverse=True)
    labels = [b.total_weighted_label.value for b in ordered]
    others = [b.num_weighted_examples.value - b.total_weighted_label.value for b in ordered]
    positives, negatives = sum(labels), sum(others)
    if min(positives, negatives) <= 0:
        return []
    sums = zip(accumulate(labels), accumulate(others), strict=True)
    every = [
        Decision(min(1.0, max(0.0, b.lower_threshold_inclusive)), *pair, positives, negatives)
        for b, pair in zip(ordered, sums, strict=True)
    ]
    return [every[place] for place in _kept(every)]


def _kept(decisions: Sequence[Decision]) -> list[int]:
    """Returns the places of points evenly spaced along the ROC curve; all of a short curve.

    The first points are kept, where precision changes most, and the one that decides at 1/2.
    """
    if len(decisions) <= _MOST_POINTS:
        return list(range(len(decisions)))
    along = [one.recall + one.alarm_rate for one in decisions]
    even = np.searchsorted(along, np.linspace(along[0], along[-1], _MOST_POINTS * 9 // 10))
    above = sum(one.threshold >= _DECIDES_AT for one in decisions)
    kept = {*range(_MOST_POINTS // 20), *even.tolist(), max(0, above - 1), len(decisions) - 1}
    return sorted(place for place in kept if place < len(decisions))
